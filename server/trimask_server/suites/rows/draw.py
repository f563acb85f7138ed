"""Which rows share a block: drawn by a coin that all right providers toss once nothing can change any more.

The theorem is in docs/theory/collection.md#draw. In a draw every right provider fixes what it holds and commits to a coin
(its list), then says which of the rows that all have fixed (the pool) may be in a block (its verdicts). With the verdicts
of all it shows its coin. The coins order the accepted rows, and the order is cut into blocks. Every right provider works
all of this out for itself. A provider's coin is a fixed function of its list, so that a store restored from a backup has
no second one for the same list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.study.definition import Study
from trimask_core.submit.release_files import split_ids
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1.row_draw_pb2 import FrozenRows, PoolVerdicts, RowDraw
from trimask_server.suites.rows.check import MOST_ROWS

_COIN, _LIST, _VERDICTS = "draw-coin", "draw-list", "draw-verdicts"
_LARGEST_BYTES = 3 << 20  # of the lists and verdicts of all, which go into one message


def most_rows(study: Study) -> int:
    """How many rows a right provider fixes for one draw at most; the others wait for the next."""
    return _LARGEST_BYTES // ((SUBMISSION_ID_BYTES + 2) * len(study.right))


def _name(study_id: bytes, number: int, rows: FrozenRows) -> bytes:
    ids, checked = hashlib.sha256(rows.submission_ids).digest(), hashlib.sha256(rows.checked).digest()
    return study_id + number.to_bytes(4, "big") + ids + checked + bytes([rows.closing])


def coin_of(key: SigningKey, study_id: bytes, number: int, rows: FrozenRows) -> bytes:
    """This provider's coin. (An Ed25519 signature is a fixed function of key and message; this one is shown to nobody.)"""
    return hashlib.sha256(key.sign(_COIN, _name(study_id, number, rows))).digest()


def freeze(
    key: SigningKey,
    role: str,
    study_id: bytes,
    number: int,
    rows: Sequence[tuple[bytes, int]],
    *,
    closing: bool,
) -> FrozenRows:
    """A provider's signed list of rows, (id, whether it was checked) each, with the hash of its coin."""
    rows = sorted(rows)
    ids, checked = b"".join(name for name, _ in rows), bytes(mark for _, mark in rows)
    frozen = FrozenRows(submission_ids=ids, checked=checked, closing=closing)
    frozen.coin_hash = hashlib.sha256(coin_of(key, study_id, number, frozen)).digest()
    frozen.signature = key.sign(_LIST, _list_message(study_id, number, role, frozen))
    return frozen


def _list_message(study_id: bytes, number: int, role: str, rows: FrozenRows) -> bytes:
    return _name(study_id, number, rows) + rows.coin_hash + role.encode()


def sign_verdicts(key: SigningKey, role: str, draw: Draw, marks: bytes) -> PoolVerdicts:
    """A provider's signed verdicts on the pool."""
    return PoolVerdicts(
        marks=marks, signature=key.sign(_VERDICTS, draw.lists_hash + role.encode() + b"\0" + marks)
    )


@dataclass(frozen=True)
class DrawnBlock:
    """A block as it was drawn: its id, which the draw gives it, and the ids of its rows, joined and sorted."""

    block_id: bytes
    submission_ids: bytes

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.submission_ids) // SUBMISSION_ID_BYTES


@dataclass(frozen=True)
class Draw:
    """What follows from what the right providers have said in a draw; `verified` says that they did."""

    study: Study
    said: RowDraw

    @classmethod
    def verified(cls, study: Study, said: RowDraw) -> Draw:
        """Raise unless every list, verdict and coin is the one that its right provider has signed."""
        roles = study.right_roles
        if said.study_id != study.id or not said.number or len(said.lists) != len(roles):
            raise Refused(
                Reason.MALFORMED, f"a draw has a number and the lists of all {len(roles)} right providers"
            )
        for role, rows in zip(roles, said.lists, strict=True):
            ids = split_ids(rows.submission_ids)
            if ids != sorted(set(ids)) or len(rows.checked) != len(ids) or len(rows.coin_hash) != 32:
                raise Refused(
                    Reason.MALFORMED, f"the list of {role} is not of sorted, distinct ids with their marks"
                )
            message = _list_message(study.id, said.number, role, rows)
            verify(study.party(role).identity, _LIST, message, rows.signature, f"the list of {role}")
        draw = cls(study, said)
        draw._require_verdicts(roles)
        draw._require_coins(roles)
        return draw

    def _require_verdicts(self, roles: Sequence[str]) -> None:
        if len(self.said.verdicts) not in (0, len(roles)):
            raise Refused(Reason.MALFORMED, f"a draw needs the verdicts of all {len(roles)} right providers")
        for role, vector in zip(roles, self.said.verdicts, strict=False):
            if len(vector.marks) != len(self.pool) or vector.marks.strip(b"\0\1"):
                raise Refused(Reason.MALFORMED, f"the verdicts of {role} are not on this draw's rows")
            message = self.lists_hash + role.encode() + b"\0" + vector.marks
            key = self.study.party(role).identity
            verify(key, _VERDICTS, message, vector.signature, f"the verdicts of {role}")

    def _require_coins(self, roles: Sequence[str]) -> None:
        if self.said.coins and not len(self.said.coins) == len(self.said.verdicts) == len(roles):
            raise Refused(Reason.MALFORMED, "a draw needs the verdicts of all, and then a coin of each")
        for role, rows, coin in zip(roles, self.said.lists, self.said.coins, strict=False):
            if hashlib.sha256(coin).digest() != rows.coin_hash:
                raise VerificationError(f"the coin of {role} is not the one it committed to")

    @cached_property
    def lists_hash(self) -> bytes:
        """Names what all have fixed and committed to."""
        parts = (_list_message(self.study.id, self.said.number, "", rows) for rows in self.said.lists)
        return hashlib.sha256(b"trimask draw\0" + b"".join(parts)).digest()

    @cached_property
    def votes_hash(self) -> bytes:
        """Names the verdicts of all, too."""
        marks = b"".join(vector.marks for vector in self.said.verdicts)
        return hashlib.sha256(b"trimask draw verdicts\0" + self.lists_hash + marks).digest()

    @cached_property
    def _marks(self) -> dict[bytes, set[int]]:
        """For each row that all have fixed, what they say of its checks."""
        lists = [
            dict(zip(split_ids(rows.submission_ids), rows.checked, strict=True)) for rows in self.said.lists
        ]
        everywhere = set(lists[0]).intersection(*lists[1:])
        return {name: {marks[name] for marks in lists} for name in sorted(everywhere)}

    @property
    def pool(self) -> list[bytes]:
        """The rows that all have fixed, sorted."""
        return list(self._marks)

    @cached_property
    def checks(self) -> list[tuple[bytes, list[bytes]]]:
        """(id, rows) of the checks to be made first: those of the pool that are in no check anywhere."""
        fresh = [name for name, said in self._marks.items() if said == {0}]
        return [
            (
                hashlib.sha256(b"trimask draw check\0" + self.lists_hash + first.to_bytes(4, "big")).digest()[
                    :16
                ],
                fresh[first : first + MOST_ROWS],
            )
            for first in range(0, len(fresh), MOST_ROWS)
        ]

    @property
    def closing(self) -> bool:
        """Whether no row comes after these."""
        return all(rows.closing for rows in self.said.lists)

    @cached_property
    def accepted(self) -> list[bytes]:
        """The rows that every right provider has accepted."""
        vectors = [vector.marks for vector in self.said.verdicts]
        return [name for name, marks in zip(self.pool, zip(*vectors, strict=True), strict=True) if all(marks)]

    @property
    def opens(self) -> bool:
        """Whether so many rows are accepted that the coins may be shown: two blocks of them, or one at close."""
        n = self.study.rows.block_rows
        return len(self.accepted) >= (n if self.closing else 2 * n)

    def blocks(self) -> list[DrawnBlock]:
        """The blocks, in their order. While the study is open each is drawn out of 2 n rows or more, so that n or more stay
        for the next draw; at close the last takes the remainder."""
        if not self.said.coins or not self.opens:
            return []
        seed = hashlib.sha256(b"trimask draw seed\0" + self.votes_hash + b"".join(self.said.coins)).digest()
        order = sorted(self.accepted, key=lambda name: hashlib.sha256(seed + name).digest())
        n = self.study.rows.block_rows
        count = len(order) // n - (0 if self.closing else 1)
        cuts = [order[i * n : (i + 1) * n] for i in range(count)]
        if self.closing:
            cuts[-1] += order[count * n :]
        return [
            DrawnBlock(
                hashlib.sha256(b"trimask drawn block\0" + seed + i.to_bytes(4, "big")).digest()[:16],
                b"".join(sorted(rows)),
            )
            for i, rows in enumerate(cuts)
        ]
