"""The study: everything the parties agree on before the first answer, frozen, and named by its own hash.

Its id is the SHA-256 of its canonical JSON. What is agreed is in `study_settings`, and a study that breaks a rule of
`study_rules` cannot be made. What the way of collecting (the suite) adds has its own module (`trimask_core.rows.study`,
`trimask_core.moments.study`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trimask_core.errors import StudyError
from trimask_core.letters import check_letters
from trimask_core.party import Party
from trimask_core.protection import Budget, Protection
from trimask_core.rows.study import RowsSettings
from trimask_core.schema import Schema
from trimask_core.study_rules import check_settings
from trimask_core.study_settings import SUITES, StudySettings, SuiteName, SuiteSettings
from trimask_core.text_form import canonical_json
from trimask_core.web import Web
from trimask_core.weight import Weight

if TYPE_CHECKING:
    from trimask_core.form import Form

__all__ = ["SUITES", "Budget", "Party", "Protection", "Study", "SuiteName", "SuiteSettings"]

FORMAT = "trimask-study/1"


@dataclass(frozen=True)
class Study(StudySettings):
    """One study, checked."""

    def __post_init__(self) -> None:
        check_settings(self)
        check_letters(self.to_dict())

    @cached_property
    def binding(self) -> bytes:
        """What every sealed parcel is bound to: the study, and what right providers committed to when they approved it.

        In the moments suite a parcel then opens under one challenge key alone:
        docs/theory/verified-moments.md#one-challenge.
        """
        if isinstance(self.suite, RowsSettings):
            return self.id
        if len(self.commitments) != len(self.right):
            raise StudyError("this copy of the study is without the approvals of all right providers")
        return hashlib.sha256(b"trimask/v1/binding\0" + self.id + b"".join(self.commitments)).digest()

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        data: dict[str, Any] = {"format": FORMAT}
        for item in fields(self):
            if item.name == "commitments":
                continue
            value = getattr(self, item.name)
            if item.name in _WHERE_SO and not value:
                continue
            if item.name in ("right", "left"):
                value = [party.to_dict() for party in value]
            elif item.name in _NESTED:
                value = None if value is None else value.to_dict()
            data[item.name] = value
        return data

    @cached_property
    def canonical(self) -> bytes:
        """The bytes the id is the hash of."""
        return canonical_json(self.to_dict())

    @cached_property
    def id(self) -> bytes:
        """SHA-256 of the canonical form."""
        return hashlib.sha256(self.canonical).digest()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Study:
        """Read what `to_dict` wrote, and nothing else: what is not in the canonical form nobody has signed."""
        known = {item.name for item in fields(cls)} - {"commitments"} | {"format"}
        known -= {name for name in _WHERE_SO if name not in data}
        if data.get("format") != FORMAT:
            raise StudyError(f"this is not a study of format {FORMAT}")
        odd = sorted(known.symmetric_difference(data))
        if odd:
            raise StudyError(f"study field {odd[0]} is {'unknown' if odd[0] in data else 'missing'}")
        try:
            study = cls(
                **{name: data[name] for name in known - _NESTED - {"format", "right", "left"}},
                schema=Schema.from_dict(data["schema"]),
                protection=Protection.from_dict(data["protection"]),
                suite=_read_suite(data["suite"]),
                collector=Party.from_dict(data["collector"]),
                right=tuple(Party.from_dict(item) for item in data["right"]),
                left=tuple(Party.from_dict(item) for item in data["left"]),
                form=None if data["form"] is None else _read_form(data["form"]),
                web=None if data["web"] is None else Web.from_dict(data["web"]),
                weight=None if data.get("weight") is None else Weight.from_dict(data["weight"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StudyError(f"this study cannot be read: {error}") from None
        try:
            study.id  # noqa: B018 - text with half a surrogate pair has no UTF-8 form, and so no id
        except UnicodeEncodeError:
            raise StudyError("this study has text that is not Unicode") from None
        if study.to_dict() != data:
            raise StudyError("this study has settings outside its canonical form, which no signature covers")
        return study


_NESTED = {"schema", "protection", "suite", "collector", "form", "web", "weight"}
_WHERE_SO = {"reminders", "weight"}
"""In the canonical form only where they say something."""


def _read_suite(data: Mapping[str, Any]) -> SuiteSettings:
    kind = SUITES.get(data["name"])
    if kind is None:
        raise StudyError(f"this version does not know the suite {str(data['name'])[:40]!r}; a newer one may")
    return kind.from_dict(data)


def _read_form(data: Any) -> Form:
    # Imported here: a device starts faster without it, and most studies have none.
    from trimask_core.form_file import read_form

    return read_form(data)
