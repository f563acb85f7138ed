"""A block's plan on the wire: the ids in it, what the collector signs, and the roles of a study's right providers."""

from __future__ import annotations

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.identity import SigningKey
from trimask_core.study.definition import Study
from trimask_core.submit.inclusion import BOUND
from trimask_core.submit.submission import SUBMISSION_ID_BYTES


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
