"""Answers from a table: its columns are a study's attributes, and its empty cells follow the form's missing-value rules.

Everything that does not fit is listed at once, with line, column and value, since correcting a file one message at a time
takes an afternoon. Nothing is changed silently except different spellings of one value: `3.0` for 3, `0.0` for no, and a
text for the level that has its letters.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from trimask_cli.table.guess import MISSING, Sheet, attribute_name, read_sheet, slug
from trimask_core.basics.errors import AnswerError, SeveralProblems
from trimask_core.form.form import Form
from trimask_core.form.question import NUMBERS, Question, Value
from trimask_core.study.schema import Schema

Answers = dict[str, object]
_LISTED = 20
_EMPTY = (
    "Empty cells: fill them, take their lines out, or give the study a [form] whose questions say what stands for a missing "
    "answer (required = false, missing, missing_indicator); `trimask study from-csv` drafts one."
)


@dataclass(frozen=True)
class People:
    """Everybody in a table, and its columns that the study does not ask for."""

    answers: list[Answers]
    unused: tuple[str, ...]


def read_people(path: Path, schema: Schema, form: Form | None = None) -> People:
    """The answers in a CSV file; `SeveralProblems` lists what does not fit."""
    sheet = read_sheet(path)
    form = Form.for_schema(schema) if form is None else form.created(0)
    reading = _Reading(sheet, form, form.language("en"))
    places = reading.places()
    people = [reading.person(line, cells, places) for line, cells in sheet.lines]
    if reading.problems:
        shown, more = reading.problems[:_LISTED], len(reading.problems) - _LISTED
        notes = [*([f"and {more} more"] if more > 0 else []), *([_EMPTY] if reading.empty else [])]
        count = len(reading.problems)
        heading = f"{path}: {count} problem{'s' if count > 1 else ''}{f', the first {_LISTED}' if more > 0 else ''}:"
        raise SeveralProblems(heading, [*shown, *notes])
    used = {place for found in places.values() for place in found.values()}
    return People(people, tuple(name for i, name in enumerate(sheet.header) if name and i not in used))


class _Reading:
    """One file being read: where each question's columns are, and what was wrong so far."""

    def __init__(self, sheet: Sheet, form: Form, language: str) -> None:
        self.sheet, self.form, self.language = sheet, form, language
        self.problems: list[str] = []
        self.empty = False
        # By its own name before others that give the same letters; the first of equals.
        named = [(i, name) for i, name in reversed(list(enumerate(sheet.header))) if name]
        self.columns = {attribute_name(name): i for i, name in named}
        self.columns |= {short: i for i, name in named if (short := slug(name))}
        self.columns |= {name: i for i, name in named}

    def places(self) -> dict[str, dict[str, int]]:
        """For each question, its columns' names and places; headers that do not fit become problems."""
        found: dict[str, dict[str, int]] = {}
        wanted: set[str] = set()
        for question in self.form.parts:
            names = question.attributes
            if question.name in self.columns and not all(name in self.columns for name in names):
                names = (question.name,)  # several choices in one cell
            indicator = [name for name in [question.missing_indicator] if name in self.columns]
            wanted |= {*names, *indicator}
            found[question.name] = {
                name: self.columns[name] for name in (*names, *indicator) if name in self.columns
            }
            self.problems += [self._no_column(name) for name in names if name not in self.columns]
        for name in self.sheet.doubled:
            if slug(name) in wanted or name in wanted:
                at = [str(i + 1) for i, other in enumerate(self.sheet.header) if other == name]
                self.problems.append(
                    f"header: {name!r} is there more than once, in columns {', '.join(at)}; keep one"
                )
        used = {place for columns in found.values() for place in columns.values()}
        for place, cell in self.sheet.unclear.items():
            if place in used:
                plain, comma = cell.replace(".", ""), cell.replace(".", ",")
                self.problems.append(
                    f"column {self.sheet.header[place]}: {cell!r} in a file with decimal commas; write {plain} or {comma}, "
                    "whichever is meant"
                )
        return found

    def _no_column(self, name: str) -> str:
        by_case = {header.casefold(): header for header in self.sheet.header if header}
        near = difflib.get_close_matches(name.casefold(), by_case, n=1, cutoff=0.6)
        has = ", ".join(map(repr, self.sheet.header[:12])) + (", ..." if len(self.sheet.header) > 12 else "")
        hint = f"did you mean {by_case[near[0]]!r}? Rename it" if near else f"the file has {has}"
        return f"header: there is no column {name!r}; {hint}"

    def person(self, line: int, cells: tuple[str, ...], places: dict[str, dict[str, int]]) -> Answers:
        """One line's answers, as far as they are good."""
        filled: Answers = {}
        if wrong := self.sheet.too_long(line, cells):
            self.problems.append(wrong)
            return filled
        values: dict[str, Value | None] = {}
        for question in self.form.parts:
            given = {
                name: cells[place] if place < len(cells) else ""
                for name, place in places[question.name].items()
            }
            if not given:
                continue  # the header's problem
            value: Value | None = None
            try:
                if question.relevant is None or question.relevant.holds(values):
                    if (counted := self._counted(question, given)) is not None:
                        filled |= {question.name: counted}
                        continue
                    value = values[question.name] = self._value(question, given)
                filled |= question.encode(value)
            except AnswerError as error:
                self._wrong(line, question, given, error)
        return filled

    def _value(self, question: Question, given: dict[str, str]) -> Value | None:
        indicator = given.pop(question.missing_indicator, "")
        if indicator and self._number(indicator, question.missing_indicator) == 1:
            return None
        if question.kind == "multiple_choice" and question.name not in given:
            return self._several(question, given)
        cell = given[question.name]
        levels = [choice.value for choice in question.choices]
        if cell not in levels and cell.casefold() in MISSING:
            return question.check(None, self.language)
        as_number = self._number(cell, question.name)
        if question.kind in NUMBERS:
            return question.check(cell if as_number is None else as_number, self.language)
        if question.kind == "yes_no" and as_number in (0.0, 1.0):
            return as_number == 1.0
        if question.kind == "single_choice":
            return question.check(self._level(cell, as_number, levels), self.language)
        if question.kind == "multiple_choice":
            return question.check(cell.replace("|", " ").replace(",", " "), self.language)
        return question.check(cell, self.language)

    def _counted(self, question: Question, given: dict[str, str]) -> float | None:
        """A date or a time that the table has as the attribute's number already; None if it is not one."""
        value = (
            self._number(given[question.name], question.name) if question.kind in ("date", "time") else None
        )
        low, high = question.minimum, question.maximum
        if value is not None and low is not None and high is not None and not low <= value <= high:
            raise AnswerError(question.name, f"must be between {low:g} and {high:g}, or a {question.kind}")
        return value

    def _several(self, question: Question, given: dict[str, str]) -> Value | None:
        """A binary column a choice; all of them empty is no answer, some of them is a mistake."""
        words = {name: cell.casefold() for name, cell in given.items()}
        if all(word in MISSING for word in words.values()):
            return question.check(None, self.language)
        yes, no = {"1", "1.0", "yes", "true"}, {"0", "0.0", "no", "false"}
        for name, word in words.items():
            if word not in yes | no:
                raise AnswerError(name, "answer yes or no")
        prefix = len(question.name) + 1
        return tuple(name[prefix:] for name, word in words.items() if word in yes)

    @staticmethod
    def _level(cell: str, as_number: float | None, levels: list[str]) -> str:
        """The level that a cell means: itself, the whole number it is (`3.0`), or the one of its letters."""
        if cell in levels:
            return cell
        if as_number is not None and as_number.is_integer() and str(int(as_number)) in levels:
            return str(int(as_number))
        return slug(cell) if slug(cell) in levels else cell

    def _number(self, cell: str, name: str) -> float | None:
        return self.sheet.number(cell, self.columns[name])

    def _wrong(self, line: int, question: Question, given: dict[str, str], error: AnswerError) -> None:
        name = error.attribute if error.attribute in given else next(iter(given))
        cell, problem = given[name], error.problem
        if cell.casefold() in MISSING:
            self.empty = True
        elif question.kind == "single_choice":
            levels = [choice.value for choice in question.choices]
            near = difflib.get_close_matches(cell.casefold(), levels, n=1, cutoff=0.6)
            problem = f"is not one of {', '.join(levels)}" + (f"; did you mean {near[0]!r}?" if near else "")
        shown = cell if len(cell) <= 40 else cell[:39] + "…"
        self.problems.append(f"line {line}, column {name}, value {shown!r}: {problem}")
