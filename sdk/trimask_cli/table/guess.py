"""What a column of a table seems to ask: its kind, bounds rounded outward, levels, and what stands for its empty cells.

Bounds are rounded outward to a step of 1, 2 or 5 times a power of ten, about a twentieth of the range: what is written
into a study is public, and a file's own smallest and largest value belong to two people.

Of a CSV file encoding, delimiter and decimal mark are detected. Encodings: UTF-8, UTF-16 (with or without a byte order
mark), else Windows-1252, which is Latin-1 with quotes. The delimiter is the one of `,` `;` tab `|` that occurs most often
in the header; a first line `sep=;` (Excel's) goes before. Numbers are read with a decimal comma in columns that have no
decimal point, where the delimiter is not a comma.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from trimask_core.basics.errors import ConfigError
from trimask_core.form.parse_input import is_date
from trimask_core.study.derived import ONES
from trimask_core.study.schema import AttributeKind

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


_WORDS = frozenset(["yes", "no", "true", "false"])
_NUMBERED = re.compile(r"(?:^|_)(id|nr|no|number|index)$", re.IGNORECASE)
_DAY_FIRST = re.compile(r"\d{1,2}([./-])\d{1,2}\1(\d{4}|\d{2})([ T].*)?")
_WITH_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d.*")
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(([,.' \u2019\u00a0\u202f])\d{3})(\2\d{3})*([,.]\d+)?")
_MOST_LEVELS = 12
_FEW_PEOPLE = 5


@dataclass(frozen=True)
class Guess:
    """A column as an attribute. `empty` cells have no answer, and `missing` would stand in them; `notes` are to be read.

    `texts` are what the table has for the levels, in their order: people are to read `<18`, not the level 18.
    """

    header: str
    name: str
    kind: AttributeKind
    minimum: float | None = None
    maximum: float | None = None
    levels: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    step: float | None = None
    empty: int = 0
    missing: bool | float | str = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A column that no attribute can be made of, and why."""

    header: str
    why: str


def attribute_name(header: str) -> str:
    """A name the schema takes, from a header."""
    name = slug(header)
    if not name or not name[0].isalpha() or name == ONES:
        name = f"x_{name}" if name else "x"
    return name[:63]


def guess(header: str, cells: Sequence[str], *, decimal_comma: bool) -> Guess | LeftOut:
    """What a column asks, from its cells."""
    given = [cell for cell in cells if cell.casefold() not in MISSING]
    empty = len(cells) - len(given)
    if len(set(given)) < 2:
        return LeftOut(header, "has one value in every line" if given else "is empty")
    name = attribute_name(header)
    found = [value for cell in given if (value := number(cell, decimal_comma=decimal_comma)) is not None]
    if len(found) == len(given) and all(map(math.isfinite, found)):
        return _numeric(header, name, found, empty)
    words = [cell.casefold() for cell in given]
    if set(words) <= _WORDS:
        return Guess(header, name, "binary", empty=empty, missing=False)
    if all(is_date(cell) for cell in given):
        return LeftOut(header, 'is a date: ask it by a [form] question of kind = "date" (docs/forms.md)')
    if why := _written_otherwise(given, decimal_comma=decimal_comma):
        return LeftOut(header, why)
    odd = [cell for cell in given if number(cell, decimal_comma=decimal_comma) is None]
    if len(odd) * 20 <= len(given):
        shown = ", ".join(map(repr, sorted(set(odd))[:5]))
        return LeftOut(header, f"is all numbers but for {shown}: mend or empty these cells")
    return _levels(header, name, given, empty)


def _written_otherwise(given: list[str], *, decimal_comma: bool) -> str:
    """Why cells that mean dates, times or numbers are not read as such, and how to write them; empty for others."""
    if all(_DAY_FIRST.fullmatch(cell) or _WITH_TIME.fullmatch(cell) or is_date(cell) for cell in given):
        shown = next(cell for cell in given if not is_date(cell))
        return (
            f"is a date, such as {shown!r}: write it year-month-day, such as 2026-01-31, and ask it by a [form] question of "
            'kind = "date" (docs/forms.md)'
        )
    if all(_CLOCK.fullmatch(cell) for cell in given):
        return 'is a time of day: ask it by a [form] question of kind = "time" (docs/forms.md)'
    odd = [cell for cell in given if number(cell, decimal_comma=decimal_comma) is None]
    if all(_THOUSANDS.fullmatch(cell) for cell in odd):
        return f"has numbers with marks between thousands, such as {odd[0]!r}: write them without"
    return ""


def _numeric(header: str, name: str, values: list[float], empty: int) -> Guess | LeftOut:
    low, high = min(values), max(values)
    if set(values) == {0.0, 1.0}:
        return Guess(header, name, "binary", empty=empty, missing=False)
    whole = all(value.is_integer() for value in values)
    all_different = whole and len(set(values)) == len(values) > 10
    if all_different and (high - low == len(values) - 1 or _NUMBERED.search(name)):
        return LeftOut(header, "numbers the lines: an identifier is never asked")
    notes = _far(values)
    low, high = outward(low, high)
    middle = min(max(float(f"{statistics.median(values):.2g}"), low), high)
    if whole:
        return Guess(
            header, name, "integer", low, high, empty=empty, missing=float(round(middle)), notes=notes
        )
    step = outward_step(high - low, 1000)
    return Guess(header, name, "continuous", low, high, step=step, empty=empty, missing=middle, notes=notes)


def _far(values: list[float]) -> tuple[str, ...]:
    """Values five times the middle half's width away from it: 999 is often a code for no answer."""
    if len(values) < 10:
        return ()
    low, _, high = statistics.quantiles(values, n=4)
    width = high - low
    far = sorted({value for value in values if width and not low - 5 * width <= value <= high + 5 * width})
    if not far:
        return ()
    shown = ", ".join(f"{value:g}" for value in far[:5]) + (", ..." if len(far) > 5 else "")
    return (f"far from the others: {shown}; if that is a code or a slip, empty these cells and draft again",)


def _levels(header: str, name: str, given: list[str], empty: int) -> Guess | LeftOut:
    counts = Counter(given)
    if len(counts) > _MOST_LEVELS:
        return LeftOut(header, f"has {len(counts)} different texts: group them into {_MOST_LEVELS} at most")
    texts = {slug(text): text for text in counts}
    if "" in texts:
        return LeftOut(header, f"has a text without a Latin letter or digit, {texts['']!r}: rename it")
    if len(texts) != len(counts):
        other = next(text for text in counts if texts[slug(text)] != text)
        return LeftOut(
            header,
            f"has {other!r} and {texts[slug(other)]!r}, whose letters and digits are the same: rename one",
        )
    rare = [f"{slug(text)} ({count})" for text, count in counts.items() if count < _FEW_PEOPLE]
    notes = (f"few people: {', '.join(sorted(rare))}; join them with others",) if rare else ()
    levels = tuple(sorted(texts))
    return Guess(
        header,
        name,
        "categorical",
        levels=levels,
        texts=tuple(texts[level] for level in levels),
        empty=empty,
        missing=slug(counts.most_common(1)[0][0]),
        notes=notes,
    )


def outward(low: float, high: float) -> tuple[float, float]:
    """Bounds rounded outward, so that they do not show a single person's value."""
    step = outward_step(high - low, 20)
    return _times(math.floor(low / step), step), _times(math.ceil(high / step), step)


def outward_step(width: float, parts: int) -> float:
    """1, 2 or 5 times a power of ten: the least that is not below a `parts`-th of the width."""
    ten: float = 10.0 ** math.floor(math.log10(width / parts))
    return next(float(f"{m * ten:.1g}") for m in (1, 2, 5, 10) if m * ten >= width / parts * (1 - 1e-12))


def _times(count: int, step: float) -> float:
    return float(f"{count * step:.12g}")
