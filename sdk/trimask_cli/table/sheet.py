"""A CSV file as text cells; encoding, delimiter and decimal mark are detected.

Encodings: UTF-8, UTF-16 (with or without a byte order mark), else Windows-1252, which is Latin-1 with quotes. The
delimiter is the one of `,` `;` tab `|` that occurs most often in the header; a first line `sep=;` (Excel's) goes before.
Numbers are read with a decimal comma in columns that have no decimal point, where the delimiter is not a comma.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from trimask_core.errors import ConfigError

__all__ = ["MISSING", "Sheet", "number", "read_sheet", "slug"]

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
