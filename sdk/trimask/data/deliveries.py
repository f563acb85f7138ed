"""moments.json, the data file of the moments suite: noisy totals, with what each right provider signed about its part.

Every delivery is in the file and is checked: its hash with its salt, the provider's signatures over that hash, the
release, its batches, its accepted reports and all providers' commitments, and that the deliveries add up to the totals.

The collector could publish other totals than the providers delivered, or other reports than were asked about; a provider
that has seen what the others delivered could commit again, to another total. Neither goes unnoticed here.

counted.bin, the list of the submissions a release counts, is held against the manifest and what right providers signed.
In both suites it has as many as the release has people. In the moments suite every right provider signed the hash of the
batches and of which reports in them were accepted: a list that differs in one id or one mark is refused. In the rows
suite every right provider signed the list of each block when it bound these rows to it: a list that differs in one id is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimask.data.manifest import MOMENTS_FILE, Manifest
from trimask_core.basics.encoding import decode_bytes, read_json
from trimask_core.basics.errors import TrimaskError, VerificationError
from trimask_core.crypto.identity import verify
from trimask_core.moments.totals import (
    COMMITMENTS,
    TOTALS,
    AddedBatch,
    accepted_hash,
    asked_hash,
    commitment_message,
    commitments_message,
    decode,
    read_values,
    release_hash,
    values_hash,
)
from trimask_core.study.definition import Study
from trimask_core.submit.inclusion import COUNTED_FILE, Counted


@dataclass(frozen=True)
class Asked:
    """What the deliveries must be of: the hash of what was asked, the accepted reports, and how many totals there are."""

    asked: bytes
    accepted: bytes
    people: int
    totals: int


def summed_deliveries(
    study: Study, asked: Asked, found: Sequence[Mapping[str, Any]], where: str
) -> list[int]:
    """The totals that the deliveries add up to; `VerificationError` if one of them is not what its provider signed."""
    roles = [f"R{k}" for k in range(1, len(study.right) + 1)]
    by_role = {str(item["role"]): item for item in found}
    if sorted(by_role) != sorted(roles) or len(by_role) != len(found):
        raise VerificationError(f"{where} must have one delivery of each of {', '.join(roles)}")
    committed = [bytes.fromhex(by_role[role]["values_hash"]) for role in roles]
    seen = commitments_message(asked.asked, asked.accepted, asked.people, committed)
    delivered = []
    for role, commitment in zip(roles, committed, strict=True):
        item, identity = by_role[role], study.party(role).identity
        values = read_values(decode_bytes(item["values"]), asked.totals)
        if values_hash(values, decode_bytes(item["salt"])) != commitment:
            raise VerificationError(f"the delivery of {role} is not what it committed to")
        if item["accepted_count"] != asked.people:
            raise VerificationError(f"the delivery of {role} is of another number of people")
        message = commitment_message(asked.asked, role, asked.accepted, asked.people, commitment)
        verify(identity, TOTALS, message, decode_bytes(item["signature"]), f"the totals of {role}")
        verify(
            identity,
            COMMITMENTS,
            seen,
            decode_bytes(item["commitments_signature"]),
            f"what {role} saw of the others' commitments",
        )
        delivered.append(values)
    return decode(delivered)


TOTALS_FORMAT = "trimask-moments/1"
_HASH_BYTES = 32


@dataclass(frozen=True)
class Totals:
    """Noisy sums of z_j, and of z_j z_l for j <= l row by row, over the people whose reports were accepted.

    In a weighted study every summand counts s^2 times, and the sum of s^2 itself is the first of `first`.
    `accepted_hash` names those reports; every right provider signed it.
    """

    first: tuple[int, ...]
    products: tuple[int, ...]
    accepted: int
    accepted_hash: bytes


def read_totals(path: Path, manifest: Manifest) -> Totals:
    """Read and check the file; `VerificationError` if anything does not agree."""
    try:
        return _checked(read_json(path.read_bytes()), manifest)
    except VerificationError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        OverflowError,
        TrimaskError,
    ) as error:
        raise VerificationError(f"{MOMENTS_FILE} cannot be read: {type(error).__name__} {error}") from None


def _checked(data: Mapping[str, Any], manifest: Manifest) -> Totals:
    study, layout = manifest.study, manifest.study.moments.layout
    if data["format"] != TOTALS_FORMAT:
        raise VerificationError(f"{MOMENTS_FILE} is not of format {TOTALS_FORMAT}")
    accepted = bytes.fromhex(data["accepted_hash"])
    first, products = tuple(data["first"]), tuple(data["products"])
    for held, what in (
        (data["release"] == manifest.release, "release"),
        (type(data["accepted"]) is int and data["accepted"] == manifest.rows, "number of people"),
        (data["columns"] == [column.name for column in layout.columns], "columns"),
        (len(accepted) == _HASH_BYTES, "accepted reports"),
        ((len(first), len(first + products)) == (layout.firsts, layout.totals), "number of totals"),
        (all(type(value) is int for value in (*first, *products)), "totals"),
    ):
        if not held:
            raise VerificationError(f"{MOMENTS_FILE} does not agree with the manifest: {what}")
    asked = asked_hash(study.id, manifest.release, b"".join(manifest.batch_ids))
    of = Asked(asked, accepted, manifest.rows, len(first + products))
    if summed_deliveries(study, of, data["deliveries"], MOMENTS_FILE) != [*first, *products]:
        raise VerificationError(
            f"the totals of {MOMENTS_FILE} are not the sum of what the providers delivered"
        )
    return Totals(first, products, manifest.rows, accepted)


def read_counted(folder: Path, manifest: Manifest, totals: Totals | None) -> Counted:
    """Read and check the list; `totals` where the release is of the moments suite."""
    counted = Counted.from_bytes((folder / COUNTED_FILE).read_bytes())
    if counted.count != manifest.rows:
        raise VerificationError(
            f"{COUNTED_FILE} counts {counted.count:,} submissions where the manifest says {manifest.rows:,}"
        )
    if totals is None:
        if any(block.count != len(block) for block in counted.blocks):
            raise VerificationError(f"{COUNTED_FILE} has refused submissions, which the rows suite has not")
        for block in counted.blocks:
            block.verify(manifest.study)
    elif _signed(counted, manifest) != totals.accepted_hash:
        raise VerificationError(
            f"{COUNTED_FILE} is not the list of reports that the right providers signed for"
        )
    return counted


def _signed(counted: Counted, manifest: Manifest) -> bytes:
    """What right providers of the moments suite have signed if this is the list."""
    study_id = manifest.study.id
    batches = [
        AddedBatch(
            block.block_id,
            accepted_hash(study_id, block.block_id, list(block), [mark == 1 for mark in block.accepted]),
            block.count,
        )
        for block in counted.blocks
    ]
    return release_hash(study_id, manifest.release, batches)
