"""The sheets of an XLSForm as rows of text, and its languages.

A workbook may come from anywhere, and is a compressed archive of XML: what it says it holds is bounded before anything is
unpacked, and so are rows, columns and texts.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimask_core.basics.errors import ConfigError, StudyError
from trimask_core.form.texts import check_language

Row = dict[str, str]
_SHEETS = ("survey", "choices", "settings")
_MOST_PARTS = 1000
_MOST_BYTES = 64 << 20
_MOST_ROWS = 10_000
_MOST_COLUMNS = 500
_PROLOGUE = 4096
_CODE = re.compile(r"^.*\(([A-Za-z0-9-]+)\)\s*$")
# Languages that XLSForms often name without a code.
_NAMED = {
    "english": "en", "deutsch": "de", "german": "de", "français": "fr", "francais": "fr", "french": "fr",
    "español": "es", "espanol": "es", "spanish": "es", "português": "pt", "portuguese": "pt", "italiano": "it",
    "italian": "it", "nederlands": "nl", "dutch": "nl", "swahili": "sw", "kiswahili": "sw", "arabic": "ar",
    "العربية": "ar", "hindi": "hi", "हिन्दी": "hi", "urdu": "ur", "persian": "fa", "hebrew": "he", "bengali": "bn",
}  # fmt: skip


@dataclass(frozen=True)
class Workbook:
    """`languages` maps each language tag to the suffix of its columns ("" where they have none)."""

    survey: tuple[Row, ...]
    choices: tuple[Row, ...]
    settings: Row
    languages: dict[str, str]
    refused_languages: tuple[str, ...]

    def texts(self, row: Row, column: str) -> dict[str, str]:
        """A row's text in each language that has one."""
        found = {tag: row.get(_column(column, suffix), "") for tag, suffix in self.languages.items()}
        plain = row.get(column, "")
        return {tag: text or plain for tag, text in found.items() if text or plain}


def read_workbook(path: Path) -> Workbook:
    """Read an .xlsx, a folder with survey.csv, choices.csv and settings.csv, or a survey.csv with those beside it."""
    sheets = _csv_sheets(path) if path.is_dir() or path.suffix.lower() == ".csv" else _xlsx_sheets(path)
    if "survey" not in sheets:
        raise ConfigError(f"{path} has no sheet named survey: it is not an XLSForm")
    settings = next(iter(sheets.get("settings", [])), {})
    survey, choices = sheets["survey"], sheets.get("choices", [])
    languages, refused = _languages([*survey, *choices], settings.get("default_language", ""))
    return Workbook(tuple(survey), tuple(choices), settings, languages, refused)


def _csv_sheets(path: Path) -> dict[str, list[Row]]:
    """`my-survey.csv` has `my-choices.csv` and `my-settings.csv` beside it."""
    import csv

    if path.is_dir():
        files = {name: path / f"{name}.csv" for name in _SHEETS}
    elif "survey" in path.name.lower():
        files = {
            name: path.with_name(re.sub("survey", name, path.name, flags=re.IGNORECASE)) for name in _SHEETS
        }
        files["survey"] = path
    else:
        files = {name: path.with_name(f"{name}.csv") for name in _SHEETS} | {"survey": path}
    sheets = {}
    for name, file in files.items():
        if not file.is_file():
            continue
        if file.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{file} has more than {_MOST_BYTES >> 20} MiB; a form has less")
        try:
            with file.open(encoding="utf-8-sig", newline="") as text:
                sheets[name] = _table(str(file), csv.reader(text, strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(f"{file} is not CSV in UTF-8: {error}") from None
    return sheets


def _xlsx_sheets(path: Path) -> dict[str, list[Row]]:
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        _refuse_bomb(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, SyntaxError, OSError):
        raise ConfigError(f"{path} is not an .xlsx workbook") from None
    try:
        found = {sheet.title.strip().lower(): sheet for sheet in book.worksheets}
        sheets = {name: _sheet(path, found[name]) for name in _SHEETS if name in found}
    except (zipfile.BadZipFile, KeyError, ValueError, SyntaxError):
        raise ConfigError(f"{path} is not an .xlsx workbook: a sheet cannot be read") from None
    finally:
        book.close()
    return sheets


def _refuse_bomb(path: Path) -> None:
    """Refuse an archive that unpacks to more than a form ever has, and XML that defines words of its own."""
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        size = sum(part.file_size for part in parts)
        if len(parts) > _MOST_PARTS or size > _MOST_BYTES:
            raise ConfigError(
                f"{path} unpacks to {len(parts)} parts and {size >> 20} MiB; a form has at most {_MOST_PARTS} and "
                f"{_MOST_BYTES >> 20}: take pictures and other sheets out"
            )
        for part in parts:
            if not part.filename.endswith((".xml", ".rels")):
                continue
            with archive.open(part) as text:
                # Where a document type may stand: before the first element. No spreadsheet program writes one.
                if b"<!" in text.read(_PROLOGUE).partition(b"<worksheet")[0].replace(b"<!--", b""):
                    raise ConfigError(
                        f"{path} defines entities in {part.filename}; no spreadsheet program does"
                    )


def _sheet(path: Path, sheet: Any) -> list[Row]:
    # What the sheet says of its size is its author's word; rows are counted as they come.
    sheet.reset_dimensions()
    rows = sheet.iter_rows(values_only=True, max_row=_MOST_ROWS + 1, max_col=_MOST_COLUMNS)
    return _table(f"{path}, sheet {sheet.title}", rows)


def _table(where: str, rows: Iterator[Sequence[Any]]) -> list[Row]:
    header = [_header(cell) for cell in list(next(rows, ()))[:_MOST_COLUMNS]]
    found = []
    for number, cells in enumerate(rows, 2):
        if number > _MOST_ROWS:
            raise ConfigError(f"{where}: more than {_MOST_ROWS} rows")
        row = {name: _text(cell) for name, cell in zip(header, cells, strict=False) if name and _text(cell)}
        if row:
            found.append(row)
    return found


def _header(cell: Any) -> str:
    """Column names with one spelling: "Label :: English (en)" is label::English (en)."""
    name, colons, language = _text(cell).partition("::")
    name = {"list name": "list_name", "relevance": "relevant"}.get(name.strip().lower(), name.strip().lower())
    return f"{name}::{language.strip()}" if colons else name


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def _column(name: str, suffix: str) -> str:
    return f"{name}::{suffix}" if suffix else name


def _languages(rows: list[Row], default: str) -> tuple[dict[str, str], tuple[str, ...]]:
    suffixes = dict.fromkeys(
        name.partition("::")[2] for row in rows for name in row if name.startswith("label::")
    )
    languages: dict[str, str] = {}
    refused = []
    for suffix in suffixes:
        try:
            languages.setdefault(_tag(suffix), suffix)
        except StudyError:
            refused.append(suffix)
    try:
        first = _tag(default) if default else ""
    except StudyError:
        first = ""
    if not languages:
        languages = {first or "en": ""}
    if first in languages:
        languages = {first: languages[first], **languages}
    return languages, tuple(refused)


def _tag(name: str) -> str:
    match = _CODE.match(name)
    word = match[1] if match else _NAMED.get(name.strip().lower(), name.strip())
    primary, dash, rest = word.partition("-")
    return check_language(primary.lower() + dash + rest)
