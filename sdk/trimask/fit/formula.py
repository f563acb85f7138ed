"""A small strict reading of model formulas: `y ~ x1 + x2 + C(group) - 1`.

Masking leaves linear algebra on the declared columns and nothing else, so a formula here is a list of
columns. A transform, a power or an interaction is refused with the declaration that would make it a column of
the study.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from trimask.errors import FormulaError

__all__ = ["Formula", "Term", "nearest", "parse", "refuse_transform"]

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_.]*)|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<sign>\*\*|.))",
    re.DOTALL,
)
_DECLARE = (
    "nothing nonlinear can be computed after masking. Such a column is formed on the device: declare it in "
    'the study, as [[derived]] with kind = "square", "product" or "log"'
)


@dataclass(frozen=True, slots=True)
class Term:
    """A column; or, if `categorical`, a group `C(name)` with its reference level (None: the first)."""

    name: str
    categorical: bool = False
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Formula:
    """What a formula asks for, before it is held against a study's columns."""

    text: str
    response: str
    terms: tuple[Term, ...]
    intercept: bool


def nearest(name: str, known: list[str]) -> str:
    """'did you mean ...?', or the list of what there is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def refuse_transform(name: str) -> None:
    """Refuse what is not a plain column name where one is wanted."""
    tokens = list(_tokens(name))
    if len(tokens) != 1 or tokens[0][0] != "name":
        raise FormulaError(f"{name!r} is not one column; {_DECLARE}")


def parse(text: str) -> Formula:
    """Read a formula, or raise `FormulaError` saying what to write instead."""
    left, tilde, right = text.partition("~")
    if not tilde or "~" in right:
        raise FormulaError(f"{text!r} is not a formula: write response ~ column + column, with one ~")
    response = list(_tokens(left))
    if len(response) != 1 or response[0][0] != "name":
        raise FormulaError(f"the response {left.strip()!r} must be one column; {_DECLARE}")
    return _Reader(text, response[0][1], list(_tokens(right))).read()


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(text.rstrip()):
        kind = match.lastgroup
        assert kind is not None  # noqa: S101  one group of the pattern always matched
        yield kind, match.group(kind)


class _Reader:
    """Recursive descent over `term (('+' | '-') term)*`."""

    def __init__(self, text: str, response: str, tokens: list[tuple[str, str]]) -> None:
        self.text = text
        self.response = response
        self.tokens = tokens
        self.at = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, sign: str) -> None:
        _, got = self.take()
        if got != sign:
            raise FormulaError(f"{self.text!r}: expected {sign!r}, found {got!r}")

    def read(self) -> Formula:
        terms: list[Term] = []
        intercept = True
        minus = False
        if self.peek()[1] in ("+", "-"):
            minus = self.take()[1] == "-"
        while True:
            kind, word = self.take()
            if kind == "number":
                if word not in ("0", "1"):
                    raise FormulaError(
                        f"{self.text!r}: {word} is no column; 1 stands for the intercept, 0 for none"
                    )
                intercept = (word == "1") != minus
            elif kind == "name":
                if minus:
                    raise FormulaError(
                        f"{self.text!r}: only the intercept can be taken away; leave {word} out"
                    )
                terms.append(self.term(word))
            elif word == "(":
                raise FormulaError(f"{self.text!r}: brackets are only for C(group); {_DECLARE}")
            else:
                raise FormulaError(f"{self.text!r}: expected a column, found {word!r}")
            kind, word = self.take()
            if kind == "end":
                break
            if word not in ("+", "-"):
                raise FormulaError(f"{self.text!r}: {word!r} is not + or -; {_DECLARE}")
            minus = word == "-"
        self.check(terms)
        if not terms and not intercept:
            raise FormulaError(f"{self.text!r} has nothing on its right side")
        return Formula(self.text, self.response, tuple(terms), intercept)

    def term(self, word: str) -> Term:
        if self.peek()[1] != "(":
            return Term(word)
        if word != "C":
            raise FormulaError(f"{self.text!r}: {word}(...) is a transform; {_DECLARE}")
        self.take()
        kind, name = self.take()
        if kind != "name":
            raise FormulaError(f"{self.text!r}: C( ) takes a categorical attribute, found {name!r}")
        reference = None
        if self.peek()[1] == ",":
            self.take()
            _, keyword = self.take()
            if keyword != "ref":
                raise FormulaError(f"{self.text!r}: write C({name}, ref=level), found {keyword!r}")
            self.expect("=")
            reference = self.level(name)
        self.expect(")")
        return Term(name, categorical=True, reference=reference)

    def level(self, name: str) -> str:
        """A level may start with a digit, so it can be several tokens: glue them up to the bracket."""
        parts = []
        while self.peek()[1] not in (")", "the end"):
            kind, word = self.take()
            parts.append(word[1:-1] if kind == "text" else word)
        if not parts:
            raise FormulaError(f"{self.text!r}: write C({name}, ref=level)")
        return "".join(parts)

    def check(self, terms: list[Term]) -> None:
        seen: set[str] = {self.response}
        for term in terms:
            if term.name in seen:
                where = "on both sides" if term.name == self.response else "twice"
                raise FormulaError(f"{self.text!r}: {term.name} appears {where}")
            seen.add(term.name)
