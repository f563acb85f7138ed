"""A block's plan on the wire: the ids in it, and what the collector signs."""

from __future__ import annotations

from trimask_core.counted import BOUND, plan_hash
from trimask_core.errors import Refused
from trimask_core.identity import SigningKey
from trimask_core.refusals import Reason
from trimask_core.submission import SUBMISSION_ID_BYTES

__all__ = ["plan_hash", "plan_message", "sign_bound", "split_ids"]


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
