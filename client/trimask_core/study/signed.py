"""A study with its approvals, and what a device checks of it before it takes part: signatures, and promises.

Every party named in a study signs its id, and a device takes part in nothing less.

In the moments suite a right provider's approval also commits to its contribution to the challenge key: the hash is
signed with the study's id, so that there is one key for ever and nobody learns it before reports are in
(docs/theory/verified-moments.md#one-challenge). What a study's owner orders later, to close it or to give a draw up, is
signed too.

Does a study's promise follow from its noise? Institutions recompute it before they sign
(`trimask_theory.planning.study_plan.verify_guarantees`). A device repeats it by other means, without a statistics
library: the rows suite by the delta below, the moments suite by the Gaussian mechanism's own curve. A study that claims
more than its sigma gives is refused. What cannot be computed here (`unit` neighbours, a single column) is reported, not
ignored. tau, and mu of the noise columns, are checked with the study itself.

Statement (delta of a masked release at the pair of rows that is proved to be the worst, in plain Python). For one
person's whole record of norm at most R, at least two attributes, the worst two rows are orthogonal and of norm R
(docs/theory/sharp-calibration.md#angle-theorem). With m = rows - attributes, a = R/sigma and g(r) = log 0F1(; m/2; (a
r)^2/4) the privacy loss is g(u) - g(v), where u is noncentral chi (m, a^2) and v, independent of it, central chi (m). So
    delta(epsilon) = E[H(v*)],  g(v*) = g(u) - epsilon,  H(l) = E[(1 - e^(g(v) - g(l)))_+] = int_0^l F g' e^(g - g(l)),
F the distribution of v (by parts): one pass over a grid, every term positive. g' = a I_(m/2)(a r)/I_(m/2 - 1)(a r), by
backward recurrence from Amos' upper bound, an even number of steps, so that it is never below the true one.
Basis: numerical, by Simpson's rule; the result is raised by `MARGIN`, more than it can err
(tests/theory/test_masked_delta.py holds it to the statistics library over a grid of settings).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, Protocol

from trimask_core.basics.encoding import decode_bytes, encode_bytes, read_json
from trimask_core.basics.errors import ApprovalError, Refused, StudyError, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.rows.study import RELEASE_ENTRIES, RowsSettings, discrete_epsilon, right_providers_mu
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee

COMMITMENT_BYTES = 32
_APPROVAL = "study-approval"


def needs_commitment(study: Study, role: str) -> bool:
    """Whether the approval of this role must commit to a contribution to the challenge key."""
    return not isinstance(study.suite, RowsSettings) and role.startswith("R")


@dataclass(frozen=True)
class Approval:
    """A party's signature over a study's id and, of a right provider of the moments suite, its commitment."""

    role: str
    signature: bytes
    approved_ms: int
    commitment: bytes = b""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "role": self.role,
            "signature": encode_bytes(self.signature),
            "approved_ms": self.approved_ms,
            "commitment": encode_bytes(self.commitment),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Approval:
        """Read what `to_dict` wrote."""
        if not isinstance(data["role"], str):
            raise TypeError("an approval's role must be text")
        return cls(
            data["role"],
            decode_bytes(data["signature"]),
            int(data["approved_ms"]),
            decode_bytes(data["commitment"]),
        )


def _message(study: Study, role: str, commitment: bytes) -> bytes:
    return study.id + len(commitment).to_bytes(1, "big") + commitment + role.encode()


def approve(study: Study, key: SigningKey, now_ms: int, commitment: bytes = b"") -> Approval:
    """The approval of the party that holds `key`."""
    role = study.role_of(key.public)
    _require_commitment(study, role, commitment)
    return Approval(role, key.sign(_APPROVAL, _message(study, role, commitment)), now_ms, commitment)


def _require_commitment(study: Study, role: str, commitment: bytes) -> None:
    if len(commitment) != (COMMITMENT_BYTES if needs_commitment(study, role) else 0):
        raise ApprovalError(
            f"the approval of {role} has a commitment to the challenge key that does not fit the suite"
        )


@dataclass(frozen=True)
class SignedStudy:
    """A study with the approvals gathered so far."""

    study: Study
    approvals: tuple[Approval, ...] = ()

    def __post_init__(self) -> None:
        given = {approval.role: approval.commitment for approval in self.approvals}
        roles = self.study.right_roles
        if not isinstance(self.study.suite, RowsSettings) and given.keys() >= set(roles):
            commitments = tuple(given[role] for role in roles)
            object.__setattr__(self, "study", replace(self.study, commitments=commitments))

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
                _require_commitment(self.study, approval.role, approval.commitment)
                message = _message(self.study, approval.role, approval.commitment)
                verify(identity, _APPROVAL, message, approval.signature, f"the approval of {approval.role}")
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

    @property
    def needs_seed(self) -> bool:
        """Whether devices and the collector need the seed of a device mask."""
        return isinstance(self.study.suite, RowsSettings)

    @property
    def mask_seed(self) -> bytes:
        """The seed of B_0, where this copy has it."""
        return self.study.suite.mask_seed if isinstance(self.study.suite, RowsSettings) else b""

    def with_seed(self, mask_seed: bytes) -> SignedStudy:
        """For a device or the collector: with the seed of B_0, which must be the one the study commits to."""
        if not isinstance(self.study.suite, RowsSettings):
            raise StudyError("a study of this suite has no device mask")
        suite = replace(self.study.suite, mask_seed=mask_seed)
        return SignedStudy(replace(self.study, suite=suite), self.approvals)

    def without_seed(self) -> SignedStudy:
        """For providers and the public."""
        return self.with_seed(b"") if self.mask_seed else self

    def to_json(self) -> str:
        """The form kept in files and sent to devices; with the seed of B_0 if this copy has it."""
        data: dict[str, Any] = {
            "study": self.study.to_dict(),
            "approvals": [approval.to_dict() for approval in self.approvals],
        }
        if self.mask_seed:
            data["mask_seed"] = encode_bytes(self.mask_seed)
        return json.dumps(data, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> SignedStudy:
        """Read what `to_json` wrote; `verify` is still to be called."""
        try:
            data = read_json(text)
            approvals = tuple(Approval.from_dict(item) for item in data["approvals"])
            study = data["study"]
            if not isinstance(study, dict):
                raise TypeError("the study must be an object")  # noqa: TRY301
            mask_seed = decode_bytes(data.get("mask_seed", ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StudyError(f"this is not a signed study: {error}") from None
        signed = cls(Study.from_dict(study), approvals)
        return signed.with_seed(mask_seed) if mask_seed else signed


_CLOSE, _ABANDON = "close-study", "abandon-draw"


class _Order(Protocol):
    """An order to close a study, as on the wire (`CloseOrder`)."""

    study_id: bytes
    close_time_ms: int
    close_people: int
    published_rows: int
    erased_rows: int
    signature: bytes


def _close_message(order: _Order) -> bytes:
    numbers = (order.close_time_ms, order.close_people, order.published_rows, order.erased_rows)
    return order.study_id + b"".join((number % (1 << 64)).to_bytes(8, "big") for number in numbers)


def sign_close(key: SigningKey, order: _Order) -> bytes:
    """The owner's signature on an order to close a study."""
    return key.sign(_CLOSE, _close_message(order))


def close_due(order: _Order, now_ms: int, people: int) -> bool:
    """Whether an order is to be carried out: its time has come, or so many people have taken part; at once if it names
    neither."""
    if order.close_people and people >= order.close_people:
        return True
    return order.close_time_ms <= now_ms and bool(order.close_time_ms or not order.close_people)


def verify_close(study: Study, order: _Order, now_ms: int, people: int = 0) -> None:
    """Raise unless the study's owner has ordered it closed, by now or with so many `people`. No collector ends intake on its
    own: it would choose who is in the last block."""
    message = _close_message(order)
    verify(bytes.fromhex(study.owner_key), _CLOSE, message, order.signature, "the owner's order to close")
    if order.study_id != study.id or not close_due(order, now_ms, people):
        more = f", or {order.close_people:,} people ({people:,} are here)" if order.close_people else ""
        raise Refused(Reason.NOT_YET, f"the owner's order is for another study, or a later time{more}")


def sign_abandon(key: SigningKey, study_id: bytes, number: int) -> bytes:
    """The owner's signature on an order to give a draw up, and erase its rows."""
    return key.sign(_ABANDON, study_id + number.to_bytes(4, "big"))


def verify_abandon(study: Study, number: int, signature: bytes) -> None:
    """Raise unless the study's owner has given this draw up: else whoever dislikes its outcome could toss again."""
    message = study.id + number.to_bytes(4, "big")
    verify(
        bytes.fromhex(study.owner_key),
        _ABANDON,
        message,
        signature,
        f"the owner's order to abandon draw {number}",
    )


MARGIN = 5e-4
_PANEL = 0.05  # in standard deviations (which are at most 1 on this axis)
_REACH = 9.0  # how far from the modes anything weighs: e^(-81/2) is far below any delta
_TINY = 1e-12  # stands for 0 under a logarithm
_FURTHEST = 80.0  # R/sigma beyond which there is no noise to speak of


@lru_cache(maxsize=64)
def masked_delta(epsilon: float, sigma: float, rows: int, attributes: int, row_norm: float) -> float:
    """delta at `epsilon` of noise `sigma`, raised by `MARGIN`; 1 where the noise is too small for the grid."""
    m, a = rows - attributes, row_norm / sigma if sigma > 0 else math.inf
    if m < 1 or attributes < 2 or not a <= _FURTHEST:
        return 1.0
    r, width = _grid(m, a)
    slope = [a * _ratio(0.5 * m - 1, a * x) for x in r]
    g = _cumulated(slope, width)
    log_central = [(m - 1) * math.log(x) - 0.5 * x * x for x in r]
    central = _normalised(log_central, width)
    # The noncentral density is the central one times e^g, but for a factor.
    shifted = _normalised([f + y for f, y in zip(log_central, g, strict=True)], width)
    below = _cumulated(central, width)
    lost = _inner(g, slope, below, width)
    return min(1.0, (1 + MARGIN) * width * _outer(epsilon, g, shifted, below, lost))


def _grid(m: int, a: float) -> tuple[list[float], float]:
    """Points half a panel apart around both modes, as far as anything weighs; and how far apart."""
    low = max(0.0, math.sqrt(m - 1) - _REACH)
    high = math.sqrt(m - 1 + a * a) + _REACH
    panels = math.ceil((high - low) / _PANEL)
    width = 0.5 * (high - low) / panels
    return [max(low + width * k, _TINY) for k in range(2 * panels + 1)], width


def _ratio(order: float, z: float) -> float:
    """I_(order + 1)(z) / I_order(z), order >= -1/2, rounded up."""
    steps = 16 if order < 50 else 8
    top = order + steps
    found = z / (top + 0.5 + math.hypot(z, top + 0.5))
    twice = 2.0 / z
    for k in range(steps):
        found = 1.0 / ((top - k) * twice + found)
    return found


def _cumulated(values: list[float], width: float) -> list[float]:
    """The integral from the first point to each, by parabolas through three points."""
    pieces = [0.0]
    for k in range(0, len(values) - 2, 2):
        left, middle, right = values[k], values[k + 1], values[k + 2]
        pieces.append(width * (5 * left + 8 * middle - right) / 12)
        pieces.append(width * (5 * right + 8 * middle - left) / 12)
    return list(accumulate(pieces))


def _normalised(logs: list[float], width: float) -> list[float]:
    """A density from the logarithm of something in proportion to it."""
    top = max(logs)
    values = [math.exp(x - top) for x in logs]
    whole = _cumulated(values, width)[-1]
    return [value / whole for value in values]


def _inner(g: list[float], slope: list[float], below: list[float], width: float) -> list[float]:
    """H at every point: what is lost to a v below it."""
    found = [0.0]
    for k in range(0, len(g) - 2, 2):
        f = [max(below[j], 0.0) * slope[j] for j in (k, k + 1, k + 2)]
        first, second = math.exp(g[k] - g[k + 1]), math.exp(g[k + 1] - g[k + 2])
        half = width * (5 * f[0] * first + 8 * f[1] - f[2] / second) / 12
        found.append(found[-1] * first + max(half, 0.0))
        whole = width * (f[0] * first * second + 4 * f[1] * second + f[2]) / 3
        found.append(found[-2] * first * second + whole)
    return found


def _outer(
    epsilon: float, g: list[float], density: list[float], below: list[float], lost: list[float]
) -> float:
    """The sum over u of its density times H at g(u) - epsilon, where dH/dg = F - H."""
    total, k = 0.0, 0
    for y, weight in zip(g, density, strict=True):
        target = y - epsilon
        if target <= g[0]:
            continue
        while g[k + 1] < target:
            k += 1
        span = g[k + 1] - g[k]
        t = (target - g[k]) / span
        left, right = span * (below[k] - lost[k]), span * (below[k + 1] - lost[k + 1])
        rise = lost[k + 1] - lost[k]
        # The cubic with these values and slopes.
        at = lost[k] + t * (left + t * (3 * rise - 2 * left - right + t * (left + right - 2 * rise)))
        total += weight * max(at, 0.0)
    return total


ALLOWED = 1e-3
"""A delta this part above the stated one passes: more than the arithmetic here errs upwards, nothing to a person."""

_FAR = 30.0  # beyond so many standard deviations a tail is given by its first two terms


def check_claims(study: Study) -> tuple[str, ...]:
    """Raise `StudyError` if the study claims more than its noise gives; what could not be checked here, in words."""
    protection = study.protection
    if not protection.sigma:
        if protection.public is not None or protection.collector is not None or protection.by_honest_rows:
            raise StudyError("this study promises differential privacy and adds no noise: take no part")
        return ()
    return _rows(study) if isinstance(study.suite, RowsSettings) else _moments(study)


def gaussian_delta(epsilon: float, s: float) -> float:
    """delta at `epsilon` of the Gaussian mechanism with s = sigma / sensitivity, never below the true one by rounding.

    docs/theory/gaussian-pairs.md#equal-covariance.
    """
    if not s > 0 or not math.isfinite(1 / s):
        return 1.0
    near, far = epsilon * s - 0.5 / s, epsilon * s + 0.5 / s
    first = 0.5 * math.erfc(near / math.sqrt(2))
    if far < _FAR:
        lost = math.exp(epsilon) * 0.5 * math.erfc(far / math.sqrt(2))
    else:  # e^epsilon phi(far) = phi(near), and 1/x - 1/x^3 is below Mills' ratio
        lost = math.exp(-0.5 * near * near) / math.sqrt(2 * math.pi) * (1 - 1 / far**2) / far
    return min(1.0, max(first * (1 + 1e-12) - lost, 0.0))


def _rows(study: Study) -> tuple[str, ...]:
    protection = study.protection
    norm = protection.row_norm
    _right_providers(study)
    for guarantee, rows, towards in (
        (protection.public, study.release_rows, "everybody"),
        (protection.collector, study.rows.block_rows, "the collector"),
    ):
        if guarantee is None:
            continue
        released = RELEASE_ENTRIES * rows
        _discrete(study, guarantee, released * study.attributes, released * study.rows.columns, towards)
        near = guarantee.neighbours
        if near.relation == "unit":
            return ("its numbers are for one row moved by a step, which this device does not work out",)
        if (near.relation, near.row_norm, near.distance) != ("record", norm, 2 * norm):
            raise StudyError(
                f"what this study promises towards {towards} is not about rows of its own norm: take no part"
            )
        if study.attributes < 2:
            return ("it has a single column, which this device does not work out",)
        epsilon, stated = _pair(guarantee, towards)
        _compare(
            stated, masked_delta(epsilon, protection.sigma, rows, study.attributes, norm), epsilon, towards
        )
    if protection.public is not None:
        _, stated = _pair(protection.public, "everybody")
        for rows, epsilon in protection.by_honest_rows:
            found = gaussian_delta(epsilon, protection.sigma / (math.sqrt(2) * norm))
            if found > stated * (1 + ALLOWED) and rows > study.attributes:
                found = masked_delta(epsilon, protection.sigma, rows, study.attributes, norm)
            _compare(stated, found, epsilon, f"everybody with {rows} honest people")
    return ()


def _right_providers(study: Study) -> None:
    """mu towards a party that sees a row with the row's own noise: exact and cheap, so it is computed for every study."""
    protection, stated = study.protection, study.protection.right_providers
    if stated is None:
        if protection.public is None and protection.collector is None:
            return
        raise StudyError("this study does not say what all right providers together could tell: take no part")
    near = stated.neighbours
    step = study.rows.grid.step
    if (near.relation, near.row_norm, near.distance) == (
        "record",
        protection.row_norm,
        2 * protection.row_norm,
    ):
        distance = 2 * protection.row_norm
    elif (near.relation, near.row_norm, near.distance) == ("unit", protection.row_norm, 1.0):
        distance = 1 + step * math.sqrt(study.attributes)
    else:
        raise StudyError(
            "what this study promises towards right providers is not about its own rows: take no part"
        )
    found = right_providers_mu(distance, protection.sigma, step)
    if stated.mu is None or not found <= stated.mu * (1 + ALLOWED):
        raise StudyError(
            f"towards all right providers this study states mu = {stated.mu}, but its noise gives {found:.4g}: take no part"
        )
    _discrete(study, stated, study.attributes, 0, "all right providers")


def _discrete(study: Study, guarantee: Guarantee, entries: int, masked: int, towards: str) -> None:
    """Check that the study states what noise on a grid adds to epsilon, and that it is small enough."""
    found = discrete_epsilon(math.ldexp(study.protection.sigma, -study.rows.grid_exponent), entries, masked)
    if guarantee.discrete_epsilon is None or not found <= guarantee.discrete_epsilon * (1 + ALLOWED):
        raise StudyError(
            f"towards {towards} this study does not state that noise on its grid adds {found:.2g} to epsilon: take no part"
        )


def _moments(study: Study) -> tuple[str, ...]:
    protection = study.protection
    guarantee = protection.public
    if guarantee is None:
        return ()
    near = guarantee.neighbours
    if (near.relation, near.row_norm) != ("record", protection.row_norm) or protection.collector is not None:
        raise StudyError("what this study promises is not about records of its own norm: take no part")
    s = moments_noise(study)
    epsilon, stated = _pair(guarantee, "everybody")
    _compare(stated, gaussian_delta(epsilon, s) if math.isfinite(s) else 0.0, epsilon, "everybody")
    if guarantee.mu is not None and not 1 / s <= guarantee.mu * (1 + ALLOWED):
        raise StudyError(
            f"this study promises mu = {guarantee.mu:.4g}, but its noise gives {1 / s:.4g}: take no part"
        )
    return ()


def moments_noise(study: Study) -> float:
    """sigma / sensitivity in the moments suite (docs/theory/verified-moments.md#sensitivity); infinite if nothing moves."""
    square = float(study.moments.layout.radius_squared)
    distance = math.sqrt(2) * (square if square >= 2 else 2 * math.sqrt(max(square - 1, 0.0)))
    return study.protection.sigma / distance if distance else math.inf


def _pair(guarantee: Guarantee, towards: str) -> tuple[float, float]:
    if guarantee.epsilon is None or guarantee.delta is None:
        raise StudyError(f"this study states no epsilon and delta towards {towards}: take no part")
    return guarantee.epsilon, guarantee.delta


def _compare(stated: float, found: float, epsilon: float, towards: str) -> None:
    if not found <= stated * (1 + ALLOWED):
        raise StudyError(
            f"this study's noise is too small for what it promises towards {towards}: at epsilon {epsilon:.4g} it says "
            f"delta {stated:.3g}, and this device works out {found:.3g}. Take no part, and ask who invited you."
        )
