"""A table of a settings file as a table of a page: keys, types and defaults from the class it is read into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from trimask_core.relevance import Condition
from trimask_core.texts import Texts
from trimask_theory.suite_settings import FOREIGN

__all__ = ["Section"]

_PLAIN: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "whole number",
    float: "number",
    Texts: "text, or one a language",
    Condition: "text",
}


@dataclass(frozen=True)
class Section:
    """One table of the file: its heading, the class it is read into or its `keys`, and every key's words.

    `given` has (type, default) of keys that the class does not show. A key without words, or words without a key, is an
    error, so a page cannot become outdated.
    """

    heading: str
    about: str
    words: Mapping[str, str]
    kind: type | None = None
    keys: tuple[str, ...] = ()
    given: Mapping[str, tuple[str, str]] | None = None
    suite_section: str = ""

    def rows(self) -> Iterable[tuple[str, str, str, str]]:
        """(key, type, default, words) of every key there is."""
        known: dict[str, Any] = {}
        types: dict[str, Any] = {}
        if self.kind is not None:
            known, types = {item.name: item for item in fields(self.kind)}, get_type_hints(self.kind)
        names = self.keys or tuple(known)
        if set(names) != set(self.words):
            raise KeyError(f"{self.heading}: words and keys differ in {sorted(set(names) ^ set(self.words))}")
        for name in names:
            if self.given is not None and name in self.given:
                shown, default = self.given[name]
            else:
                shown, default = _type(types[name]), _default(known[name].default)
            foreign = [suite for suite, keys in FOREIGN.items() if f"{self.suite_section}.{name}" in keys]
            only = f" Only in the {'moments' if foreign == ['rows'] else 'rows'} suite." if foreign else ""
            yield name, shown, default, self.words[name] + only

    def table(self) -> str:
        """The section of the page."""
        about = f"\n{self.about}\n" if self.about else ""
        lines = ["| key | value | default | what it does |", "|---|---|---|---|"]
        lines += [f"| `{key}` | {shown} | {default} | {what} |" for key, shown, default, what in self.rows()]
        return f"## {self.heading}\n{about}\n" + "\n".join(lines) + "\n"


def _type(kind: Any) -> str:
    """A type in words; that a key may be left out is seen by its default."""
    if get_origin(kind) in (UnionType, Union):
        given = [one for one in get_args(kind) if one is not NoneType]
        return _type(given[0]) if len(given) == 1 else "a value of the attribute"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(kind))
    if get_origin(kind) is tuple:
        return {str: "list of texts", float: "list of numbers"}.get(get_args(kind)[0], "list of tables")
    return _PLAIN.get(kind, "table")


def _default(value: Any) -> str:
    if value is MISSING:
        return "required"
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{'true' if value else 'false'}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
