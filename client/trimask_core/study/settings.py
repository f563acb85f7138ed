"""What the parties of a study agree on, as values: title, schema, protection, suite, parties, form."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from trimask_core.basics.errors import StudyError
from trimask_core.crypto.sealing import Sealing
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
    """The settings of one study, and what follows from them; `trimask_core.study.definition.Study` has checked them."""

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
