"""The study: everything the parties agree on before the first answer, frozen, and named by its own hash.

Its id is the SHA-256 of its canonical JSON. What the way of collecting (the suite) adds has its own module
(`trimask_core.rows.study`, `trimask_core.moments.study`). A study that breaks a rule of `study_rules` cannot be made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from trimask_core.clipping import Clipping
from trimask_core.errors import StudyError
from trimask_core.moments.study import MomentsSettings, MomentsStudy
from trimask_core.party import Party
from trimask_core.protection import Budget, Protection
from trimask_core.rows.study import RowsSettings, RowsStudy
from trimask_core.schema import Schema
from trimask_core.study_rules import check_study
from trimask_core.text_form import canonical_json
from trimask_core.web import Web
from trimask_core.weight import Weight

if TYPE_CHECKING:
    from trimask_core.form import Form

__all__ = ["SUITES", "Budget", "Party", "Protection", "Study", "SuiteName", "SuiteSettings"]

FORMAT = "trimask-study/1"
SuiteName = Literal["rows", "moments"]
SuiteSettings = RowsSettings | MomentsSettings
SUITES: dict[str, type[RowsSettings] | type[MomentsSettings]] = {
    "rows": RowsSettings,
    "moments": MomentsSettings,
}


@dataclass(frozen=True)
class Study:
    """One study."""

    title: str
    purpose: str
    contact: str
    created_ms: int
    schema: Schema
    protection: Protection
    suite: SuiteSettings
    release_rows: int
    collector: Party
    right: tuple[Party, ...]
    left: tuple[Party, ...]
    tls_roots: str
    # "open": anybody may submit; "invited": right providers ask for an invitation.
    admission: str = "open"
    # Who signs invitations: "owner", or a right provider's role ("R1", ...); never who collects. Empty in an open study.
    admission_signer: str = ""
    # The owner's key for that (Ed25519, 64 hexadecimal digits); empty where somebody else signs.
    owner_key: str = ""
    # Whether right providers tell the owner which invitations were used, to remind the others. People are told. In the
    # canonical form only where it is so.
    reminders: bool = False
    # What people are shown and asked; without one, an app makes a plain form of the schema.
    form: Form | None = None
    # For sums by Algorithm 3: devices clip these columns to a ball around a public centre.
    clipping: Clipping | None = None
    # "public": anybody may read what is published; "token": the collector asks for a token of the owner's.
    access: str = "public"
    # The address of the licence its releases are under; empty if none is stated.
    licence: str = ""
    # Which hosts may show its page, and the hash of that page; without it people take part from the app alone.
    web: Web | None = None
    # How much each person's answers count; without one, all count the same. In the canonical form only where there is one.
    weight: Weight | None = None
    # What right providers committed to with their approvals (`SignedStudy`); no part of the id.
    commitments: tuple[bytes, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check_study(self)

    @cached_property
    def attributes(self) -> int:
        """p1, the number of columns an answer fills."""
        return len(self.schema.columns)

    def encode(self, answers: Mapping[str, object]) -> list[float]:
        """The scaled row x1 a device begins with: what the schema makes of the answers, clipped where declared."""
        row = self.schema.encode(answers)
        return row if self.clipping is None else self.clipping.apply(self.schema.columns, row)

    # The suites

    @cached_property
    def rows(self) -> RowsStudy:
        """What the rows suite knows of this study; refused if it is of another suite."""
        if not isinstance(self.suite, RowsSettings):
            raise StudyError(f"this study is of the {self.suite.name} suite: it has no blocks of rows")
        settings = {item.name: getattr(self.suite, item.name) for item in fields(RowsSettings)}
        return RowsStudy(
            **settings,
            attributes=self.attributes,
            row_norm=self.protection.row_norm,
            sigma=self.protection.sigma,
            release_rows=self.release_rows,
            right=len(self.right),
            left=len(self.left),
        )

    @cached_property
    def moments(self) -> MomentsStudy:
        """What the moments suite knows of this study; refused if it is of another suite."""
        if not isinstance(self.suite, MomentsSettings):
            raise StudyError(
                f"this study is of the {self.suite.name} suite: its moments are not summed in shares"
            )
        return MomentsStudy(
            **asdict(self.suite),
            schema=self.schema,
            weight=self.weight,
            row_norm=self.protection.row_norm,
            sigma=self.protection.sigma,
            release_rows=self.release_rows,
            right=len(self.right),
            left=len(self.left),
        )

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

    @property
    def admits(self) -> bytes:
        """The key of who signs invitations to this study; refused where it has none."""
        if self.admission != "invited":
            raise StudyError("this study is open: nobody is invited to it")
        return bytes.fromhex(self.owner_key) if self.owner_key else self.party(self.admission_signer).identity

    # Parties

    @cached_property
    def parties(self) -> dict[str, Party]:
        """Every party by its role's name: R1.., L1.., collector."""
        named = {f"R{k}": party for k, party in enumerate(self.right, 1)}
        named |= {f"L{j}": party for j, party in enumerate(self.left, 1)}
        return named | {"collector": self.collector}

    def party(self, role: str) -> Party:
        """The party in a role."""
        try:
            return self.parties[role]
        except KeyError:
            raise StudyError(f"this study has no party {role}") from None

    def role_of(self, identity: bytes) -> str:
        """The role an identity plays here."""
        for role, party in self.parties.items():
            if party.identity == identity:
                return role
        raise StudyError("this node is not named in the study")

    # Canonical form

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
                clipping=None if data["clipping"] is None else Clipping.from_dict(data["clipping"]),
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


_NESTED = {"schema", "protection", "suite", "collector", "form", "clipping", "web", "weight"}
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
