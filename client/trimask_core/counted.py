"""Which submissions a release counts: a list beside every release, so that a receipt can be checked against it.

The file `counted.bin`, whose hash is in the signed manifest, has for each block (or batch) of the release its id, the ids
of its submissions in ascending order, and whether each was counted: in the moments suite the right providers refuse a
report whose proof fails. In that suite the list is bound by what every right provider signed (`accepted_hash`); in the
rows suite only the collector signs it, and any right provider can check it against its own plan of the block.

A submission id is the hash of a key that only the receipt holds, so the list names nobody: it tells how many people
answered, which is published anyway, and to whoever is shown a receipt, whether it counts and in which block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trimask_core.errors import VerificationError
from trimask_core.submission import SUBMISSION_ID_BYTES

__all__ = ["BLOCK_ID_BYTES", "COUNTED_FILE", "Counted", "CountedBlock", "Standing"]

COUNTED_FILE = "counted.bin"
BLOCK_ID_BYTES = 16
_MAGIC = b"trimask-counted/1\n"
_COUNT_BYTES = 4
_HEAD = BLOCK_ID_BYTES + _COUNT_BYTES

Standing = Literal["counted", "refused", "absent"]
"""What a release says of a submission: counted; in a block, and refused by the right providers' check; or not in it."""


@dataclass(frozen=True)
class CountedBlock:
    """The submissions of one block: their ids, joined and ascending, and a byte for each: 1 if it was counted, or 0."""

    block_id: bytes
    ids: bytes
    accepted: bytes

    @classmethod
    def of(
        cls, block_id: bytes, ids: Sequence[bytes], accepted: Sequence[bool] | None = None
    ) -> CountedBlock:
        """From separate ids, in any order; all are counted unless `accepted` says otherwise."""
        flags = [True] * len(ids) if accepted is None else accepted
        both = sorted(zip(ids, flags, strict=True))
        return cls(block_id, b"".join(name for name, _ in both), bytes(good for _, good in both))

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
        """What the release says of a submission; `VerificationError` where two blocks have it."""
        found = [block.standing(submission_id) for block in self.blocks]
        named = [standing for standing in found if standing != "absent"]
        if len(named) > 1:
            raise VerificationError(
                f"{COUNTED_FILE} has submission {submission_id.hex()} in {len(named)} blocks"
            )
        return named[0] if named else "absent"

    def to_bytes(self) -> bytes:
        """The file."""
        return _MAGIC + b"".join(
            block.block_id + len(block).to_bytes(_COUNT_BYTES, "big") + block.ids + block.accepted
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
            end = middle + rows
            if len(head) < _HEAD or end > len(data):
                raise VerificationError(f"{COUNTED_FILE} ends in the middle of a block")
            block = CountedBlock(head[:BLOCK_ID_BYTES], data[at + _HEAD : middle], data[middle:end])
            _require_canonical(block)
            blocks.append(block)
            at = end
        if len({block.block_id for block in blocks}) != len(blocks):
            raise VerificationError(f"{COUNTED_FILE} has a block twice")
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
