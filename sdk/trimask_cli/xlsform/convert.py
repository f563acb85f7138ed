"""From an XLSForm's rows to attributes and questions, with a note of everything that could not be carried over."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from trimask_cli.xlsform.expressions import CannotExpress, Limits, limits_of, relevance_of
from trimask_cli.xlsform.workbook import Workbook

__all__ = ["Imported", "convert"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_VALUE = re.compile(r"[A-Za-z0-9_]+")
_METADATA = {
    "start",
    "end",
    "today",
    "deviceid",
    "username",
    "phonenumber",
    "email",
    "audit",
    "simserial",
    "subscriberid",
}
_IGNORED = (
    "appearance",
    "default",
    "calculation",
    "choice_filter",
    "read_only",
    "readonly",
    "trigger",
    "repeat_count",
)


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


def convert(book: Workbook) -> Imported:
    """Carry over what a study's form can say."""
    return _Converter(book).run()


class _Converter:
    def __init__(self, book: Workbook) -> None:
        self._book = book
        self._out = Imported(list(book.languages), book.settings.get("form_title", ""))
        self._kinds: dict[str, str] = {}
        self._groups: list[str] = []
        self._repeats = 0
        self._untranslated: dict[str, int] = {}

    def run(self) -> Imported:
        for suffix in self._book.refused_languages:
            self._lose(
                f"language {suffix!r}: not a language a form supports, or its tag is unknown; write it as Name (tag)"
            )
        for row in self._book.survey:
            self._row(row)
        for language, count in self._untranslated.items():
            self._out.check.append(
                f"{count} texts are missing in {language!r}; the text of another language stands there"
            )
        return self._out

    def _lose(self, what: str) -> None:
        self._out.lost.append(what)

    def _row(self, row: dict[str, str]) -> None:
        words = row.get("type", "").split()
        kind = words[0].lower() if words else ""
        name = row.get("name", "")
        if kind in ("begin_repeat", "end_repeat") or words[:2] in (["begin", "repeat"], ["end", "repeat"]):
            begins = kind.startswith("begin")
            self._repeats += 1 if begins else -1
            if begins:
                self._lose(f"repeat {name}: a person has one row; nothing in it is carried over")
        elif self._repeats:
            return
        elif kind in ("begin_group", "end_group") or words[:2] in (["begin", "group"], ["end", "group"]):
            if kind.startswith("begin"):
                self._groups.append(row.get("relevant", ""))
            elif self._groups:
                self._groups.pop()
        elif kind == "note":
            self._note(row, name)
        elif kind in _METADATA:
            self._lose(f"{name or kind}: {kind} is about the device, not an answer")
        elif kind in ("integer", "decimal", "range", "select_one", "select_multiple", "date"):
            self._question(kind, words, name, row)
        elif kind:
            why = {
                "text": "free text cannot be pooled",
                "calculate": "calculations are not carried over; declare [[derived]] for squares, products and logarithms",
            }.get(kind, "there is no such question in a study's form")
            self._lose(f"{name}: {kind}: {why}")

    def _note(self, row: dict[str, str], name: str) -> None:
        texts = self._book.texts(row, "label")
        if self._out.questions or self._out.intro or not texts:
            self._lose(f"{name}: a note between questions; put it into a question's help")
        else:
            self._out.intro = self._whole(texts)

    def _question(self, kind: str, words: list[str], name: str, row: dict[str, str]) -> None:
        if not _NAME.fullmatch(name) or name == "one":
            self._lose(f"{name}: a name here is a letter, then letters, digits and _; rename the question")
            return
        if name in self._kinds:
            self._lose(f"{name}: there are two questions of this name; the second is left out")
            return
        labels = self._book.texts(row, "label")
        if not labels:
            self._lose(f"{name}: it has no label")
            return
        question: dict[str, Any] = {"name": name, "kind": "", "label": self._whole(labels)}
        hint = self._book.texts(row, "hint")
        if hint:
            question["help"] = self._whole(hint)
        made = self._answer(kind, words, name, row, question)
        if made is None:
            return
        taken = {attribute["name"] for attribute in self._out.attributes}
        clash = sorted(taken.intersection(attribute["name"] for attribute in made))
        if clash:
            self._lose(f"{name}: it would fill {clash[0]}, as does another question; rename one of them")
            return
        for column in _IGNORED:
            if column in row:
                self._lose(f"{name}: {column} ({row[column]})")
        for column in row:
            if column.startswith(("media::", "image", "audio", "video", "body::", "bind::")):
                self._lose(f"{name}: {column}")
        message = self._book.texts(row, "constraint_message")
        if message and question["kind"] in ("number", "integer", "slider", "date"):
            question["message"] = self._whole(message)
        self._when(name, row, question)
        self._kinds[name] = question["kind"]
        self._out.attributes += made
        self._missing(question, made)
        self._out.questions.append(question)

    def _answer(
        self, kind: str, words: list[str], name: str, row: dict[str, str], question: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        """The attributes it fills, with the question's own settings filled in; None if it cannot be carried over."""
        if kind in ("select_one", "select_multiple"):
            return self._select(kind, words, name, question)
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
                self._out.check.append(f"{name}: fill in {bound}; noise is calibrated to the bounds")
                continue
            value = float(text)
            if whole:
                value = (
                    (math.floor(value) + 1 if out else math.ceil(value))
                    if bound == "minimum"
                    else (math.ceil(value) - 1 if out else math.floor(value))
                )
            elif out:
                self._out.check.append(f"{name}: its {bound} itself ({value:g}) is now allowed")
            attribute[bound] = value
        return [attribute]

    def _limits(self, name: str, row: dict[str, str]) -> Limits:
        constraint = row.get("constraint", "")
        if not constraint:
            return Limits()
        try:
            return limits_of(constraint)
        except CannotExpress:
            self._lose(f"{name}: constraint {constraint!r}; only limits such as . >= 0 and . <= 120 can be")
            return Limits()

    def _select(
        self, kind: str, words: list[str], name: str, question: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        listed = words[1] if len(words) > 1 else ""
        choices: list[dict[str, Any]] = []
        for row in self._book.choices:
            if row.get("list_name") != listed:
                continue
            labels = self._book.texts(row, "label")
            if not _VALUE.fullmatch(row.get("name", "")) or not labels:
                self._lose(
                    f"{name}: a choice of list {listed} has no label, or a name other than letters, digits and _"
                )
                return None
            choices.append({"value": row["name"], "label": self._whole(labels)})
            for column in row:
                if column.startswith(("media::", "image", "audio", "video")):
                    self._lose(f"{name}: {column} of choice {row['name']}")
        if "or_other" in words:
            self._lose(f"{name}: or_other; add the choice `other` to list {listed} if it is wanted")
        if len(choices) < (2 if kind == "select_one" else 1):
            self._lose(f"{name}: list {listed or '(none)'} has too few choices")
            return None
        if kind == "select_one" and sorted(choice["value"] for choice in choices) == ["no", "yes"]:
            question["kind"] = "yes_no"
            return [{"name": name, "kind": "binary"}]
        question["choices"] = choices
        if kind == "select_one":
            question["kind"] = "single_choice"
            return [{"name": name, "kind": "categorical", "levels": [choice["value"] for choice in choices]}]
        question["kind"] = "multiple_choice"
        return [{"name": f"{name}_{choice['value']}", "kind": "binary"} for choice in choices]

    def _slider(
        self, name: str, row: dict[str, str], question: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        given = dict(re.findall(r"(start|end|step)\s*=\s*(-?[\d.]+)", row.get("parameters", "")))
        low, high, step = (
            float(given.get(key, usual)) for key, usual in (("start", 1), ("end", 10), ("step", 1))
        )
        if not (low < high and step > 0 and math.isclose(round((high - low) / step), (high - low) / step)):
            self._lose(f"{name}: range from {low:g} to {high:g} in steps of {step:g}")
            return None
        question |= {"kind": "slider", "step": step}
        whole = all(value == int(value) for value in (low, high, step))
        return [{"name": name, "kind": "integer" if whole else "continuous", "minimum": low, "maximum": high}]

    def _date(self, name: str, limits: Limits, question: dict[str, Any]) -> list[dict[str, Any]] | None:
        try:
            first, last = date.fromisoformat(limits.minimum), date.fromisoformat(limits.maximum)
        except ValueError:
            self._lose(f"{name}: a date needs limits: . >= date('2020-01-01') and . <= date('2025-12-31')")
            return None
        if not first < last:
            self._lose(f"{name}: its first date is not before its last")
            return None
        question |= {"kind": "date", "count": "days", "origin": first.isoformat()}
        self._out.check.append(
            f'{name}: counted in days from {first}; count = "age" or "years" are the other ways'
        )
        days = float((last - first).days)
        return [{"name": name, "kind": "integer", "minimum": 0.0, "maximum": days}]

    def _when(self, name: str, row: dict[str, str], question: dict[str, Any]) -> None:
        conditions = []
        for expression in [*self._groups, row.get("relevant", "")]:
            if not expression:
                continue
            try:
                conditions.append(relevance_of(expression, self._kinds))
            except CannotExpress:
                self._lose(f"{name}: relevant {expression!r}; it is now asked of everybody")
        if conditions:
            joined = " and ".join(f"({text})" if len(conditions) > 1 else text for text in conditions)
            question["relevant"] = joined
        if row.get("required", "").lower() not in ("yes", "true", "true()", "1"):
            question["required"] = False

    def _missing(self, question: dict[str, Any], made: list[dict[str, Any]]) -> None:
        if question.get("required", True) and "relevant" not in question:
            return
        first = made[0]
        value: Any = {"categorical": first.get("levels", [""])[0], "binary": False}.get(first["kind"])
        question["missing"] = first.get("minimum", 0.0) if value is None else value
        taken = {attribute["name"] for attribute in self._out.attributes}
        indicator = f"{question['name']}_missing"
        while indicator in taken:
            indicator += "_"
        question["missing_indicator"] = indicator
        self._out.attributes.append({"name": indicator, "kind": "binary"})
        stands = question["missing"]
        shown = "no" if stands is False else f"{stands:g}" if isinstance(stands, float | int) else stands
        self._out.check.append(
            f"{question['name']}: may go unanswered; its row then has {shown} and {indicator} = yes"
        )

    def _whole(self, texts: dict[str, str]) -> dict[str, str]:
        """The text in every language; where one is missing another stands in."""
        for language in self._out.languages:
            if language not in texts:
                self._untranslated[language] = self._untranslated.get(language, 0) + 1
        usual = next(iter(texts.values()))
        return {language: texts.get(language, usual) for language in self._out.languages}
