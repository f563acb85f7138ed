"""What a node holds in memory for attempts at blocks: one attempt a block, the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from trimask_core.clock import Clock
from trimask_core.errors import Refused, VerificationError
from trimask_core.identity import SigningKey, verify
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_proto.v1 import common_pb2

__all__ = ["AttemptTable", "attempt_bytes", "sign_worker", "worker_of"]

T = TypeVar("T")
_WORKER = "worker-address"
_KEEP_MS = 15 * 60 * 1000


def attempt_bytes(attempt: common_pb2.Attempt) -> bytes:
    """An unambiguous form of an attempt, for signatures and key derivation."""
    return attempt.study_id + attempt.block_id + attempt.number.to_bytes(4, "big") + attempt.plan_hash


def sign_worker(key: SigningKey, address: str) -> bytes:
    """A node's signature on the address of one of its workers; empty for none."""
    return key.sign(_WORKER, address.encode()) if address else b""


def worker_of(study: Study, attempt: common_pb2.Attempt, role: str) -> str:
    """The address of the worker that takes part for `role`; empty where the node's own address will do.

    The address comes from other parties. One that the node itself has not signed is refused: nobody can make this node
    dial a place of their choice.
    """
    worker = next((worker for worker in attempt.workers if worker.role == role), None)
    if worker is None:
        return ""
    try:
        verify(study.party(role).identity, _WORKER, worker.address.encode(), worker.signature, "it")
    except VerificationError:
        raise Refused(
            Reason.BAD_SIGNATURE, f"{role} has not signed the address of its worker in this attempt"
        ) from None
    return worker.address


class AttemptTable(Generic[T]):
    """State by block. A higher attempt number forgets the lower one; a lower one is refused; old ones expire.

    Every party to an attempt must name the same plan as the first that arrived: a collector may have given providers
    different plans under one block id.
    """

    def __init__(self, clock: Clock, fresh: Callable[[], T]) -> None:
        self._clock = clock
        self._fresh = fresh
        self._entries: dict[tuple[bytes, bytes], tuple[int, int, bytes, T]] = {}

    def get(self, attempt: common_pb2.Attempt) -> T:
        """The state of this attempt, new if it is newer than what is held."""
        now = self._clock.now_ms()
        for old in [key for key, (_, since, _, _) in self._entries.items() if now - since > _KEEP_MS]:
            del self._entries[old]
        key = (attempt.study_id, attempt.block_id)
        number, _, plan, state = self._entries.get(key, (0, 0, b"", None))
        if attempt.number < number:
            raise Refused(
                Reason.STALE_ATTEMPT,
                f"attempt {attempt.number} of this block was replaced by attempt {number}",
            )
        if attempt.number > number or state is None:
            state = self._fresh()
            self._entries[key] = (attempt.number, now, attempt.plan_hash, state)
        elif attempt.plan_hash != plan:
            raise Refused(Reason.PLAN_DIFFERS, "others in this attempt work on another plan of the block")
        return state

    def attempts(self) -> list[common_pb2.Attempt]:
        """The newest attempt of every block held here."""
        return [
            common_pb2.Attempt(study_id=study_id, block_id=block_id, number=number, plan_hash=plan)
            for (study_id, block_id), (number, _, plan, _) in self._entries.items()
        ]

    def forget(self, study_id: bytes, block_id: bytes) -> None:
        """Forget a block."""
        self._entries.pop((study_id, block_id), None)
