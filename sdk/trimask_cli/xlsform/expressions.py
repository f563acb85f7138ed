"""XLSForm expressions: the limits in a constraint, and a relevance in the words of a study's form.

Whatever is not recognised whole is not carried over at all: half a condition is another condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CannotExpress", "Limits", "limits_of", "relevance_of"]


class CannotExpress(Exception):
    """An expression that a study's form has no words for."""


@dataclass(frozen=True)
class Limits:
    """The least and greatest answer, as numbers or year-month-day; whether a bound itself is left out."""

    minimum: str = ""
    maximum: str = ""
    above: bool = False
    below: bool = False


_LIMIT = re.compile(
    r"""^\.\s*(?P<op><=|>=|<|>|=)\s*(?:(?P<number>-?\d+(?:\.\d+)?)|date\(\s*['"](?P<day>\d{4}-\d\d-\d\d)['"]\s*\))$"""
)


def limits_of(constraint: str) -> Limits:
    """The limits of `. >= 0 and . <= 120`, in either order, one or both; `CannotExpress` for anything else."""
    found = Limits()
    for part in re.split(r"\s+and\s+", constraint.strip()):
        bare = part.strip()
        match = _LIMIT.match(bare[1:-1].strip() if bare.startswith("(") and bare.endswith(")") else bare)
        if match is None or match["op"] == "=":
            raise CannotExpress(constraint)
        value = match["number"] or match["day"]
        if match["op"][0] == ">" and not found.minimum:
            found = Limits(value, found.maximum, match["op"] == ">", found.below)
        elif match["op"][0] == "<" and not found.maximum:
            found = Limits(found.minimum, value, found.above, match["op"] == "<")
        else:
            raise CannotExpress(constraint)
    return found


_TOKEN = re.compile(
    r"""\s*(?:(?P<name>\$\{\s*[^}]+?\s*\})|(?P<number>-?\d+(?:\.\d+)?)|(?P<text>'[^']*'|"[^"]*")|(?P<op><=|>=|!=|=|<|>)"""
    r"""|(?P<word>[A-Za-z][\w-]*)|(?P<mark>[(),]))"""
)


def relevance_of(expression: str, kinds: Mapping[str, str]) -> str:
    """The condition in a form's words. `kinds` are the questions carried over so far, by their names in the XLSForm."""
    tokens = _tokens(expression)
    words: list[str] = []
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        if kind == "word" and text == "selected":
            name, value = _selected(tokens[at : at + 6], expression)
            words.append(_compare(name, "selected", value, kinds, expression))
            at += 6
        elif kind == "name":
            if (
                at + 2 >= len(tokens)
                or tokens[at + 1][0] != "op"
                or tokens[at + 2][0] not in ("number", "text")
            ):
                raise CannotExpress(expression)
            words.append(_compare(text, tokens[at + 1][1], tokens[at + 2][1], kinds, expression))
            at += 3
        elif (kind == "word" and text in ("and", "or", "not")) or (kind == "mark" and text in "()"):
            words.append(text)
            at += 1
        else:
            raise CannotExpress(expression)
    return " ".join(words).replace("( ", "(").replace(" )", ")")


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens, at, text = [], 0, expression.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CannotExpress(expression)
        kind = match.lastgroup or ""
        value = match[kind]
        tokens.append((kind, value[2:-1].strip() if kind == "name" else value))
        at = match.end()
    return tokens


def _selected(tokens: list[tuple[str, str]], expression: str) -> tuple[str, str]:
    shape = [kind if kind in ("name", "text", "word") else text for kind, text in tokens]
    if shape != ["word", "(", "name", ",", "text", ")"]:
        raise CannotExpress(expression)
    return tokens[2][1], tokens[4][1]


def _compare(name: str, op: str, value: str, kinds: Mapping[str, str], expression: str) -> str:
    kind = kinds.get(name)
    bare = value[1:-1] if value[:1] in "'\"" else value
    if kind is None or not bare:
        raise CannotExpress(
            expression
        )  # an unknown question, or "was it answered", which a form does not ask
    if kind == "multiple_choice":
        if op != "selected":
            raise CannotExpress(expression)
        return f'{name} has "{bare}"'
    if op == "selected":
        op = "="
    if kind == "yes_no":
        return f"{name} {op} {bare}"
    if kind == "single_choice":
        return f'{name} {op} "{bare}"'
    return f'{name} {op} "{bare}"' if kind == "date" else f"{name} {op} {bare}"
