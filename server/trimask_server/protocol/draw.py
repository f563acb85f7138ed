"""Which of the checked rows form a block: drawn by the coin that all right providers tossed for their check.

Every accepted row has a place, a hash of its check's seed and its id, that nobody knew while the check could still take
rows in. A block takes the lowest places among all accepted rows that are in no block, out of twice as many as it needs
while the study is open. Every right provider computes this for itself before it binds a plan. A row that another provider
has no longer (it was withdrawn there, say) may be left out only with that provider's signed statement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from trimask_core.counted import BOUND
from trimask_core.identity import SigningKey, verify
from trimask_core.study import Study
from trimask_proto.v1.right_batches_pb2 import RowAbsence
from trimask_server.protocol.plans import split_ids
from trimask_server.protocol.roles import right_roles

__all__ = ["absent_ids", "place", "sign_absence", "sign_bound"]

_ABSENT = "row-absent"


def place(seed: bytes, submission_id: bytes) -> bytes:
    """A row's place in the order."""
    return hashlib.sha256(b"trimask block order\0" + seed + submission_id).digest()


def sign_absence(key: SigningKey, role: str, study_id: bytes, submission_ids: bytes) -> RowAbsence:
    """A provider's signed statement that it cannot put these rows into a block."""
    signature = key.sign(_ABSENT, study_id + submission_ids)
    return RowAbsence(role=role, submission_ids=submission_ids, signature=signature)


def absent_ids(study: Study, words: Iterable[RowAbsence]) -> set[bytes]:
    """The rows that a right provider says it does not have; `VerificationError` if it did not say so."""
    found: set[bytes] = set()
    for word in words:
        if word.role not in right_roles(study):
            continue
        message = study.id + word.submission_ids
        verify(study.party(word.role).identity, _ABSENT, message, word.signature, f"the word of {word.role}")
        found.update(split_ids(word.submission_ids))
    return found


def sign_bound(key: SigningKey, plan: bytes) -> bytes:
    """A provider's signature that it has bound the plan with this hash, as drawn."""
    return key.sign(BOUND, plan)
