"""Reads settings from a table by type; every error names the whole path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, time
from typing import Any

from trimask_core.errors import StudyError
from trimask_core.texts import Texts

__all__ = ["day", "flag", "named", "number", "only", "tables", "text", "texts"]


def only(data: Any, known: Iterable[str], where: str) -> None:
    """Refuse a setting that is not known, with the nearest that is."""
    names = list(known)
    if not isinstance(data, Mapping):
        raise StudyError(f"{where} must be a table")
    for key in data:
        if key not in names:
            import difflib  # here alone, to keep the device's start short

            near = difflib.get_close_matches(str(key), names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
            raise StudyError(f"{where} has no setting {key!r}; {hint}")


def named(data: Any, section: str) -> str:
    """The path of a named table, for error messages."""
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str) or not data["name"].strip():
        raise StudyError(f"every one of {section} needs a name")
    return f"{section}.{data['name']}"


def tables(data: Mapping[str, Any], key: str, where: str = "form") -> list[Any]:
    """A list of tables."""
    value = data.get(key, [])
    if not isinstance(value, list):
        raise StudyError(f"{where}.{key} must be a list of tables")
    return value


def text(data: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    """A text; required unless there is a default."""
    value = data.get(key, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise StudyError(f"{where}.{key} must be given, as text")
    return value


def texts(data: Mapping[str, Any], key: str, languages: tuple[str, ...], where: str) -> Texts | None:
    """A text in every language."""
    return Texts.read(data[key], languages, f"{where}.{key}") if key in data else None


def number(data: Mapping[str, Any], key: str, where: str) -> float | None:
    """A finite number."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise StudyError(f"{where}.{key} must be a number")
    return float(value)


def day(data: Mapping[str, Any], key: str, where: str) -> str:
    """A date or a time of day, as text or as TOML's own."""
    value = data.get(key, "")
    if isinstance(value, date):
        return value.isoformat()[:10]
    if isinstance(value, time):
        return value.isoformat("minutes")
    if not isinstance(value, str):
        raise StudyError(f"{where}.{key} must be a date such as 1970-01-01, or a time such as 22:30")
    return value


def flag(data: Mapping[str, Any], key: str, where: str, default: bool) -> bool:
    """True or false."""
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise StudyError(f"{where}.{key} must be true or false")
    return value
