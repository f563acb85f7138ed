"""Answers from a table: its columns are a study's attributes, and its empty cells follow the form's missing-value rules.

Everything that does not fit is listed at once, with line, column and value, since correcting a file one message at a time
takes an afternoon. Nothing is changed silently except different spellings of one value: `3.0` for 3, `0.0` for no, and a
text for the level that has its letters.

Of a CSV file encoding, delimiter and decimal mark are detected. Encodings: UTF-8, UTF-16 (with or without a byte order
mark), else Windows-1252, which is Latin-1 with quotes. The delimiter is the one of `,` `;` tab `|` that occurs most often
in the header; a first line `sep=;` (Excel's) goes before. Numbers are read with a decimal comma in columns that have no
decimal point, where the delimiter is not a comma.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from trimask_core.basics.errors import AnswerError, ConfigError, SeveralProblems
from trimask_core.form.form import Form, Question
from trimask_core.form.kinds import Value
from trimask_core.study.derived import ONES
from trimask_core.study.schema import Schema

# What stands for "no answer" in tables that pandas, R and spreadsheets write.
MISSING = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "<na>"])
_DELIMITERS = (",", ";", "\t", "|")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?\d+,\d+")
_MAYBE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")


@dataclass(frozen=True)
class Sheet:
    """Cells without the blanks around them; `lines` are (number in the file, cells)."""

    path: Path
    header: tuple[str, ...]
    lines: tuple[tuple[int, tuple[str, ...]], ...]
    encoding: str
    delimiter: str
    comma: tuple[bool, ...]

    @property
    def doubled(self) -> tuple[str, ...]:
        """Names that the header has more than once."""
        return tuple(name for name, count in Counter(self.header).items() if name and count > 1)

    def too_long(self, line: int, cells: tuple[str, ...]) -> str:
        """What is wrong with a line that has more cells than the header, or nothing."""
        if len(cells) <= len(self.header):
            return ""
        return (
            f"line {line}: {len(cells)} cells under {len(self.header)} headers; quote cells that have "
            f"{self.delimiter!r} in them"
        )

    def number(self, cell: str, place: int) -> float | None:
        """A cell of the column at `place` as a number, or None; 7,5 is one where commas are decimal."""
        return number(cell, decimal_comma=self.comma[place])

    @property
    def unclear(self) -> dict[int, str]:
        """Columns, by place, whose points may stand between thousands, with such a cell: 12.345 beside 0,5."""
        cells = list(zip_longest(*(cells for _, cells in self.lines), fillvalue=""))[: len(self.header)]
        commas = {i for i, column in enumerate(cells) if self.comma[i] and any(map(_COMMA.fullmatch, column))}
        found = {}
        for i, column in enumerate(cells):
            points = [cell for cell in column if _POINT.fullmatch(cell)]
            if commas and points and all(map(_MAYBE_THOUSANDS.fullmatch, points)):
                found[i] = points[0]
        return found

    def column(self, name: str) -> list[str]:
        """A column's cells; one that a line lacks is empty."""
        place = self.header.index(name)
        return [cells[place] if place < len(cells) else "" for _, cells in self.lines]


def read_sheet(path: Path) -> Sheet:
    """The file's cells; `ConfigError` if it is no table."""
    text, encoding = _decode(path)
    skipped = 0
    named = re.match(r"sep=(.)\r?\n", text)
    if named:
        text, skipped = text[named.end() :], 1
    delimiter = named[1] if named else _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        records = [
            (reader.line_num + skipped, tuple(cell.strip() for cell in record))
            for record in reader
            if any(cell.strip() for cell in record)
        ]
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num + skipped}: not CSV: {error}") from None
    if len(records) < 2:
        raise ConfigError(f"{path} has {'no rows below its header' if records else 'nothing in it'}")
    (_, header), *lines = records
    points = {i for _, cells in lines for i, cell in enumerate(cells) if _POINT.fullmatch(cell)}
    comma = tuple(delimiter != "," and i not in points for i in range(len(header)))
    return Sheet(path, header, tuple(lines), encoding, delimiter, comma)


def number(cell: str, *, decimal_comma: bool) -> float | None:
    """The cell as a number, or None; 7,5 is one where commas are decimal."""
    if decimal_comma and _COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return float(cell) if "_" not in cell else None  # 1_000 is a number in Python alone
    except ValueError:
        return None


def slug(text: str) -> str:
    """A text in the letters that names and levels may have: `Très bien` gives Tres_bien."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return re.sub(r"[^A-Za-z0-9]+", "_", letters).strip("_")


def _decode(path: Path) -> tuple[str, str]:
    data = path.read_bytes()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        tries = ["utf-16"]
    elif b"\0" in data[:2000]:
        tries = ["utf-16-le" if data[1:2] == b"\0" else "utf-16-be"]
    else:
        tries = ["utf-8-sig", "cp1252", "latin-1"]
    for encoding in tries:
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    raise ConfigError(f"{path} is not text; save it as CSV, in UTF-8")


def _delimiter(text: str) -> str:
    def parts(delimiter: str) -> int:
        return len(next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), ()))

    return max(_DELIMITERS, key=parts)  # the first of equals: a single column has none


def attribute_name(header: str) -> str:
    """A name the schema takes, from a header."""
    name = slug(header)
    if not name or not name[0].isalpha() or name == ONES:
        name = f"x_{name}" if name else "x"
    return name[:63]


Answers = dict[str, object]
_LISTED = 20
_EMPTY = (
    "Empty cells: fill them, take their lines out, or give the study a [form] whose questions say what stands for a missing "
    "answer (required = false, missing, missing_indicator); `trimask study from-csv` drafts one."
)


@dataclass(frozen=True)
class People:
    """Everybody in a table with their lines in the file, and its columns that the study does not ask for."""

    answers: list[Answers]
    unused: tuple[str, ...]
    lines: tuple[int, ...]


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
    unused = tuple(name for i, name in enumerate(sheet.header) if name and i not in used)
    return People(people, unused, tuple(line for line, _ in sheet.lines))


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
        if question.rules.several and question.name not in given:
            return self._several(question, given)
        cell = given[question.name]
        levels = [choice.value for choice in question.choices]
        if cell not in levels and cell.casefold() in MISSING:
            return question.check(None, self.language)
        as_number = self._number(cell, question.name)
        if question.rules.several:
            return question.check(cell.replace("|", " ").replace(",", " "), self.language)
        if levels:
            return question.check(self._level(cell, as_number, levels), self.language)
        return question.check(cell if as_number is None else as_number, self.language)

    def _counted(self, question: Question, given: dict[str, str]) -> float | None:
        """A date or a time that the table has as the attribute's number already; None if it is not one."""
        value = self._number(given[question.name], question.name) if question.rules.counts else None
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
        """The level that a cell means: itself, the whole number it is (`3.0`), or the one of its letters, in either case."""
        if cell in levels:
            return cell
        if as_number is not None and as_number.is_integer() and str(int(as_number)) in levels:
            return str(int(as_number))
        if slug(cell) in levels:
            return slug(cell)
        alike = [level for level in levels if level.casefold() == slug(cell).casefold()]
        return alike[0] if len(alike) == 1 else cell

    def _number(self, cell: str, name: str) -> float | None:
        return self.sheet.number(cell, self.columns[name])

    def _wrong(self, line: int, question: Question, given: dict[str, str], error: AnswerError) -> None:
        name = error.attribute if error.attribute in given else next(iter(given))
        cell, problem = given[name], error.problem
        if cell.casefold() in MISSING:
            self.empty = True
        elif question.choices and not question.rules.several:
            levels = [choice.value for choice in question.choices]
            near = difflib.get_close_matches(cell.casefold(), levels, n=1, cutoff=0.6)
            problem = f"is not one of {', '.join(levels)}" + (f"; did you mean {near[0]!r}?" if near else "")
        shown = cell if len(cell) <= 40 else cell[:39] + "…"
        self.problems.append(f"line {line}, column {name}, value {shown!r}: {problem}")
