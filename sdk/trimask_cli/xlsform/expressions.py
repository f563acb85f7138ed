"""XLSForm expressions: limits and choices that stand alone in a constraint; a relevance in a study's words.

An expression that is not recognised completely is not imported at all: half a condition is a different condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CannotExpress", "Limits", "exclusive_of", "limits_of", "relevance_of"]


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


_CHOSEN = r"selected\(\.,'(?P<value>[A-Za-z0-9_]+)'\)"
_AGAIN = r"selected\(\.,'(?P=value)'\)"
_ONE, _MORE = r"count-selected\(\.\)(?:=1|<=1|<2)", r"count-selected\(\.\)(?:>1|>=2|!=1)"
# The ways in which XLSForms say that one choice stands alone, without blanks and with single quotes.
_EXCLUSIVE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"not\({_CHOSEN}and{_MORE}\)",
        rf"not\({_MORE}and{_CHOSEN}\)",
        rf"not\({_CHOSEN}\)or{_ONE}",
        rf"{_ONE}ornot\({_CHOSEN}\)",
        rf"if\({_CHOSEN},{_ONE},true\(\)\)",
        rf"\(?{_CHOSEN}and{_ONE}\)?ornot\({_AGAIN}\)",
    )
)


def exclusive_of(constraint: str) -> tuple[str, ...]:
    """The choices of a select_multiple that cannot be chosen with others; empty if it says anything else."""
    bare = re.sub(r"\s+", "", constraint.replace('"', "'"))
    found = []
    # Several such conditions are joined by `and`, each in parentheses or a call of its own.
    for part in re.split(r"(?<=\))and(?=not\(|if\(|\()", bare):
        inner = part[1:-1] if part.startswith("(") and part.endswith(")") else part
        matches = [
            match for pattern in _EXCLUSIVE for text in (part, inner) if (match := pattern.fullmatch(text))
        ]
        if not matches:
            return ()
        found.append(matches[0]["value"])
    return tuple(found)


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
