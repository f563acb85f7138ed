"""What a node holds in memory for tries at blocks: one try a block, the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from trimask_core.clock import Clock
from trimask_core.errors import Refused
from trimask_proto.v1 import common_pb2

__all__ = ["AttemptTable", "attempt_bytes"]

T = TypeVar("T")
_KEEP_MS = 15 * 60 * 1000


def attempt_bytes(attempt: common_pb2.Attempt) -> bytes:
    """An unambiguous form of a try, for signatures and key derivation."""
    return attempt.study_id + attempt.block_id + attempt.number.to_bytes(4, "big")


class AttemptTable(Generic[T]):
    """State by block. A higher try number forgets the lower one; a lower one is refused; old ones expire."""

    def __init__(self, clock: Clock, fresh: Callable[[], T]) -> None:
        self._clock = clock
        self._fresh = fresh
        self._entries: dict[bytes, tuple[int, int, T]] = {}

    def get(self, attempt: common_pb2.Attempt) -> T:
        """The state of this try, new if it is newer than what is held."""
        now = self._clock.now_ms()
        for block_id in [b for b, (_, since, _) in self._entries.items() if now - since > _KEEP_MS]:
            del self._entries[block_id]
        number, _, state = self._entries.get(attempt.block_id, (0, 0, None))
        if attempt.number < number:
            raise Refused("stale_attempt", f"try {attempt.number} of this block was replaced by try {number}")
        if attempt.number > number or state is None:
            state = self._fresh()
            self._entries[attempt.block_id] = (attempt.number, now, state)
        return state

    def current(self, attempt: common_pb2.Attempt) -> bool:
        """Whether this try is still the newest one held."""
        held = self._entries.get(attempt.block_id)
        return held is not None and held[0] == attempt.number

    def drop(self, attempt: common_pb2.Attempt, replacement: T | None = None) -> None:
        """Forget a finished try's contents; its number stays, so that it cannot begin again."""
        held = self._entries.get(attempt.block_id)
        if held is not None and held[0] == attempt.number:
            self._entries[attempt.block_id] = (held[0], held[1], replacement or self._fresh())

    def forget(self, block_id: bytes) -> None:
        """Forget a block altogether."""
        self._entries.pop(block_id, None)
