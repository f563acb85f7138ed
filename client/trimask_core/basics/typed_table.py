"""Settings out of TOML or JSON, strictly: an unknown key is refused with the nearest known one, a wrong type by its path.

A setting that is quietly ignored is a privacy failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trimask_core.basics.errors import StudyError


def nearest(word: str, known: Iterable[str]) -> str:
    """What a word that is not known may have been meant to be."""
    import difflib  # here alone, to keep the device's start short

    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"


def refuse_unknown(data: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse a key that is not known."""
    names = list(known)
    for key in data:
        if key not in names:
            raise StudyError(f"{where} has no setting {key!r}; {nearest(str(key), names)}")


@dataclass(frozen=True)
class Table:
    """A table whose values are taken out by type."""

    data: Mapping[str, Any]
    path: str

    @classmethod
    def of(cls, data: Any, path: str) -> Table:
        """What should be a table."""
        if not isinstance(data, Mapping):
            raise StudyError(f"{path} must be a table")
        return cls(data, path)

    def _wrong(self, key: str, wanted: str) -> StudyError:
        return StudyError(f"{self.at(key)} must be {wanted}")

    def at(self, key: str) -> str:
        """The whole path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse any other key."""
        refuse_unknown(self.data, known, f"[{self.path}]")

    def named(self) -> Table:
        """This entry of an array of tables, under its own name."""
        return Table(self.data, f"{self.path}.{self.text('name')}")

    def text(self, key: str, default: str | None = None) -> str:
        """A text; required unless there is a default."""
        value = self.data.get(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self._wrong(key, "given, as text")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str) -> float | None:
        """A number."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        return float(value)

    def required(self, key: str) -> float:
        """A number that must be there."""
        value = self.number(key)
        if value is None:
            raise self._wrong(key, "given, as a number")
        return value

    def whole(self, key: str) -> int | None:
        """A whole number."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts; none when it is left out."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self._wrong(key, "a list of texts")
        return tuple(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of numbers; none when it is left out."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(item, int | float) and not isinstance(item, bool) for item in value
        ):
            raise self._wrong(key, "a list of numbers")
        return tuple(map(float, value))

    def table(self, key: str) -> Table:
        """A table that must be there."""
        value = self.data.get(key)
        if not isinstance(value, dict):
            raise StudyError(f"the study definition needs a [{self.at(key)}] section")
        return Table(value, self.at(key))

    def tables(self, key: str) -> list[Table]:
        """An array of tables; none when it is left out."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise StudyError(f"write {self.at(key)} as [[{self.at(key)}]] sections")
        return [Table(item, self.at(key)) for item in value]
