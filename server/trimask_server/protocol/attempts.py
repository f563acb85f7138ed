"""What a node holds in memory for tries at blocks: one try a block, the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from trimask_core.clock import Clock
from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_proto.v1 import common_pb2

__all__ = ["AttemptTable", "attempt_bytes", "worker_of"]

T = TypeVar("T")
_KEEP_MS = 15 * 60 * 1000


def attempt_bytes(attempt: common_pb2.Attempt) -> bytes:
    """An unambiguous form of a try, for signatures and key derivation."""
    return attempt.study_id + attempt.block_id + attempt.number.to_bytes(4, "big")


def worker_of(attempt: common_pb2.Attempt, role: str) -> str:
    """The address of the worker that takes part for `role`; empty where the node's own address will do."""
    return next((worker.address for worker in attempt.workers if worker.role == role), "")


class AttemptTable(Generic[T]):
    """State by block. A higher try number forgets the lower one; a lower one is refused; old ones expire."""

    def __init__(self, clock: Clock, fresh: Callable[[], T]) -> None:
        self._clock = clock
        self._fresh = fresh
        self._entries: dict[tuple[bytes, bytes], tuple[int, int, T]] = {}

    def get(self, attempt: common_pb2.Attempt) -> T:
        """The state of this try, new if it is newer than what is held."""
        now = self._clock.now_ms()
        for old in [key for key, (_, since, _) in self._entries.items() if now - since > _KEEP_MS]:
            del self._entries[old]
        key = (attempt.study_id, attempt.block_id)
        number, _, state = self._entries.get(key, (0, 0, None))
        if attempt.number < number:
            raise Refused(
                Reason.STALE_ATTEMPT, f"try {attempt.number} of this block was replaced by try {number}"
            )
        if attempt.number > number or state is None:
            state = self._fresh()
            self._entries[key] = (attempt.number, now, state)
        return state

    def attempts(self) -> list[common_pb2.Attempt]:
        """The newest try of every block held here."""
        return [
            common_pb2.Attempt(study_id=study_id, block_id=block_id, number=number)
            for (study_id, block_id), (number, _, _) in self._entries.items()
        ]

    def forget(self, study_id: bytes, block_id: bytes) -> None:
        """Forget a block."""
        self._entries.pop((study_id, block_id), None)
