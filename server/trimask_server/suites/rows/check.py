"""Whether a row has a device's noise columns, judged by directions that providers open; how much a block's answers weigh.

A row is y = x F + g with g ~ N(0, tau^2) in every direction that F leaves free. For d orthonormal directions z in that
space, drawn after the row is in, |y Z|^2 / tau^2 is chi-square(d), whatever the answers x: an honest row is outside
`ACCEPTED` with probability at most 2^-40 (Chernoff), and one that weighs 64 times what it should, or a 256th, is inside
with probability at most 2^-20 (docs/theory/collection.md#row-check). What is opened is noise and says nothing about x;
the directions are taken out of the row before it is masked, so nothing that follows depends on it either.

Components are added up exactly: directions are rounded to whole numbers of 2^-30, and products of whole numbers are
added in float64 a few bits at a time, below 2^53.

The directions come from a coin that right providers toss: everybody commits, then everybody reveals. Nobody knows the
seed while rows can still come into the check: each provider binds the rows before it commits, and shows its coin only to
a party that shows the commitments of all. One provider that follows the protocol is enough for a seed that nobody chose.
A provider's coin is a fixed function of the check, so that a store restored from a backup has no second one.

Answers far out of range are not pooled, because the answers of a block are bounded. Column j of A (X + C) has the sum of
squares of column j of X + C, since A is orthogonal. Scaled answers are at most R_j = 1 in absolute value, and rows at
most R in norm, so for noise of scale sigma

    sum of squares of column j  <=  n R_j^2 + 2 sigma sqrt(n) R_j z + sigma^2 n a,

but for the chance that the normal x . c / |x| is beyond z sigma or a chi-square(n) beyond n a; the trace likewise, with R
and n p1 degrees. Each event has probability at most 2^-bits, and `bits` is such that a block of honest rows is refused with
probability at most 2^-40 (docs/theory/collection.md#answer-bound). Proved for Gaussian noise; the grid is finer than it by
orders. What a lie below the bound can do is said there, too.

Whether right providers pass on the components that devices gave them (docs/theory/collection.md#tags).

For a row x of component k and a vector z of its key, X B Bᵀ Z = X Z: the first left provider has x B from R_k, z B from
the unmasking node, and compares (x B) (z B) with the tag less its offset, which is <x, z> as a whole number. Whoever
altered x without knowing z would have to guess a projection of the alteration on it.

What was opened of a row to check it is taken out before it is masked: x P with P = I - D D^T. Then (x P B) (z P B) is
compared with the tag less its offset and less (x D) (z D), which the unmasking node works out from what was opened.

Whether a device's tags are right is shown before its row is planned, since a wrong tag would stop its block. For the coin
e of a check, R_k shows the holder of a key e x + y modulo the prime, where y is the device's spare vector, uniform and
used this once, and the tags' same combination. Wrong tags pass for one e of 2^127 (docs/theory/collection.md#tags).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.rows.arrays import (
    HaarFrame,
    Matrix,
    combined,
    device_frame,
    expand_keys,
    expand_spares,
    in_cache,
    inner_products,
    read_wide,
)
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS
from trimask_core.rows.payloads import (
    PRIME,
    Tagged,
    add_elements,
    key_offsets,
    read_elements,
    signed,
    write_elements,
)
from trimask_core.rows.study import TAGS, Grid
from trimask_core.study.definition import Study
from trimask_core.submit.release_files import split_ids
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1.row_check_pb2 import CheckCommitment, RowCheck
from trimask_server.suites.rows.math import RightMask

TOLERANCE = 2.0**-48
"""Of |x| |z B|: 32 units of rounding, where masking leaves about two (tests/server/test_tag_check.py)."""
_ORTHONORMAL = 1e-12  # per entry of Q Q^T, which a QR factorisation gives to about 1e-15


@dataclass(frozen=True)
class BlockKeys:
    """What one holder has for a block: a key's seed for each row, and the seed each row was checked with."""

    keys: Sequence[bytes] = field(repr=False)
    check_seeds: Sequence[bytes] = field(repr=False)


def mask_keys(
    study: Study, mask: RightMask, openings: Matrix, held: Sequence[BlockKeys]
) -> tuple[Matrix, list[int]]:
    """Z P B_k, `TAGS` rows for each row of the block, and what its tags have besides; `study` with the seed of B_0."""
    n, p = mask.basis.shape
    if any(len(one.keys) != n for one in held) or openings.shape != (n, CHECK_DIRECTIONS):
        raise Refused(Reason.WRONG_SHAPE, f"tag keys and openings of {n} rows were expected")
    seeds = held[0].check_seeds
    if len(seeds) != n or any(one.check_seeds != seeds for one in held):
        raise Refused(Reason.OUT_OF_STEP, "holders of tag keys know the rows by different checks")
    # With a basis of its own choice R_k could have small numbers stand for large ones, and rounding for what it wants.
    if not np.abs(mask.basis @ mask.basis.T - np.eye(n)).max() <= _ORTHONORMAL:
        raise Refused(Reason.WRONG_SHAPE, "the basis of a right mask must have orthonormal rows")
    vectors = sum((expand_keys(one.keys, p) for one in held[1:]), start=expand_keys(held[0].keys, p))
    projected = (vectors.reshape(n * TAGS, p) @ mask.basis.T).reshape(n, TAGS, n)
    besides = np.empty((n, TAGS))
    for seed in sorted(set(seeds)):
        these = [i for i, other in enumerate(seeds) if other == seed]
        taken = directions(study, seed)
        along = vectors[these] @ taken.T
        projected[these] -= along @ (taken @ mask.basis.T)
        besides[these] = np.einsum("id,itd->it", openings[these], along)
    offsets = [sum(values) for values in zip(*(_offsets(one.keys) for one in held), strict=True)]
    steps = np.ldexp(besides, -study.rows.grid_exponent).ravel()
    if not np.isfinite(steps).all():
        raise Refused(Reason.WRONG_SHAPE, "what was opened of a row may not be NaN or infinity")
    return mask.frame.apply(projected.reshape(n * TAGS, n)), [
        (offset + round(step)) % PRIME for offset, step in zip(offsets, steps.tolist(), strict=True)
    ]


def _offsets(seeds: Sequence[bytes]) -> list[int]:
    return [offset for seed in seeds for offset in key_offsets(seed)[0]]


def check_tags(
    masked: Matrix, tags: Sequence[int], keys: Matrix, offsets: Sequence[int], grid: Grid, longest: float
) -> int | None:
    """The first row of X^k B_k, from 0, that its tags do not fit, or None; rows are no longer than `longest`.

    The bound is the study's and not the row's own length: R_k could lengthen what it sends where nobody looks.
    """
    rows = masked.shape[0]
    lengths = np.linalg.norm(masked, axis=1)
    found = np.einsum("ij,itj->it", masked, keys.reshape(rows, TAGS, -1))
    sent = np.ldexp(
        [float(signed(tag - offset)) for tag, offset in zip(tags, offsets, strict=True)], grid.exponent
    )
    allowed = TOLERANCE * longest * np.linalg.norm(keys, axis=1)
    wrong = ~(np.abs(found.ravel() - sent) <= allowed).reshape(rows, TAGS).all(axis=1)
    wrong |= ~(lengths <= longest * (1 + TOLERANCE))
    return int(np.flatnonzero(wrong)[0]) if wrong.any() else None


def challenge(seed: bytes) -> int:
    """e, from the seed of a check."""
    return int.from_bytes(hashlib.sha256(b"trimask tag challenge\0" + seed).digest(), "big") % PRIME


def combinations(
    components: NDArray[np.int64], tagged: Sequence[Tagged], holder: int, e: int
) -> tuple[bytes, bytes]:
    """For each component x the elements e x + y, and the same of its tags for one holder (from 0)."""
    spares = expand_spares([one.spare for one in tagged], components.shape[1])
    tags = [add_elements([[e * tag for tag in one.tags[holder]], one.spare_tags[holder]]) for one in tagged]
    return combined(components, spares, e).tobytes(), b"".join(map(write_elements, tags))


def combinations_hold(values: bytes, tags: bytes, seeds: Sequence[bytes], columns: int, e: int) -> list[bool]:
    """For each row, whether what was shown fits the key that its seed stands for."""
    if not seeds:
        return []
    shown, found = (
        read_elements(tags),
        inner_products(read_wide(values, columns), expand_keys(seeds, columns)),
    )
    holds = []
    for i, (seed, products) in enumerate(zip(seeds, found, strict=True)):
        offsets, spare_offsets = key_offsets(seed)
        expected = add_elements([products, [e * offset for offset in offsets], spare_offsets])
        holds.append(expected == shown[i * TAGS : (i + 1) * TAGS])
    return holds


VALUE_BYTES = 16
_SCALE_BITS = 30
_COMPONENT_BITS = 18  # three pieces hold a component's 53 bits and its sign
_DIRECTION_BITS = 15  # and two a direction's, which is 2^30 at most, and its sign
_MOST_COLUMNS = 1 << 20  # _COMPONENT_BITS + _DIRECTION_BITS + 20 = 53
_KEPT_BYTES = 32 << 20
_DIRECTIONS: dict[
    tuple[bytes, bytes], Matrix
] = {}  # by study and seed; worked out from them again when wanted
_REFUSAL_BITS = (
    41  # an honest row is refused with probability 2^-41 for too much noise, and 2^-41 for too little
)


def chi_square_factor(degrees: int, bits: float, *, upper: bool) -> float:
    """a with P[chi-square(degrees) beyond a * degrees] <= 2^-bits: a - 1 - ln a = 2 bits ln 2 / degrees (Chernoff)."""
    target = 2 * bits * math.log(2) / degrees
    low, high = (1.0, 2.0 + 2 * target) if upper else (math.exp(-1 - target), 1.0)
    for _ in range(200):
        middle = (low + high) / 2
        if (middle - 1 - math.log(middle) < target) == upper:
            low = middle
        else:
            high = middle
    return high if upper else low


ACCEPTED = (
    CHECK_DIRECTIONS * chi_square_factor(CHECK_DIRECTIONS, _REFUSAL_BITS, upper=False),
    CHECK_DIRECTIONS * chi_square_factor(CHECK_DIRECTIONS, _REFUSAL_BITS, upper=True),
)
"""Between these |y Z|^2 / tau^2 of a row must lie."""


def directions(study: Study, seed: bytes) -> Matrix:
    """Z: d orthonormal rows, uniform among those orthogonal to F. Not to be written to."""
    # A block has rows of many checks, and the next block has rows of the same.
    key = (study.id, seed)
    Z = _DIRECTIONS.get(key)
    if Z is None:
        Z = device_frame(study).beside(HaarFrame(seed, CHECK_DIRECTIONS, study.rows.noise_columns).matrix())
        Z.flags.writeable = False
        _DIRECTIONS[key] = Z
        while sum(one.nbytes for one in list(_DIRECTIONS.values())) > _KEPT_BYTES and len(_DIRECTIONS) > 1:
            _DIRECTIONS.pop(next(iter(_DIRECTIONS)), None)
    return Z


Openings = NDArray[np.uint64]
"""Whole numbers of 128 bits, two's complement, as two words each, the lower first: as they travel."""


def open_component(component: NDArray[np.int64], Z: Matrix) -> Openings:
    """X^k Z' in whole numbers, for Z' = Z in whole steps of 2^-30; exact. A row of numbers for each of the component's."""
    if component.shape[1] > _MOST_COLUMNS:
        raise VerificationError(f"rows of more than {_MOST_COLUMNS} columns cannot be checked exactly")
    count = Z.shape[0]
    directions_ = np.hstack(_pieces(np.rint(np.ldexp(Z.T, _SCALE_BITS)).astype(np.int64), _DIRECTION_BITS, 2))
    total: Openings = np.zeros((component.shape[0], count, 2), dtype=np.uint64)
    for some in in_cache(*component.shape):
        for i, piece in enumerate(_pieces(component[some], _COMPONENT_BITS, 3)):
            products = (piece @ directions_).astype(np.int64).reshape(len(piece), 2, count)
            for j in range(2):
                _add_shifted(total[some], products[:, j], _COMPONENT_BITS * i + _DIRECTION_BITS * j)
    return total


def _pieces(values: NDArray[np.int64], bits: int, count: int) -> list[Matrix]:
    """Whole numbers as pieces of so many bits, the lowest first; the last one has the sign."""
    pieces = [(values >> (bits * i)) & ((1 << bits) - 1) for i in range(count - 1)]
    return [piece.astype(np.float64) for piece in (*pieces, values >> (bits * (count - 1)))]


def _add_shifted(total: Openings, values: NDArray[np.int64], bits: int) -> None:
    """total += values 2^bits, for less than 64 bits."""
    low = (values << bits).view(np.uint64)
    total[..., 0] += low
    total[..., 1] += (values >> min(63, 64 - bits)).view(np.uint64) + (total[..., 0] < low)


def pack_openings(openings: Openings) -> bytes:
    """For the wire: row by row, 16 bytes each."""
    return openings.astype("<u8", copy=False).tobytes()


def unpack_openings(data: bytes, rows: int) -> Openings:
    """What `pack_openings` wrote for so many rows."""
    if len(data) != rows * CHECK_DIRECTIONS * VALUE_BYTES:
        raise VerificationError("openings have one value for each row and direction")
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False).reshape(rows, CHECK_DIRECTIONS, 2)


def judge(study: Study, openings: Sequence[Openings]) -> list[bool]:
    """Whether each row is accepted, from what all right providers opened of it."""
    total = openings[0].copy()
    for other in openings[1:]:
        total[..., 0] += other[..., 0]
        total[..., 1] += other[..., 1] + (total[..., 0] < other[..., 0])
    # Exact to here; what is below 2^85, as numbers in range are, is rounded once.
    high, low = total[..., 1].view(np.int64).astype(np.float64), total[..., 0]
    values = np.ldexp(np.ldexp(high, 32) + (low >> np.uint64(32)), 32) + (low & np.uint64(0xFFFFFFFF))
    unit = math.ldexp(study.rows.tau, _SCALE_BITS - study.rows.grid_exponent)
    energy = np.sum(np.square(values / unit), axis=1)
    return [bool(ACCEPTED[0] <= value <= ACCEPTED[1]) for value in energy]


def take_out(component: Matrix, Z: Matrix) -> Matrix:
    """The rows without their parts along Z."""
    taken: Matrix = component - (component @ Z.T) @ Z
    return taken


MOST_ROWS = 1024
_COIN, _COMMITMENT = "row-check-coin", "row-check-commitment"


def check_ids(check: RowCheck) -> list[bytes]:
    """The ids of a check."""
    ids = split_ids(check.submission_ids)
    if (
        len(check.check_id) != SUBMISSION_ID_BYTES
        or ids != sorted(set(ids))
        or not 1 <= len(ids) <= MOST_ROWS
    ):
        raise Refused(
            Reason.MALFORMED, f"a check has a 16-byte id and 1 to {MOST_ROWS} sorted, distinct submission ids"
        )
    return ids


def _name(check: RowCheck) -> bytes:
    return check.study_id + check.check_id + hashlib.sha256(check.submission_ids).digest()


def coin_of(key: SigningKey, check: RowCheck) -> bytes:
    """This provider's coin. (An Ed25519 signature is a fixed function of key and message; this one is shown to nobody.)"""
    return hashlib.sha256(key.sign(_COIN, _name(check))).digest()


def _message(check: RowCheck, role: str, held: bytes, coin_hash: bytes) -> bytes:
    return _name(check) + role.encode() + b"\0" + held + coin_hash


def commit(key: SigningKey, role: str, check: RowCheck, held: bytes) -> CheckCommitment:
    """This provider's signed commitment: which rows it has bound, and the hash of its coin."""
    digest = hashlib.sha256(coin_of(key, check)).digest()
    signature = key.sign(_COMMITMENT, _message(check, role, held, digest))
    return CheckCommitment(held=held, coin_hash=digest, signature=signature)


def checked_ids(study: Study, check: RowCheck) -> list[bytes]:
    """The rows that every right provider has bound; refused unless all of them have signed."""
    ids, roles = check_ids(check), study.right_roles
    if len(check.commitments) != len(roles):
        raise Refused(Reason.MALFORMED, f"a check needs the commitments of all {len(roles)} right providers")
    for role, said in zip(roles, check.commitments, strict=True):
        if len(said.held) != len(ids) or set(said.held) - {0, 1} or len(said.coin_hash) != 32:
            raise Refused(Reason.MALFORMED, f"the commitment of {role} does not fit the check")
        message = _message(check, role, said.held, said.coin_hash)
        verify(study.party(role).identity, _COMMITMENT, message, said.signature, f"the commitment of {role}")
    return [name for i, name in enumerate(ids) if all(said.held[i] for said in check.commitments)]


def commitments_hash(check: RowCheck) -> bytes:
    """Names what all have committed to."""
    said = b"".join(said.held + said.coin_hash for said in check.commitments)
    return hashlib.sha256(b"trimask row check\0" + _name(check) + said).digest()


def seed_of(check: RowCheck) -> bytes:
    """The seed the coins give, if they are those committed to."""
    if len(check.coins) != len(check.commitments):
        raise Refused(Reason.MALFORMED, "a check needs a coin for each commitment")
    for number, (coin, said) in enumerate(zip(check.coins, check.commitments, strict=True), 1):
        if hashlib.sha256(coin).digest() != said.coin_hash:
            raise VerificationError(f"the coin of R{number} is not the one it committed to")
    return hashlib.sha256(
        b"trimask row check seed\0" + commitments_hash(check) + b"".join(check.coins)
    ).digest()


_ANSWER_BOUND_REFUSAL_BITS = 40
_ROUNDING = 1 + 1e-6  # of the grid and of float64, far less than this


def _bound(norm: float, sigma: float, rows: int, degrees: int, bits: float) -> float:
    if not sigma:
        return rows * norm**2 * _ROUNDING
    z = math.sqrt(2 * bits * math.log(2))
    noise = sigma**2 * degrees * chi_square_factor(degrees, bits, upper=True)
    return (rows * norm**2 + 2 * sigma * math.sqrt(rows) * norm * z + noise) * _ROUNDING


def _bits(study: Study) -> float:
    """Two events for each column and two for the trace share 2^-40."""
    return _ANSWER_BOUND_REFUSAL_BITS + math.log2(2 * (study.attributes + 1))


def column_bound(study: Study, rows: int) -> float:
    """The largest sum of squares of a column of so many rows."""
    return _bound(min(1.0, study.protection.row_norm), study.rows.published_sigma, rows, rows, _bits(study))


def trace_bound(study: Study, rows: int) -> float:
    """The largest sum of squares of all columns."""
    degrees = rows * study.attributes
    return _bound(study.protection.row_norm, study.rows.published_sigma, rows, degrees, _bits(study))


def refuse_heavy(study: Study, answers: Matrix) -> None:
    """Refuse a block's A (X + C) if it weighs more than rows in range can."""
    rows = answers.shape[0]
    weights = np.sum(np.square(answers), axis=0)
    most = column_bound(study, rows)
    for column, weight in zip(study.schema.columns, weights, strict=True):
        if not weight <= most:
            raise Refused(
                Reason.IMPLAUSIBLE_ANSWERS,
                f"its answers are out of range: column {column.name!r} weighs {weight:.3g}, and {rows} rows at most "
                f"{most:.3g}",
            )
    if not weights.sum() <= trace_bound(study, rows):
        raise Refused(
            Reason.IMPLAUSIBLE_ANSWERS,
            f"its answers are out of range: they weigh {weights.sum():.3g}, and {rows} rows at most "
            f"{trace_bound(study, rows):.3g}",
        )
