"""From an XLSForm's rows to attributes and questions, and to a study definition in TOML.

Everything that could not be carried over is noted, and what is still to be filled in stands there as comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from trimask_cli.study_file import toml_line, toml_value
from trimask_cli.xlsform.kinds import CannotExpress, Imported, Kinds, relevance_of
from trimask_cli.xlsform.workbook import Workbook
from trimask_core.form.kinds import KINDS

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
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
_COLUMNS = (
    "type",
    "name",
    "label",
    "hint",
    "required",
    "relevant",
    "constraint",
    "constraint_message",
    "disabled",
)
_GROUP_COLUMNS = ("type", "name", "label", "hint", "relevant", "disabled")
_YES = ("yes", "true", "true()", "1")


def convert(book: Workbook) -> Imported:
    """Convert what a study's form can express."""
    return _Converter(book).run()


@dataclass
class _Group:
    name: str
    relevant: str
    heading: dict[str, Any] | None = None
    table: bool = False
    begins: int = 0


class _Converter(Kinds):
    def __init__(self, book: Workbook) -> None:
        super().__init__(book)
        self._kinds: dict[str, str] = {}
        self._groups: list[_Group] = []
        self._repeats = 0
        self._headings: list[dict[str, Any]] = []

    def run(self) -> Imported:
        for suffix in self.book.refused_languages:
            self.lose(
                f"language {suffix!r}: not a language a form supports, or its tag is unknown; write it as Name (tag)"
            )
        self.lose_rest("settings", self.book.settings, ("form_title", "default_language", "form_id"))
        for row in self.book.survey:
            if row.get("disabled", "").lower() not in _YES:
                self._row(row)
        for heading in self._headings:
            self.lose(f"{heading['name']}: a heading or a note after which no question comes")
        for language, count in self.untranslated.items():
            self.out.check.append(
                f"{count} texts are missing in {language!r}; the text of another language stands there"
            )
        return self.out

    def _row(self, row: dict[str, str]) -> None:
        words = row.get("type", "").split()
        kind = words[0].lower() if words else ""
        name = row.get("name", "")
        if kind in ("begin_repeat", "end_repeat") or words[:2] in (["begin", "repeat"], ["end", "repeat"]):
            begins = kind.startswith("begin")
            self._repeats += 1 if begins else -1
            if begins:
                self.lose(f"repeat {name}: a person has one row; nothing in it is carried over")
        elif self._repeats:
            return
        elif kind in ("begin_group", "end_group") or words[:2] in (["begin", "group"], ["end", "group"]):
            if kind.startswith("begin"):
                self._begin(row, name)
            elif self._groups:
                self._end(self._groups.pop())
        elif kind == "note":
            self._note(row, name)
        elif kind in _METADATA:
            self.lose(f"{name or kind}: {kind} is about the device, not an answer")
        elif kind in ("integer", "decimal", "range", "select_one", "select_multiple", "date", "time"):
            self._question(kind, words, name, row)
        elif kind:
            why = {
                "text": "free text cannot be pooled",
                "calculate": "calculations are not carried over; declare [[derived]] for squares, products and logarithms",
            }.get(kind, "there is no such question in a study's form")
            self.lose(f"{name}: {kind}: {why}")

    # Groups, headings, grids

    def _begin(self, row: dict[str, str], name: str) -> None:
        appearance = row.get("appearance", "").split()
        table = "table-list" in appearance
        for word in appearance:
            if word != "table-list":
                self.lose(f"group {name}: appearance ({word})")
        self.lose_rest(f"group {name}", row, (*_GROUP_COLUMNS, "appearance"))
        group = _Group(name, row.get("relevant", ""), table=table, begins=len(self.out.questions))
        self._groups.append(group)
        labels = self.book.texts(row, "label")
        if labels:
            group.heading = self._heading(name or "group", labels, self.book.texts(row, "hint"))
            self._headings.append(group.heading)
        elif row.get("hint"):
            self.lose(f"group {name}: hint ({row['hint']})")

    def _end(self, group: _Group) -> None:
        if group.heading is not None and group.heading in self._headings:
            self._headings.remove(group.heading)
            self.lose(f"group {group.name}: its label; no question in it is carried over")
        if group.table:
            self._table(group)

    def _heading(self, name: str, labels: dict[str, str], hint: dict[str, str]) -> dict[str, Any]:
        base = re.sub(r"\W", "_", name) if _NAME.fullmatch(re.sub(r"\W", "_", name)) else "section"
        found, number = base, 2
        while found in self._kinds:
            found, number = f"{base}_{number}", number + 1
        self._kinds[found] = "heading"
        heading: dict[str, Any] = {"name": found, "kind": "heading", "label": self.whole(labels)}
        if hint:
            heading["help"] = self.whole(hint)
        conditions = self._conditions("", found, quiet=True)
        return heading | ({"relevant": conditions} if conditions else {})

    def _note(self, row: dict[str, str], name: str) -> None:
        texts = self.book.texts(row, "label")
        if not texts:
            self.lose(f"{name}: a note without a text")
        elif self.out.questions or self.out.intro or row.get("relevant") or self._headings:
            self._groups.append(_Group("", row.get("relevant", "")))
            self._headings.append(self._heading(name or "note", texts, self.book.texts(row, "hint")))
            self._groups.pop()
        else:
            self.out.intro = self.whole(texts)
        self.lose_rest(name or "note", row, _GROUP_COLUMNS)

    def _table(self, group: _Group) -> None:
        """A table-list of single choices with the same answers becomes a grid."""
        inside = [
            question for question in self.out.questions[group.begins :] if question["kind"] != "heading"
        ]
        alike = (
            len(inside) > 1
            and group.heading is not None
            and all(question["kind"] == "single_choice" for question in inside)
            and all(question["choices"] == inside[0]["choices"] for question in inside)
            and len({question.get("relevant") for question in inside}) == 1
        )
        if not alike or group.heading is None:
            self.lose(
                f"group {group.name}: appearance (table-list); a grid is a group with a label, of select_one questions with "
                "one list, asked under one condition"
            )
            return
        optional = any(not question.get("required", True) for question in inside)
        if optional and any(question.get("required", True) for question in inside):
            self.out.check.append(f"{group.name}: some of its rows were required; now none of the grid's is")
        grid: dict[str, Any] = {**group.heading, "kind": "grid", "choices": inside[0]["choices"]}
        if "relevant" in inside[0]:
            grid["relevant"] = inside[0]["relevant"]
        if optional:
            grid["required"] = False
        rows = []
        for question in inside:
            row = {"name": question["name"], "label": question["label"]}
            if optional or "relevant" in grid:
                if "missing" not in question:
                    made = [one for one in self.out.attributes if one["name"] == question["name"]]
                    self._missing(question, made, question)
                grid["missing"] = question["missing"]
                row["missing_indicator"] = question["missing_indicator"]
            if "help" in question:
                self.lose(f"{question['name']}: hint; a grid's rows have none")
            rows.append(row)
        grid["rows"] = rows
        before = [one for one in self.out.questions[: group.begins] if one is not group.heading]
        after = self.out.questions[group.begins :]
        headings = [one for one in after if one["kind"] == "heading" and one is not group.heading]
        self.out.questions[:] = [*before, *headings, grid]

    # Questions

    def _question(self, kind: str, words: list[str], name: str, row: dict[str, str]) -> None:
        if not _NAME.fullmatch(name) or name == "one":
            self.lose(f"{name}: a name here is a letter, then letters, digits and _; rename the question")
            return
        if name in self._kinds:
            self.lose(f"{name}: there are two questions of this name; the second is left out")
            return
        labels = self.book.texts(row, "label")
        if not labels:
            self.lose(f"{name}: it has no label")
            return
        question: dict[str, Any] = {"name": name, "kind": "", "label": self.whole(labels)}
        hint = self.book.texts(row, "hint")
        if hint:
            question["help"] = self.whole(hint)
        made = self.answer(kind, words, name, row, question)
        if made is None:
            return
        taken = {attribute["name"] for attribute in self.out.attributes}
        clash = sorted(taken.intersection(attribute["name"] for attribute in made))
        if clash:
            self.lose(f"{name}: it would fill {clash[0]}, as does another question; rename one of them")
            return
        self.lose_rest(name, row, (*_COLUMNS, "parameters") if kind == "range" else _COLUMNS)
        message = self.book.texts(row, "constraint_message")
        if message and "minimum" in KINDS[question["kind"]].settings:
            question["message"] = self.whole(message)
        elif message:
            self.lose(
                f"{name}: constraint_message; what it was about is checked in the form's own words, or not at all"
            )
        conditions = self._conditions(row.get("relevant", ""), name)
        if conditions:
            question["relevant"] = conditions
        if row.get("required", "").lower() not in _YES:
            question["required"] = False
        self._kinds[name] = question["kind"]
        self.out.attributes += made
        if not question.get("required", True) or "relevant" in question:
            self._missing(question, made, question)
        self.out.questions += [*self._headings, question]
        self._headings = []

    def _conditions(self, own: str, name: str, *, quiet: bool = False) -> str:
        conditions = []
        for expression in [*(group.relevant for group in self._groups), own]:
            if not expression:
                continue
            try:
                conditions.append(relevance_of(expression, self._kinds))
            except CannotExpress:
                if not quiet:
                    self.lose(f"{name}: relevant {expression!r}; it is now asked of everybody")
        return " and ".join(f"({text})" if len(conditions) > 1 else text for text in conditions)

    def _missing(self, question: dict[str, Any], made: list[dict[str, Any]], into: dict[str, Any]) -> None:
        """What stands in a row without an answer, and an attribute that says so."""
        first = made[0]
        value: Any = {"categorical": first.get("levels", [""])[0], "binary": False}.get(first["kind"])
        stands = into["missing"] = first.get("minimum", 0.0) if value is None else value
        taken = {attribute["name"] for attribute in self.out.attributes}
        indicator = f"{question['name']}_missing"
        while indicator in taken:
            indicator += "_"
        into["missing_indicator"] = indicator
        self.out.attributes.append({"name": indicator, "kind": "binary"})
        shown = "no" if stands is False else f"{stands:g}" if isinstance(stands, float | int) else stands
        self.out.check.append(
            f"{question['name']}: may go unanswered; its row then has {shown} and {indicator} = yes"
        )


_HEAD = """# Imported from {source}. Fill in what is commented, then `trimask study new` makes a study of it.

title = {title}
purpose = "Say in a sentence what the answers are for."
contact = "who-asks@example.org"

[privacy]
# The guarantee towards readers of a release. `trimask plan` shows what it costs in accuracy.
# epsilon = 1.0
# delta = 1e-6

[collection]
# Rows masked together (more than a row has columns), and published together at least.
# block_rows = 128
# release_rows = 1024
"""


def definition_text(imported: Imported, source: str) -> str:
    """The whole definition."""
    parts = [_HEAD.format(source=source, title=toml_value(imported.title or "Untitled"))]
    for attribute in imported.attributes:
        lines = ["[[attributes]]", *(toml_line(key, value) for key, value in attribute.items())]
        if attribute["kind"] in ("integer", "continuous"):
            lines += [f"# {bound} =" for bound in ("minimum", "maximum") if bound not in attribute]
        parts.append("\n".join(lines) + "\n")
    form = ["[form]", toml_line("languages", imported.languages)]
    if imported.intro:
        form.append(toml_line("intro", imported.intro))
    parts.append("\n".join(form) + "\n")
    for question in imported.questions:
        lines = ["[[form.questions]]"]
        for key, value in question.items():
            if key in ("choices", "rows"):
                lines += [f"{key} = [", *(f"    {toml_value(item)}," for item in value), "]"]
            else:
                lines.append(toml_line(key, value))
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
