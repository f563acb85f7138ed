"""The study: everything the parties agree on before the first answer, frozen, and named by its own hash.

Its id is the SHA-256 of its canonical JSON. What is agreed is in `StudySettings`; what the way of collecting (the suite)
adds has its own module (`trimask_core.rows.study`, `trimask_core.moments.study`).

A study that contradicts itself, or cannot give the protection it claims, is refused. The rules are checked whenever a study
is made or read, so a device does not have to trust the party that made it, and need no statistics library. A study that
keeps them may still promise little: `weaknesses`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from trimask_core.basics.encoding import canonical_json, check_letters
from trimask_core.basics.errors import ImpossibleStudy, StudyError
from trimask_core.crypto.keys import PUBLIC_KEY_BYTES, SEALINGS, Sealing
from trimask_core.moments.study import MomentsSettings, MomentsStudy
from trimask_core.rows.study import RowsSettings, RowsStudy
from trimask_core.study.guarantee import Protection
from trimask_core.study.party import Party, Web
from trimask_core.study.pilot import PilotCorrection
from trimask_core.study.schema import Schema
from trimask_core.study.weight import Weight

if TYPE_CHECKING:
    from trimask_core.form.form import Form


SuiteName = Literal["rows", "moments"]
SuiteSettings = RowsSettings | MomentsSettings
SUITES: dict[str, type[RowsSettings] | type[MomentsSettings]] = {
    "rows": RowsSettings,
    "moments": MomentsSettings,
}


@dataclass(frozen=True)
class StudySettings:
    """The settings of one study, and what follows from them; `Study` has checked them."""

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
    # The key with which the owner orders the study closed, and may sign invitations (Ed25519, 64 hexadecimal digits).
    owner_key: str = ""
    # Whether right providers tell the owner which invitations were used, to remind the others. People are told. In the
    # canonical form only where it is so.
    reminders: bool = False
    # What people are shown and asked; without one, an app makes a plain form of the schema.
    form: Form | None = None
    # "public": anybody may read what is published; "token": the collector asks for a token of the owner's.
    access: str = "public"
    # The address of the licence its releases are under; empty if none is stated.
    licence: str = ""
    # Which hosts may show its page, and the hash of that page; without it people take part from the app alone.
    web: Web | None = None
    # How much each person's answers count; without one, all count the same. In the canonical form only where there is one.
    weight: Weight | None = None
    # What shrinking rows takes from the moments, by pilot rows. In the canonical form only where there is one.
    pilot: PilotCorrection | None = None
    # Of which kind right providers' keys are. In the canonical form only where it is not "classical", which it was before.
    sealing: Sealing = "classical"
    # What right providers committed to with their approvals (`SignedStudy`); no part of the id.
    commitments: tuple[bytes, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def attributes(self) -> int:
        """p1, the number of columns an answer fills."""
        return len(self.schema.columns)

    # The suites

    @property
    def clips(self) -> bool:
        """Whether longer rows are shrunk to `row_norm`."""
        if isinstance(self.suite, MomentsSettings):
            return self.suite.ball_norm is not None
        return self.protection.row_norm < self.schema.row_norm * (1 - 1e-12)

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

    @property
    def admits(self) -> bytes:
        """The key of who signs invitations to this study; refused where it has none."""
        if self.admission != "invited":
            raise StudyError("this study is open: nobody is invited to it")
        if self.admission_signer == "owner":
            return bytes.fromhex(self.owner_key)
        return self.party(self.admission_signer).identity

    # Parties

    @cached_property
    def parties(self) -> dict[str, Party]:
        """Every party by its role's name: R1.., L1.., collector."""
        named = {f"R{k}": party for k, party in enumerate(self.right, 1)}
        named |= {f"L{j}": party for j, party in enumerate(self.left, 1)}
        return named | {"collector": self.collector}

    @property
    def right_roles(self) -> list[str]:
        """R1, R2, ..."""
        return [f"R{k}" for k in range(1, len(self.right) + 1)]

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


_PLAIN: dict[object, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}


def _check_types(settings: StudySettings | SuiteSettings) -> None:
    for item in fields(settings):
        value, wanted = getattr(settings, item.name), _PLAIN.get(item.type)
        if wanted is not None and (isinstance(value, bool) or not isinstance(value, wanted)):
            raise StudyError(f"study field {item.name} must be of type {item.type}")


def check_settings(study: StudySettings) -> None:
    """Refuse a study whose numbers cannot give the protection it claims."""
    _check_types(study)
    _check_types(study.suite)
    row_norm, sigma = study.protection.row_norm, study.protection.sigma
    if not (math.isfinite(sigma) and sigma >= 0):
        raise ImpossibleStudy("sigma", "sigma and tau must be finite and not negative")
    if study.protection.budget is not None and sigma:
        raise ImpossibleStudy(
            "budget",
            "a budget is for a study without noise of its own: with noise it is published, and answers cost nothing",
        )
    if study.admission not in ("open", "invited"):
        raise StudyError("admission must be 'open' or 'invited'")
    _check_signer(study)
    if study.access not in ("public", "token"):
        raise StudyError("access must be 'public' or 'token'")
    if study.weight is not None:
        _check_weight(study, study.weight)
    if isinstance(study.suite, RowsSettings):
        if study.protection.budget is not None:
            # Somebody would have to hold exact sums over everybody to answer from.
            raise ImpossibleStudy("budget", 'a budget needs suite = "moments", where nobody holds the sums')
        if not (0 < row_norm <= study.schema.row_norm * (1 + 1e-12)):
            raise ImpossibleStudy(
                "row_norm", f"row_norm must be in (0, {study.schema.row_norm:.4g}], the schema's largest"
            )
        study.rows.check()
    else:
        if not (math.isfinite(row_norm) and row_norm > 0):
            raise ImpossibleStudy("row_norm", "row_norm must be above 0")
        study.moments.check()
    if study.pilot is not None:
        study.pilot.check(study.attributes, study.clips)
    if study.form is not None:
        from trimask_core.form.file import check_schema

        check_schema(study.form, study.schema)
    _check_parties(study)
    if study.web is not None:
        _check_web(study)


def _check_signer(study: StudySettings) -> None:
    """Check that the collector does not admit people itself: it could surround one person with devices of its own."""
    signer = study.admission_signer
    if not isinstance(study.reminders, bool):
        raise StudyError("study field reminders must be of type bool")
    if study.reminders and study.admission == "open":
        raise ImpossibleStudy("reminders", "an open study has no invitations: take reminders out")
    if not re.fullmatch("[0-9a-f]{64}", study.owner_key):
        raise ImpossibleStudy(
            "owner_key", "owner_key must be the key with which the owner orders the study closed"
        )
    if study.owner_key == study.collector.identity.hex():
        raise ImpossibleStudy("owner_key", "owner_key must not be the collector's own")
    if study.admission == "open":
        if signer:
            raise ImpossibleStudy(
                "admission_signer", "an open study has no invitations: take admission_signer out"
            )
        return
    providers = study.right_roles
    if signer not in ("owner", *providers):
        raise ImpossibleStudy(
            "admission_signer",
            f"admission_signer must be 'owner' or a right provider's role, {providers[0]} to {providers[-1]}; "
            "the collector may not admit people",
        )


def _check_weight(study: StudySettings, weight: Weight) -> None:
    """Weights are bounded, and the promise is about whole records: docs/theory/collection.md#weights."""
    weight.check(study.schema)
    if study.protection.budget is not None:
        raise ImpossibleStudy(
            "weight",
            "weight: private answers are made for rows that all count the same; take the weight or the budget out",
        )
    public = study.protection.public
    if public is not None and public.neighbours.relation == "unit":
        raise ImpossibleStudy(
            "weight",
            "weight: an answer that changes the weight moves the whole row; protect records, or take the weight out",
        )
    if isinstance(study.suite, RowsSettings):
        if weight.steps:
            raise ImpossibleStudy("weight", "weight: steps are of the moments suite; they must be 0 here")
        return
    if not weight.steps:
        raise ImpossibleStudy("weight", "weight: steps must be at least 1 in the moments suite")
    if study.moments.layout.radius_squared < 2:
        # sqrt(2) R^2 bounds what a record moves whatever x_0 is, from here on.
        raise ImpossibleStudy(
            "weight",
            "weight: give a row_norm of at least 1.415, or none; below it a weighted record can move more",
        )


def _check_parties(study: StudySettings) -> None:
    identities = [party.identity for party in study.parties.values()]
    tls_names = [party.tls_name for party in study.parties.values()]
    sealing = [party.sealing for party in study.right]
    if any(len(set(group)) != len(group) for group in (identities, tls_names, sealing)):
        raise ImpossibleStudy("same_party_twice", "every party needs its own keys and its own TLS name")
    if study.sealing not in SEALINGS:
        raise ImpossibleStudy(
            "sealing",
            f"answers to this study are sealed as {str(study.sealing)[:40]!r}, which this version cannot do, so it sends "
            "nothing; a newer one may",
        )
    size = PUBLIC_KEY_BYTES[study.sealing]
    for role, party in study.parties.items():
        if party.sealing_hybrid:
            raise StudyError(f"{role}: a study has one sealing key of a provider, of the kind it says")
        if len(party.identity) != 32 or len(party.sealing) != (size if role.startswith("R") else 0):
            raise ImpossibleStudy(
                "bad_key", f"{role}: its identity or sealing key is missing or has the wrong length"
            )


def _check_web(study: StudySettings) -> None:
    """A page calls the collector and every right provider over HTTPS, so each needs a place for it."""
    for role in ("collector", *study.right_roles):
        if not study.party(role).https:
            raise ImpossibleStudy(
                "web_https",
                f"{role} has no https port, which a study with [web] needs: its operator sets https_listen in node.toml "
                "and gives a new card (`trimask node init ... --https ORIGIN`, then `trimask node card`)",
            )


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
            if item.name in _WHERE_SO and (not value or value == "classical"):
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
                pilot=None if data.get("pilot") is None else PilotCorrection.from_dict(data["pilot"]),
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


def check_study_id(study: Study, wanted: bytes | str) -> None:
    """Raise `StudyError` unless this is the study with the id `wanted` (bytes or hexadecimal digits)."""
    text = wanted.hex() if isinstance(wanted, bytes) else wanted.strip().lower()
    if study.id.hex() != text:
        raise StudyError(
            f"this is not the study of the invitation: its id begins {study.id.hex()[:12]}, the invitation's "
            f"{text[:12]}. Take no part, and ask who invited you."
        )


_NESTED = {"schema", "protection", "suite", "collector", "form", "web", "weight", "pilot"}
_WHERE_SO = {"reminders", "weight", "pilot", "sealing"}
"""In the canonical form only where they say something."""


def _read_suite(data: Mapping[str, Any]) -> SuiteSettings:
    kind = SUITES.get(data["name"])
    if kind is None:
        raise StudyError(f"this version does not know the suite {str(data['name'])[:40]!r}; a newer one may")
    return kind.from_dict(data)


def _read_form(data: Any) -> Form:
    # Imported here: a device starts faster without it, and most studies have none.
    from trimask_core.form.file import read_form

    return read_form(data)
