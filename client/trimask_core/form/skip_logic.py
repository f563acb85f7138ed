"""When a question is asked: comparisons of earlier questions with constants, joined by and, or, not.

    smoker = yes and (age >= 18 or not symptoms has "cough")

Parsed by hand into a small tree and never evaluated as a program: a form comes from the maker of the study. A question
that was not asked or not answered makes every comparison with it false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimask_core.basics.errors import StudyError

LONGEST, DEEPEST = 1000, 20
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?)|(?P<text>"[^"]*"|'[^']*')|(?P<op><=|>=|!=|=|<|>)|(?P<word>[A-Za-z]\w*)|(?P<mark>[()]))"""
)
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_CONSTANTS = {"yes": True, "true": True, "no": False, "false": False}
_RESERVED = {"and", "or", "not", "has", *_CONSTANTS}


@dataclass(frozen=True)
class Comparison:
    """`name op value`; `has` is for multiple choice. Dates are compared as year-month-day text, which is in order."""

    name: str
    op: str
    value: float | bool | str

    def holds(self, values: Mapping[str, object]) -> bool:
        """Whether the comparison holds, given the answers so far."""
        got = values.get(self.name)
        if got is None:
            return False
        if self.op == "has":
            return isinstance(got, tuple) and self.value in got
        if self.op in ("=", "!="):
            return (got == self.value) == (self.op == "=")
        if isinstance(got, str) and isinstance(self.value, str):
            return _ORDER[self.op](*_ranks(got, self.value))
        if isinstance(got, (int, float)) and isinstance(self.value, (int, float)):
            return _ORDER[self.op](got, self.value)
        return False


def _ranks(first: str, second: str) -> tuple[float, float]:
    return float((first > second) - (first < second)), 0.0


@dataclass(frozen=True)
class _Joined:
    word: str
    parts: tuple[_Node, ...]

    def holds(self, values: Mapping[str, object]) -> bool:
        if self.word == "not":
            return not self.parts[0].holds(values)
        return (all if self.word == "and" else any)(part.holds(values) for part in self.parts)


_Node = Comparison | _Joined


@dataclass(frozen=True)
class Condition:
    """A condition as it was written, and as it was understood."""

    text: str
    _tree: _Node = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, where: str) -> Condition:
        """Read a condition; `StudyError` says at which word it cannot be read."""
        if len(text) > LONGEST:
            raise StudyError(f"{where}: a condition has at most {LONGEST} characters")
        parser = _Parser(_tokens(text, where), where)
        tree = parser.either(0)
        if parser.peek() is not None:
            raise parser.odd()
        return cls(text, tree)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every comparison in it, for the form to check."""
        return tuple(_leaves(self._tree))

    def holds(self, values: Mapping[str, object]) -> bool:
        """Whether the question is asked, given the answers so far."""
        return self._tree.holds(values)


def _leaves(node: _Node) -> list[Comparison]:
    if isinstance(node, Comparison):
        return [node]
    return [leaf for part in node.parts for leaf in _leaves(part)]


def _tokens(text: str, where: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise StudyError(f"{where}: cannot read {text[at:].strip()[:20]!r}")
        kind = match.lastgroup or ""
        tokens.append((kind, match[kind]))
        at = match.end()
    return tokens


@dataclass
class _Parser:
    tokens: list[tuple[str, str]]
    where: str
    at: int = 0

    def peek(self) -> tuple[str, str] | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def odd(self) -> StudyError:
        token = self.peek()
        found = "the end" if token is None else repr(token[1])
        return StudyError(
            f"{self.where}: did not expect {found}; write NAME = VALUE (or != < <= > >= has), joined by and, or, not"
        )

    def take(self, kind: str, *texts: str) -> str | None:
        token = self.peek()
        if token is None or token[0] != kind or (texts and token[1] not in texts):
            return None
        self.at += 1
        return token[1]

    def either(self, depth: int) -> _Node:
        return self._chain("or", lambda: self._chain("and", lambda: self.single(depth)))

    def _chain(self, word: str, part: Callable[[], _Node]) -> _Node:
        parts = [part()]
        while self.take("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else _Joined(word, tuple(parts))

    def single(self, depth: int) -> _Node:
        if depth > DEEPEST:
            raise StudyError(f"{self.where}: a condition is nested at most {DEEPEST} deep")
        if self.take("word", "not"):
            return _Joined("not", (self.single(depth + 1),))
        if self.take("mark", "("):
            inside = self.either(depth + 1)
            if not self.take("mark", ")"):
                raise self.odd()
            return inside
        return self.comparison()

    def comparison(self) -> Comparison:
        token = self.peek()
        if token is None or token[0] != "word" or token[1] in _RESERVED:
            raise self.odd()
        self.at += 1
        op = self.take("op") or self.take("word", "has")
        if op is None:
            raise self.odd()
        return Comparison(token[1], op, self.constant())

    def constant(self) -> float | bool | str:
        number = self.take("number")
        if number is not None:
            return float(number)
        text = self.take("text")
        if text is not None:
            return text[1:-1]
        word = self.take("word", *_CONSTANTS)
        if word is None:
            raise self.odd()
        return _CONSTANTS[word]
