"""TOML read strictly: an unknown key is refused with the nearest known name, a wrong type by its key's whole path."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from trimask_core.errors import StudyError

__all__ = ["Table", "names_of", "refuse_unknown"]


def names_of(kind: type) -> tuple[str, ...]:
    """The settings of a dataclass."""
    return tuple(item.name for item in fields(kind))


def refuse_unknown(data: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse a key that is not known; a setting that is quietly ignored is a privacy failure."""
    names = list(known)
    for key in data:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
            raise StudyError(f"{where} has no setting {key!r}; {hint}")


@dataclass(frozen=True)
class Table:
    """A TOML table whose values are taken out by type, with the key's whole path in every refusal."""

    data: Mapping[str, Any]
    path: str

    def _wrong(self, key: str, wanted: str) -> StudyError:
        return StudyError(f"{self._at(key)} must be {wanted}")

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def refuse_unknown(self, known: Iterable[str]) -> None:
        refuse_unknown(self.data, known, f"[{self.path}]")

    def named(self) -> Table:
        """This entry of an array of tables, under its own name."""
        return Table(self.data, f"{self.path}.{self.text('name')}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self._wrong(key, "given, as text")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str) -> float | None:
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        return float(value)

    def required(self, key: str) -> float:
        value = self.number(key)
        if value is None:
            raise self._wrong(key, "given, as a number")
        return value

    def whole(self, key: str) -> int | None:
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self._wrong(key, "a list of texts")
        return tuple(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(item, int | float) and not isinstance(item, bool) for item in value
        ):
            raise self._wrong(key, "a list of numbers")
        return tuple(map(float, value))

    def table(self, key: str) -> Table:
        value = self.data.get(key)
        if not isinstance(value, dict):
            raise StudyError(f"the study definition needs a [{self._at(key)}] section")
        return Table(value, self._at(key))

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise StudyError(f"write {key} as [[{key}]] sections")
        return value
