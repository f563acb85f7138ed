"""A block's plan on the wire: the ids in it, what the collector signs, and the roles of a study's right providers.

What a node holds in memory for attempts at blocks: one attempt a block, the newest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from trimask_core.basics.clock import Clock
from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.study.definition import Study
from trimask_core.submit.inclusion import BOUND
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1 import common_pb2

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


@dataclass
class _Entry(Generic[T]):
    number: int
    since_ms: int
    plan: bytes
    state: T
    finished: bool = False


class AttemptTable(Generic[T]):
    """State by block. A higher attempt number forgets the lower one; a lower one is refused; old ones expire.

    Every party to an attempt must name the same plan as the first that arrived: a collector may have given providers
    different plans under one block id.
    """

    def __init__(self, clock: Clock, fresh: Callable[[], T]) -> None:
        self._clock = clock
        self._fresh = fresh
        self._entries: dict[tuple[bytes, bytes], _Entry[T]] = {}

    def get(self, attempt: common_pb2.Attempt) -> T:
        """The state of this attempt, new if it is newer than what is held."""
        now = self._clock.now_ms()
        for old in [key for key, entry in self._entries.items() if now - entry.since_ms > _KEEP_MS]:
            del self._entries[old]
        key = (attempt.study_id, attempt.block_id)
        entry = self._entries.get(key)
        if entry is None or attempt.number > entry.number:
            entry = self._entries[key] = _Entry(attempt.number, now, attempt.plan_hash, self._fresh())
        elif attempt.number < entry.number:
            raise Refused(
                Reason.OUT_OF_STEP,
                f"attempt {attempt.number} of this block was replaced by attempt {entry.number}",
            )
        elif attempt.plan_hash != entry.plan:
            raise Refused(Reason.OUT_OF_STEP, "others in this attempt work on another plan of the block")
        return entry.state

    def finish(self, attempt: common_pb2.Attempt) -> None:
        """This node's share is done: it is remembered, so that late messages find it, and no longer under way."""
        entry = self._entries.get((attempt.study_id, attempt.block_id))
        if entry is not None and entry.number == attempt.number:
            entry.finished = True

    def attempts(self) -> list[common_pb2.Attempt]:
        """The attempts under way here."""
        return [
            common_pb2.Attempt(
                study_id=study_id, block_id=block_id, number=entry.number, plan_hash=entry.plan
            )
            for (study_id, block_id), entry in self._entries.items()
            if not entry.finished
        ]

    def forget(self, study_id: bytes, block_id: bytes) -> None:
        """Forget a block."""
        self._entries.pop((study_id, block_id), None)


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


def right_roles(study: Study) -> list[str]:
    """R1, R2, ... of a study."""
    return [f"R{k}" for k in range(1, len(study.right) + 1)]
