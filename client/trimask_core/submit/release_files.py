"""What the files of a release say beside its rows: which submissions are counted, and what a row is.

Which submissions a release counts is a list beside every release, so that a receipt can be checked against it.
The file `counted.bin`, whose hash is in the signed manifest, has for each block (or batch) of the release its id, the ids
of its submissions in ascending order, and whether each was counted: in the moments suite the right providers refuse a
report whose proof fails. In that suite the list is bound by what every right provider signed (`accepted_hash`). In the rows
suite each block has the signature of every right provider over its list, given when it bound these rows to this block: a
list with another id in it needs them all. That a listed block was not given up, and is in the release, is the collector's
word, as the release itself is.

A submission id is the hash of a key that only the receipt holds, so the list names nobody: it tells how many people
answered, which is published anyway, and to anybody who sees a receipt, whether it counts and in which block.

The metadata stored with the rows of a release say that a row is not a person, the noise, and how to subtract it.
A release of the rows suite is Y = A (X + C) in scaled units, A orthogonal and C of deviation sigma. A row in original units
is a scaled row times T, whose column j is half_range_j e_j + center_j e_one, so that
    E[Y^T Y] = X^T X + rows sigma^2 T^T T,   (T^T T)_jk = c_j c_k + h_j^2 [j = k],
with c_j = center_j and h_j = half_range_j, but c = 1 and h = 0 for the column `one`.
The words are the same in the published Parquet file (collector) and in what a researcher exports (`trimask.Dataset`).
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.study.definition import Study
from trimask_core.study.derived import ONES, Column
from trimask_core.submit.submission import SUBMISSION_ID_BYTES

BOUND = "block-bound"
"""The context of a right provider's signature over the hash of a plan that it has bound."""

COUNTED_FILE = "counted.bin"
BLOCK_ID_BYTES = 16
_MAGIC = b"trimask-counted/2\n"
_SIGNATURE_BYTES = 64
_COUNT_BYTES = 4
_HEAD = BLOCK_ID_BYTES + _COUNT_BYTES

Standing = Literal["counted", "refused", "absent"]
"""What a release says of a submission: counted; in a block, and refused by the right providers' check; or not in it."""


def plan_hash(study_id: bytes, block_id: bytes, submission_ids: bytes) -> bytes:
    """The hash of a block's plan: what every message of an attempt names, and right providers sign when they bind it."""
    return hashlib.sha256(b"trimask block plan\0" + study_id + block_id + submission_ids).digest()


def verify_bound(study: Study, role: str, plan: bytes, signature: bytes) -> None:
    """Raise `VerificationError` unless this right provider has bound the plan with this hash."""
    verify(study.party(role).identity, BOUND, plan, signature, f"the word of {role} on the block")


def split_ids(joined: bytes) -> list[bytes]:
    """16-byte ids from their concatenation."""
    if len(joined) % SUBMISSION_ID_BYTES:
        raise Refused(Reason.MALFORMED, f"submission ids must have {SUBMISSION_ID_BYTES} bytes each")
    return [joined[i : i + SUBMISSION_ID_BYTES] for i in range(0, len(joined), SUBMISSION_ID_BYTES)]


def plan_message(study_id: bytes, block_id: bytes, submission_ids: bytes) -> bytes:
    """What the collector signs when it plans a block."""
    return study_id + block_id + submission_ids


def sign_bound(key: SigningKey, plan: bytes) -> bytes:
    """A provider's signature that it has bound the plan with this hash."""
    return key.sign(BOUND, plan)


@dataclass(frozen=True)
class CountedBlock:
    """The submissions of one block: their ids, joined and ascending, and a byte for each: 1 if it was counted, or 0.

    `signatures`, in the rows suite: those of R_1, R_2, ... over the plan's hash, joined.
    """

    block_id: bytes
    ids: bytes
    accepted: bytes
    signatures: bytes = b""

    @classmethod
    def of(
        cls,
        block_id: bytes,
        ids: Sequence[bytes],
        accepted: Sequence[bool] | None = None,
        signatures: bytes = b"",
    ) -> CountedBlock:
        """From separate ids, in any order; all are counted unless `accepted` says otherwise."""
        flags = [True] * len(ids) if accepted is None else accepted
        both = sorted(zip(ids, flags, strict=True))
        return cls(block_id, b"".join(name for name, _ in both), bytes(good for _, good in both), signatures)

    def verify(self, study: Study) -> None:
        """Raise `VerificationError` unless every right provider has bound exactly these rows to this block."""
        if len(self.signatures) != _SIGNATURE_BYTES * len(study.right):
            raise VerificationError(f"{COUNTED_FILE} has a block without the word of every right provider")
        plan = plan_hash(study.id, self.block_id, self.ids)
        for k in range(len(study.right)):
            signature = self.signatures[k * _SIGNATURE_BYTES : (k + 1) * _SIGNATURE_BYTES]
            verify_bound(study, f"R{k + 1}", plan, signature)

    def __len__(self) -> int:
        return len(self.accepted)

    def __getitem__(self, index: int) -> bytes:
        """The id at this place."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.ids[index * SUBMISSION_ID_BYTES : (index + 1) * SUBMISSION_ID_BYTES]

    def __iter__(self) -> Iterator[bytes]:
        for at in range(0, len(self.ids), SUBMISSION_ID_BYTES):
            yield self.ids[at : at + SUBMISSION_ID_BYTES]

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.accepted)

    def standing(self, submission_id: bytes) -> Standing:
        """What became of a submission in this block."""
        at = bisect_left(self, submission_id)
        if at == len(self) or self[at] != submission_id:
            return "absent"
        return "counted" if self.accepted[at] else "refused"


@dataclass(frozen=True)
class Counted:
    """The list of a release."""

    blocks: tuple[CountedBlock, ...]

    @property
    def count(self) -> int:
        """How many submissions were counted."""
        return sum(block.count for block in self.blocks)

    def standing(self, submission_id: bytes) -> Standing:
        """What the release says of a submission."""
        found = (block.standing(submission_id) for block in self.blocks)
        return next((standing for standing in found if standing != "absent"), "absent")

    def to_bytes(self) -> bytes:
        """The file."""
        return _MAGIC + b"".join(
            block.block_id
            + len(block).to_bytes(_COUNT_BYTES, "big")
            + block.ids
            + block.accepted
            + bytes([len(block.signatures) // _SIGNATURE_BYTES])
            + block.signatures
            for block in self.blocks
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Counted:
        """Read the file; `VerificationError` unless it is one that `to_bytes` could have written."""
        if not data.startswith(_MAGIC):
            raise VerificationError(f"{COUNTED_FILE} does not begin as a list of counted submissions")
        blocks: list[CountedBlock] = []
        at = len(_MAGIC)
        while at < len(data):
            head = data[at : at + _HEAD]
            rows = int.from_bytes(head[BLOCK_ID_BYTES:], "big")
            middle = at + _HEAD + rows * SUBMISSION_ID_BYTES
            signed = middle + rows + 1
            end = signed + _SIGNATURE_BYTES * (data[signed - 1] if signed <= len(data) else 0)
            if len(head) < _HEAD or max(signed, end) > len(data):
                raise VerificationError(f"{COUNTED_FILE} ends in the middle of a block")
            block = CountedBlock(
                head[:BLOCK_ID_BYTES],
                data[at + _HEAD : middle],
                data[middle : signed - 1],
                data[signed:end],
            )
            _require_canonical(block)
            blocks.append(block)
            at = end
        if len({block.block_id for block in blocks}) != len(blocks):
            raise VerificationError(f"{COUNTED_FILE} has a block twice")
        if len({name for block in blocks for name in block}) != sum(map(len, blocks)):
            raise VerificationError(f"{COUNTED_FILE} has a submission in two blocks")
        return cls(tuple(blocks))


def _require_canonical(block: CountedBlock) -> None:
    if not len(block) or block.accepted.strip(b"\0\1"):
        raise VerificationError(
            f"{COUNTED_FILE} has a block that is empty, or marks that are neither 0 nor 1"
        )
    if not _ascending(block):
        raise VerificationError(f"{COUNTED_FILE} has ids that are not in ascending order, each once")


def _ascending(ids: Iterable[bytes]) -> bool:
    before = b""
    for name in ids:
        if name <= before:
            return False
        before = name
    return True


NOT_PEOPLE = (
    "Rows are not people: each mixes everybody's answers and holds noise. Only sums of products mean anything, once the "
    "noise is taken off; no count, filter, histogram, median or nonlinear model does. A program that takes the rows for "
    "people reports biased coefficients, signs included, with errors that are too small."
)
DERIVED = (
    "derived rows: made from noisy second moments, not collected. Only their sums of products mean anything; a "
    "program that takes them for people reports wrong standard errors. Use trimask.fit on the dataset."
)
INTERCEPT = (
    "the column `one` is the intercept: fit it like any other, and no other constant (in R: y ~ 0 + one + x)"
)


def noise_shape(columns: tuple[Column, ...]) -> tuple[dict[str, float], dict[str, float]]:
    """c and h of the formula above, by column."""
    center = {column.name: 1.0 if column.name == ONES else column.center for column in columns}
    half = {column.name: 0.0 if column.name == ONES else column.half_range for column in columns}
    if ONES not in center:
        center = dict.fromkeys(center, 0.0)
    return center, half


def weight_note(study: Study) -> str:
    """What weights do to the rows of a study; empty where it has none."""
    if study.weight is None:
        return ""
    largest = study.weight.bounds(study.schema)[1]
    return (
        f"People are weighted by {study.weight.words(study.schema)}. Each row was multiplied on the device by the root of "
        f"its weight over the largest, {largest:g}: sums of products are weighted sums over {largest:g}, and the square of "
        "`one` is that of the weights, not the number of people. Fits of the rows are weighted least squares."
    )


def row_notes(study: Study, rows: int, units: str) -> dict[str, str]:
    """For the rows of one release, of so many people, in "original" or "scaled" units; every value is text."""
    columns, sigma = study.schema.columns, study.protection.sigma
    promise = study.protection.public
    stored = study.suite.name == "rows"
    notes = {
        "trimask": NOT_PEOPLE if stored else DERIVED,
        "study_id": study.id.hex(),
        "study": study.title,
        "suite": study.suite.name,
        "rows": str(rows),
        "units": units,
        "sigma": repr(sigma),
        "columns": json.dumps(
            [{"name": one.name, "center": one.center, "half_range": one.half_range} for one in columns]
        ),
        "scale": "original value = center * one + half_range * scaled value, in every row",
        "guarantee": "none: exact mode, masked without differential privacy"
        if promise is None
        else str(promise),
    }
    if study.schema.ones:
        notes["intercept"] = INTERCEPT
    if study.weight is not None:
        notes["weights"] = weight_note(study)
    if not stored:
        notes["correction"] = (
            "none to be made: sums of products are those a fit uses. sigma is the noise of the published totals"
        )
    elif units == "scaled":
        notes["correction"] = (
            "X'X is estimated by Y'Y - rows sigma^2 I, with `rows` as here, whatever is stored"
        )
    else:
        notes["correction"] = (
            "X'X is estimated by Y'Y - rows sigma^2 (c c' + diag(h^2)), with `rows` as here, whatever is stored, c the "
            "centers and h the half ranges of the columns, but c = 1 and h = 0 for `one`"
        )
    return notes
