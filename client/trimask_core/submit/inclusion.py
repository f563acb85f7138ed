"""Which submissions a release counts: a list beside every release, so that a receipt can be checked against it.

The file `counted.bin`, whose hash is in the signed manifest, has for each block (or batch) of the release its id, the ids
of its submissions in ascending order, and whether each was counted: in the moments suite the right providers refuse a
report whose proof fails. In that suite the list is bound by what every right provider signed (`accepted_hash`). In the rows
suite each block has the signature of every right provider over its list, given when it bound these rows to this block: a
list with another id in it needs them all. That a listed block was not given up, and is in the release, is the collector's
word, as the release itself is.

A submission id is the hash of a key that only the receipt holds, so the list names nobody: it tells how many people
answered, which is published anyway, and to anybody who sees a receipt, whether it counts and in which block.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.study.definition import Study
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
