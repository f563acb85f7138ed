"""The study: everything the parties agree on before the first answer, frozen, and named by its own hash.

Its id is the SHA-256 of its canonical JSON. Every party named in it signs the id; a device takes part only in a
study that all of them signed. The checks that need no statistics library are repeated here whenever a study is
read, so that a device does not have to trust whoever made it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trimask_core.clipping import Clipping
from trimask_core.errors import ApprovalError, ImpossibleStudy, StudyError, VerificationError
from trimask_core.guarantee import Guarantee
from trimask_core.identity import SigningKey, verify
from trimask_core.rows import collusion
from trimask_core.rows.device.frame import RowFrame
from trimask_core.rows.grid import COARSEST_EXPONENT, Grid, grid_exponent
from trimask_core.rows.obfuscation import least_tau
from trimask_core.schema import Schema
from trimask_core.strict_json import read_json

if TYPE_CHECKING:
    from trimask_core.form import Form
    from trimask_core.rows.rotation import HaarFrame

__all__ = ["Approval", "Budget", "Party", "Protection", "SignedStudy", "Study", "approve", "canonical_json"]

FORMAT = "trimask-study/1"
_APPROVAL = "study-approval"


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _commitment(mask_seed: bytes) -> bytes:
    return hashlib.sha256(b"trimask/v1/mask-commitment\0" + mask_seed).digest()


def canonical_json(data: Mapping[str, Any]) -> bytes:
    """The one way a study is written before it is hashed."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


@dataclass(frozen=True)
class Party:
    """A collector or provider: where it listens, the name its TLS certificate carries, and its keys."""

    name: str
    organisation: str
    address: str
    peer_address: str
    tls_name: str
    identity: bytes
    sealing: bytes = b""

    def __post_init__(self) -> None:
        for name in ("name", "organisation", "address", "peer_address", "tls_name"):
            if not isinstance(getattr(self, name), str):
                raise StudyError(f"a party's {name} must be text")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "name": self.name,
            "organisation": self.organisation,
            "address": self.address,
            "peer_address": self.peer_address,
            "tls_name": self.tls_name,
            "identity": _encode(self.identity),
            "sealing": _encode(self.sealing),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Party:
        """Read what `to_dict` wrote."""
        return cls(**{**data, "identity": _decode(data["identity"]), "sealing": _decode(data["sealing"])})


@dataclass(frozen=True)
class Budget:
    """All that private answers about an exact study may ever cost, towards anybody: two purses, never refilled.

    `epsilon` and `delta` are spent by adding up, `mu` by adding up squares (Gaussian differential privacy). A study
    has one purse or both; who asks says from which an answer is paid.
    """

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.epsilon, self.delta, self.mu) if value is not None]
        if (self.epsilon is None) != (self.delta is None) or not given:
            raise ImpossibleStudy("budget", "a budget is epsilon and delta, or mu, or all three")
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in given):
            raise StudyError("a budget's epsilon, delta and mu must be numbers")
        if not all(math.isfinite(value) and value > 0 for value in given) or (self.delta or 0) >= 1:
            raise ImpossibleStudy("budget", "a budget's epsilon and mu must be above 0, its delta in (0, 1)")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {"epsilon": self.epsilon, "delta": self.delta, "mu": self.mu}


@dataclass(frozen=True)
class Protection:
    """What the noise buys. `sigma` = 0 is exact mode: masked, but without differential privacy.

    With a `budget`, an exact study publishes no rows: its pooled factor stays at the collector, and only private
    answers leave it until the budget is spent.
    """

    row_norm: float
    sigma: float
    method: str
    public: Guarantee | None = None
    collector: Guarantee | None = None
    budget: Budget | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form. Without a budget it is what it was before there were any: ids do not change."""
        data: dict[str, Any] = {
            "row_norm": self.row_norm,
            "sigma": self.sigma,
            "method": self.method,
            "public": None if self.public is None else self.public.to_dict(),
            "collector": None if self.collector is None else self.collector.to_dict(),
        }
        return data if self.budget is None else data | {"budget": self.budget.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Protection:
        """Read what `to_dict` wrote."""
        read = {
            name: None if data[name] is None else Guarantee.from_dict(data[name])
            for name in ("public", "collector")
        }
        budget = None if data.get("budget") is None else Budget(**data["budget"])
        return cls(data["row_norm"], data["sigma"], data["method"], read["public"], read["collector"], budget)


@dataclass(frozen=True)
class Study:
    """One study. `unmasking[k]` names the party that removes component k+1's right mask."""

    title: str
    purpose: str
    contact: str
    created_ms: int
    schema: Schema
    protection: Protection
    block_rows: int
    release_rows: int
    noise_columns: int
    tau: float
    obfuscation_failure: float
    share_leakage: float
    grid_exponent: int
    collector: Party
    right: tuple[Party, ...]
    left: tuple[Party, ...]
    unmasking: tuple[str, ...]
    tls_roots: str
    # The seed of B_0 is for devices and the collector: the study names it by its hash alone, so that providers, who
    # sign and hold the study too, are not handed the mask that hides rows from all right providers together.
    mask_seed: bytes = field(repr=False, compare=False)
    mask_commitment: bytes = b""
    # "open": anybody may submit; "invited": right providers ask for an invitation of the collector's.
    admission: str = "open"
    # What people are shown and asked; without one, an app makes a plain form of the schema.
    form: Form | None = None
    # For sums by Algorithm 3: devices clip these columns to a ball around a public centre.
    clipping: Clipping | None = None
    # "public": anybody may read what is published; "token": the collector asks for a token of the owner's.
    access: str = "public"
    # The address of the licence its releases are under; empty if none is stated.
    licence: str = ""

    def __post_init__(self) -> None:
        if self.mask_seed and not self.mask_commitment:
            object.__setattr__(self, "mask_commitment", _commitment(self.mask_seed))
        _check(self)

    # Sizes, in the paper's letters: n block rows, p1 attributes, p2 noise columns, p = p1 + p2.

    @cached_property
    def attributes(self) -> int:
        """p1, the number of columns an answer fills."""
        return len(self.schema.columns)

    @property
    def columns(self) -> int:
        """p = p1 + p2."""
        return self.attributes + self.noise_columns

    @property
    def max_block_rows(self) -> int:
        """The last block of a study takes the remainder in, so it may have up to 2 n - 1 rows."""
        return 2 * self.block_rows - 1

    @property
    def grid(self) -> Grid:
        """The integer grid."""
        return Grid(self.grid_exponent)

    def encode(self, answers: Mapping[str, object]) -> list[float]:
        """The scaled row x1 a device begins with: what the schema makes of the answers, clipped where declared."""
        row = self.schema.encode(answers)
        return row if self.clipping is None else self.clipping.apply(self.schema.columns, row)

    @property
    def share_scale(self) -> float:
        """s = 2 R / mu."""
        return 2 * self.protection.row_norm / self.share_leakage

    @property
    def share_steps(self) -> float:
        """s in grid steps."""
        return math.ldexp(self.share_scale, -self.grid_exponent)

    @cached_property
    def frame(self) -> HaarFrame:
        """F, the first p1 rows of the device mask B_0, for the collector, who has its seed."""
        from trimask_core.rows.rotation import HaarFrame  # numpy comes with a mask, not with a study

        return HaarFrame(self._device_seed, self.attributes, self.columns)

    @cached_property
    def row_frame(self) -> RowFrame:
        """F again, for a device: one row at a time and without numpy."""
        return RowFrame(self._device_seed, self.attributes, self.columns)

    @property
    def _device_seed(self) -> bytes:
        if not self.mask_seed:
            raise StudyError(
                "this copy of the study is without the seed of B_0, which devices and the collector have"
            )
        return self.mask_seed

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

    @property
    def topology(self) -> collusion.Topology:
        """Who sees what, for the collusion report. Every release of this study has at least `release_rows` people."""
        return collusion.Topology(
            right=len(self.right),
            left=len(self.left),
            unmasking=self.unmasking,
            shared_mask_exceeded=self.release_rows > self.columns,
        )

    # Canonical form

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        data: dict[str, Any] = {"format": FORMAT}
        for item in fields(self):
            if item.name == "mask_seed":
                continue
            value = getattr(self, item.name)
            if value == _LATER.get(item.name, _LATER):
                continue
            if item.name in ("right", "left"):
                value = [party.to_dict() for party in value]
            elif isinstance(value, (Schema, Protection, Party, Clipping)) or item.name == "form":
                value = value.to_dict()
            elif isinstance(value, bytes):
                value = _encode(value)
            elif isinstance(value, tuple):
                value = list(value)
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
        known = {item.name for item in fields(cls)} - {"mask_seed"} | {"format"}
        if data.get("format") != FORMAT:
            raise StudyError(f"this is not a study of format {FORMAT}")
        odd = sorted(known.symmetric_difference(data) - (_LATER.keys() - set(data)))
        if odd:
            raise StudyError(f"study field {odd[0]} is {'unknown' if odd[0] in data else 'missing'}")
        try:
            study = cls(
                **{name: data[name] for name in known.intersection(data) - _NESTED - {"format"}},
                schema=Schema.from_dict(data["schema"]),
                protection=Protection.from_dict(data["protection"]),
                collector=Party.from_dict(data["collector"]),
                right=tuple(Party.from_dict(item) for item in data["right"]),
                left=tuple(Party.from_dict(item) for item in data["left"]),
                unmasking=tuple(data["unmasking"]),
                mask_seed=b"",
                mask_commitment=_decode(data["mask_commitment"]),
                form=_read_form(data["form"]) if "form" in data else None,
                clipping=None if "clipping" not in data else Clipping.from_dict(data["clipping"]),
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


# Settings that came after the first studies: at their defaults they are not written, so old ids stay what they were.
_LATER: dict[str, object] = {
    "admission": "open",
    "access": "public",
    "licence": "",
    "clipping": None,
    "form": None,
}
_NESTED = {
    "schema", "protection", "collector", "right", "left", "unmasking", "mask_commitment", "clipping", "form",
}  # fmt: skip
_PLAIN: dict[object, type | tuple[type, ...]] = {"str": str, "int": int, "float": (int, float)}


def _read_form(data: Any) -> Form:
    from trimask_core.form import (
        Form,
    )  # here alone: a device starts faster without it, and most studies have none

    return Form.from_dict(data)


def _check(study: Study) -> None:
    """Refuse a study whose numbers cannot give the protection it claims."""
    for item in fields(study):
        value, wanted = getattr(study, item.name), _PLAIN.get(item.type)
        if wanted is not None and (isinstance(value, bool) or not isinstance(value, wanted)):
            raise StudyError(f"study field {item.name} must be of type {item.type}")
    n, p1 = study.block_rows, study.attributes
    if n <= p1:
        raise ImpossibleStudy(
            "block_too_small",
            f"blocks of {n} rows are not larger than the {p1} columns of a row: A X would show what the mask hides. "
            f"Give block_rows of at least {p1 + 1}.",
        )
    if study.release_rows < n:
        raise ImpossibleStudy("release_too_small", f"release_rows must be at least block_rows = {n}")
    if len(study.right) < 2 or not study.left:
        raise ImpossibleStudy(
            "too_few_providers", "a study needs two right providers and one left provider at least"
        )
    if not 0 < study.share_leakage <= 2.0**-10:
        raise ImpossibleStudy("share_leakage", "share_leakage must be in (0, 2^-10]")
    if not 0 < study.obfuscation_failure <= 1e-3:
        raise ImpossibleStudy("obfuscation_failure", "obfuscation_failure must be in (0, 0.001]")
    row_norm, sigma = study.protection.row_norm, study.protection.sigma
    if not (0 < row_norm <= study.schema.row_norm * (1 + 1e-12)):
        raise ImpossibleStudy(
            "row_norm", f"row_norm must be in (0, {study.schema.row_norm:.4g}], the schema's largest"
        )
    if not (math.isfinite(sigma) and sigma >= 0) or not math.isfinite(study.tau):
        raise ImpossibleStudy("sigma", "sigma and tau must be finite and not negative")
    if study.protection.budget is not None and sigma:
        raise ImpossibleStudy(
            "budget",
            "a budget is for a study without device noise: with noise the rows are published, and answers cost nothing",
        )
    tau = least_tau(study.max_block_rows, p1, study.noise_columns, row_norm, sigma, study.obfuscation_failure)
    if study.tau < tau * (1 - 1e-12):
        raise ImpossibleStudy(
            "tau", f"tau = {study.tau:.4g} is below {tau:.4g}, which blocks of this size need"
        )
    if study.admission not in ("open", "invited"):
        raise StudyError("admission must be 'open' or 'invited'")
    if study.access not in ("public", "token"):
        raise StudyError("access must be 'public' or 'token'")
    if study.form is not None:
        from trimask_core.form_file import check_schema

        check_schema(study.form, study.schema)
    if study.clipping is not None:
        _check_clipping(study, study.clipping)
    _check_grid(study)
    if sigma and math.ldexp(sigma, -study.grid_exponent) % 1:
        raise ImpossibleStudy("sigma", "sigma must be a whole number of grid steps")
    _check_parties(study)


def _check_clipping(study: Study, clipping: Clipping) -> None:
    clipping.check(study.schema)
    if study.protection.budget is None or not study.schema.ones:
        raise ImpossibleStudy(
            "clipping", "clipping is for private sums: a study with a budget and with the ones column"
        )
    if study.protection.row_norm < study.schema.row_norm:
        # A row shortened to R is moved towards 0 with its 1, and would leave the ball.
        raise ImpossibleStudy("clipping", "give clipping or a row_norm below the schema's largest, not both")


def _check_grid(study: Study) -> None:
    if study.grid_exponent > COARSEST_EXPONENT or not math.isfinite(study.share_scale):
        raise ImpossibleStudy(
            "grid_too_coarse",
            f"a grid of 2^{study.grid_exponent} is coarser than 2^{COARSEST_EXPONENT}; give a larger share_leakage",
        )
    least = grid_exponent(study.share_scale, len(study.right))
    if study.grid_exponent < least:
        raise ImpossibleStudy(
            "grid_overflow",
            f"a grid of 2^{study.grid_exponent} leaves components of scale {study.share_scale:.3g} less than 12 standard "
            f"deviations below 2^52; give a grid_exponent of at least {least}, or a larger share_leakage",
        )
    # A row's own entries: at most R + 12 (sigma + tau) in any direction; the components must dwarf them.
    largest = study.protection.row_norm + 12 * (study.protection.sigma + study.tau)
    if largest > study.share_scale / 16:
        raise ImpossibleStudy(
            "grid_overflow",
            f"rows reach {largest:.3g}, too near the components' scale {study.share_scale:.3g}; give more noise columns "
            "(smaller tau), a larger epsilon, or a smaller share_leakage",
        )


def _check_parties(study: Study) -> None:
    identities = [party.identity for party in study.parties.values()]
    tls_names = [party.tls_name for party in study.parties.values()]
    sealing = [party.sealing for party in study.right]
    if any(len(set(group)) != len(group) for group in (identities, tls_names, sealing)):
        raise ImpossibleStudy("same_party_twice", "every party needs its own keys and its own TLS name")
    for role, party in study.parties.items():
        if len(party.identity) != 32 or len(party.sealing) != (32 if role.startswith("R") else 0):
            raise ImpossibleStudy(
                "bad_key", f"{role}: its identity or sealing key is missing or has the wrong length"
            )
    if len(study.mask_commitment) != 32:
        raise ImpossibleStudy("bad_key", "mask_commitment must be 32 bytes")
    if study.mask_seed and (
        len(study.mask_seed) != 32 or _commitment(study.mask_seed) != study.mask_commitment
    ):
        raise ImpossibleStudy(
            "bad_key", "mask_seed must be the 32 bytes the study's mask_commitment is the hash of"
        )
    if len(study.unmasking) != len(study.right) or not set(study.unmasking) <= set(study.parties):
        raise ImpossibleStudy("bad_unmasking", "name one unmasking node, by role, for each right provider")
    collusion.refuse_single_breaker(study.topology)


@dataclass(frozen=True)
class Approval:
    """A party's signature over a study's id."""

    role: str
    signature: bytes
    approved_ms: int

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {"role": self.role, "signature": _encode(self.signature), "approved_ms": self.approved_ms}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Approval:
        """Read what `to_dict` wrote."""
        return cls(data["role"], _decode(data["signature"]), int(data["approved_ms"]))


def approve(study: Study, key: SigningKey, now_ms: int) -> Approval:
    """The approval of the party that holds `key`."""
    role = study.role_of(key.public)
    return Approval(role, key.sign(_APPROVAL, study.id + role.encode()), now_ms)


@dataclass(frozen=True)
class SignedStudy:
    """A study with the approvals gathered so far."""

    study: Study
    approvals: tuple[Approval, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Roles that have not approved yet."""
        given = {approval.role for approval in self.approvals}
        return tuple(role for role in self.study.parties if role not in given)

    def verify(self) -> Study:
        """The study, if every party named in it has signed it; `ApprovalError` otherwise."""
        for approval in self.approvals:
            try:
                identity = self.study.party(approval.role).identity
                verify(
                    identity, _APPROVAL, self.study.id + approval.role.encode(), approval.signature,
                    f"the approval of {approval.role}",
                )  # fmt: skip
            except (VerificationError, StudyError) as error:
                raise ApprovalError(str(error)) from None
        if self.missing:
            raise ApprovalError(
                f"not approved yet by {', '.join(self.missing)}; every party must sign a study"
            )
        return self.study

    def with_approval(self, approval: Approval) -> SignedStudy:
        """With one more approval; a second one of the same role replaces the first."""
        kept = tuple(old for old in self.approvals if old.role != approval.role)
        return SignedStudy(self.study, (*kept, approval))

    def with_seed(self, mask_seed: bytes) -> SignedStudy:
        """For a device or the collector: with the seed of B_0, which must be the one the study commits to."""
        return SignedStudy(replace(self.study, mask_seed=mask_seed), self.approvals)

    def without_seed(self) -> SignedStudy:
        """For providers and the public."""
        return SignedStudy(replace(self.study, mask_seed=b""), self.approvals)

    def to_json(self) -> str:
        """The form kept in files and sent to devices; with the seed of B_0 if this copy has it."""
        data: dict[str, Any] = {
            "study": self.study.to_dict(),
            "approvals": [approval.to_dict() for approval in self.approvals],
        }
        if self.study.mask_seed:
            data["mask_seed"] = _encode(self.study.mask_seed)
        return json.dumps(data, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> SignedStudy:
        """Read what `to_json` wrote; `verify` is still to be called."""
        try:
            data = read_json(text)
            approvals = tuple(Approval.from_dict(item) for item in data["approvals"])
            study = data["study"]
            mask_seed = _decode(data.get("mask_seed", ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StudyError(f"this is not a signed study: {error}") from None
        signed = cls(Study.from_dict(study), approvals)
        return signed.with_seed(mask_seed) if mask_seed else signed
