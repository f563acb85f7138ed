"""What each type of an XLSForm's questions becomes: the question's own settings, and the attributes it fills.

Of XLSForm's expressions, limits and choices that stand alone in a constraint are read, and a relevance in a study's
words. An expression that is not recognised completely is not imported at all: half a condition is a different condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from trimask_cli.xlsform.workbook import Workbook


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


_VALUE = re.compile(r"[A-Za-z0-9_]+")
_CHOICE_COLUMNS = ("list_name", "name", "label", "exclusive")


@dataclass
class Imported:
    """What became of an XLSForm: `lost` could not be carried over; `check` is for the owner to look at or fill in."""

    languages: list[str]
    title: str
    attributes: list[dict[str, Any]] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    intro: dict[str, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    check: list[str] = field(default_factory=list)


class Kinds:
    """The state of one import."""

    def __init__(self, book: Workbook) -> None:
        self.book = book
        self.out = Imported(list(book.languages), book.settings.get("form_title", ""))
        self.untranslated: dict[str, int] = {}

    def lose(self, what: str) -> None:
        """Note something of the form that is not imported."""
        if what not in self.out.lost:
            self.out.lost.append(what)

    def lose_rest(self, name: str, row: dict[str, str], known: tuple[str, ...]) -> None:
        """Note every column that was not imported."""
        for column, value in row.items():
            base, _, suffix = column.partition("::")
            if base not in known and not (suffix in self.book.refused_languages and suffix):
                self.lose(f"{name}: {column} ({value if len(value) <= 60 else value[:59] + '…'})")

    def whole(self, texts: dict[str, str]) -> dict[str, str]:
        """The text in every language; where one is missing another stands in."""
        for language in self.out.languages:
            if language not in texts:
                self.untranslated[language] = self.untranslated.get(language, 0) + 1
        usual = next(iter(texts.values()))
        return {language: texts.get(language, usual) for language in self.out.languages}

    def answer(
        self, kind: str, words: list[str], name: str, row: dict[str, str], question: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        """The attributes it fills, with the question's own settings filled in; None if it cannot be carried over."""
        if kind in ("select_one", "select_multiple"):
            return self._select(kind, words, name, row, question)
        if kind == "time":
            return self._time(name, row, question)
        limits = self._limits(name, row)
        if kind == "date":
            return self._date(name, limits, question)
        if kind == "range":
            return self._slider(name, row, question)
        whole = kind == "integer"
        question["kind"] = "integer" if whole else "number"
        attribute: dict[str, Any] = {"name": name, "kind": "integer" if whole else "continuous"}
        for bound, text, out in (
            ("minimum", limits.minimum, limits.above),
            ("maximum", limits.maximum, limits.below),
        ):
            if not text or "-" in text[1:]:
                self.out.check.append(f"{name}: fill in {bound}; noise is calibrated to the bounds")
                continue
            value = float(text)
            if whole:
                value = (
                    (math.floor(value) + 1 if out else math.ceil(value))
                    if bound == "minimum"
                    else (math.ceil(value) - 1 if out else math.floor(value))
                )
            elif out:
                self.out.check.append(f"{name}: its {bound} itself ({value:g}) is now allowed")
            attribute[bound] = value
        return [attribute]

    def _limits(self, name: str, row: dict[str, str]) -> Limits:
        constraint = row.get("constraint", "")
        if not constraint:
            return Limits()
        try:
            return limits_of(constraint)
        except CannotExpress:
            self.lose(f"{name}: constraint {constraint!r}; only limits such as . >= 0 and . <= 120 can be")
            return Limits()

    def choices(self, listed: str, name: str) -> list[dict[str, Any]] | None:
        """A list's choices; None if one of them cannot be a level."""
        found: list[dict[str, Any]] = []
        for row in self.book.choices:
            if row.get("list_name") != listed:
                continue
            labels = self.book.texts(row, "label")
            if not _VALUE.fullmatch(row.get("name", "")) or not labels:
                self.lose(
                    f"{name}: a choice of list {listed} has no label, or a name other than letters, digits and _"
                )
                return None
            found.append({"value": row["name"], "label": self.whole(labels)})
            if row.get("exclusive", "").lower() in ("yes", "true", "1"):
                found[-1]["exclusive"] = True
            self.lose_rest(f"{name}, choice {row['name']}", row, _CHOICE_COLUMNS)
        return found

    def _select(
        self, kind: str, words: list[str], name: str, row: dict[str, str], question: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        listed = words[1] if len(words) > 1 else ""
        choices = self.choices(listed, name)
        if choices is None:
            return None
        if "or_other" in words:
            self.lose(f"{name}: or_other; add the choice `other` to list {listed} if it is wanted")
        if len(choices) < (2 if kind == "select_one" else 1):
            self.lose(f"{name}: list {listed or '(none)'} has too few choices")
            return None
        self._select_constraint(kind, name, row, choices)
        if kind == "select_one":
            for choice in choices:
                choice.pop("exclusive", None)
            if sorted(choice["value"] for choice in choices) == ["no", "yes"]:
                question["kind"] = "yes_no"
                return [{"name": name, "kind": "binary"}]
            question |= {"choices": choices, "kind": "single_choice"}
            return [{"name": name, "kind": "categorical", "levels": [choice["value"] for choice in choices]}]
        question |= {"choices": choices, "kind": "multiple_choice"}
        return [{"name": f"{name}_{choice['value']}", "kind": "binary"} for choice in choices]

    def _select_constraint(
        self, kind: str, name: str, row: dict[str, str], choices: list[dict[str, Any]]
    ) -> None:
        """A choice that stands alone; every other constraint of a select is lost, and its message with it."""
        constraint = row.get("constraint", "")
        if not constraint:
            return
        alone = exclusive_of(constraint) if kind == "select_multiple" else ()
        if alone and set(alone) <= {choice["value"] for choice in choices} and len(choices) > len(alone):
            for choice in choices:
                if choice["value"] in alone:
                    choice["exclusive"] = True
            return
        self.lose(
            f"{name}: constraint {constraint!r}; of a select, only a choice that excludes the others can be"
        )

    def _time(self, name: str, row: dict[str, str], question: dict[str, Any]) -> list[dict[str, Any]]:
        if row.get("constraint"):
            self.lose(f"{name}: constraint {row['constraint']!r}; give earliest and latest in the definition")
        question |= {"kind": "time", "count": "minutes"}
        self.out.check.append(
            f'{name}: counted in minutes after midnight; for times of a night, give an origin such as "12:00"'
        )
        return [{"name": name, "kind": "integer", "minimum": 0.0, "maximum": 1439.0}]

    def _slider(
        self, name: str, row: dict[str, str], question: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        given = dict(re.findall(r"(start|end|step)\s*=\s*(-?[\d.]+)", row.get("parameters", "")))
        low, high, step = (
            float(given.get(key, usual)) for key, usual in (("start", 1), ("end", 10), ("step", 1))
        )
        if not (low < high and step > 0 and math.isclose(round((high - low) / step), (high - low) / step)):
            self.lose(f"{name}: range from {low:g} to {high:g} in steps of {step:g}")
            return None
        question |= {"kind": "slider", "step": step}
        whole = all(value == int(value) for value in (low, high, step))
        return [{"name": name, "kind": "integer" if whole else "continuous", "minimum": low, "maximum": high}]

    def _date(self, name: str, limits: Limits, question: dict[str, Any]) -> list[dict[str, Any]] | None:
        try:
            first, last = date.fromisoformat(limits.minimum), date.fromisoformat(limits.maximum)
        except ValueError:
            self.lose(f"{name}: a date needs limits: . >= date('2020-01-01') and . <= date('2025-12-31')")
            return None
        if not first < last:
            self.lose(f"{name}: its first date is not before its last")
            return None
        question |= {"kind": "date", "count": "days", "origin": first.isoformat()}
        self.out.check.append(
            f'{name}: counted in days from {first}; count = "age" or "years" are the other ways'
        )
        days = float((last - first).days)
        return [{"name": name, "kind": "integer", "minimum": 0.0, "maximum": days}]
