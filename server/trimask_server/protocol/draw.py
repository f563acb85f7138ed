"""Which of the checked rows form a block: drawn by the coin that all right providers tossed for their check.

Every accepted row has a place, a hash of its check's seed and its id, that nobody knew while the check could still take
rows in. A block takes the lowest places among all accepted rows that are in no block, out of twice as many as it needs
while the study is open. Every right provider computes this for itself before it binds a plan. A row that another provider
has no longer (it was withdrawn there, say) may be left out only with that provider's signed statement. The statement
names the row's place: one that was signed before the row was checked, when no provider could have put it into a block,
says nothing about a plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from trimask_core.counted import BOUND
from trimask_core.errors import Refused
from trimask_core.identity import SigningKey, verify
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_proto.v1.right_batches_pb2 import RowAbsence
from trimask_server.protocol.plans import split_ids
from trimask_server.protocol.roles import right_roles

__all__ = ["PLACE_BYTES", "absent_rows", "place", "sign_absence", "sign_bound", "split_places"]

PLACE_BYTES = 32
_ABSENT = "row-absent"


def place(seed: bytes, submission_id: bytes) -> bytes:
    """A row's place in the order."""
    return hashlib.sha256(b"trimask block order\0" + seed + submission_id).digest()


def split_places(submission_ids: bytes, places: bytes) -> list[tuple[bytes, bytes]]:
    """(id, place) of rows, from their concatenations."""
    ids = split_ids(submission_ids)
    if len(places) != PLACE_BYTES * len(ids):
        raise Refused(Reason.MALFORMED, f"each submission id must come with a place of {PLACE_BYTES} bytes")
    return [(name, places[i * PLACE_BYTES : (i + 1) * PLACE_BYTES]) for i, name in enumerate(ids)]


def sign_absence(
    key: SigningKey, role: str, study_id: bytes, rows: Iterable[tuple[bytes, bytes]]
) -> RowAbsence:
    """A provider's signed statement that it cannot put these rows, (id, place) each, into a block."""
    rows = list(rows)
    ids, places = b"".join(name for name, _ in rows), b"".join(at for _, at in rows)
    signature = key.sign(_ABSENT, study_id + ids + places)
    return RowAbsence(role=role, submission_ids=ids, places=places, signature=signature)


def absent_rows(study: Study, words: Iterable[RowAbsence]) -> set[tuple[bytes, bytes]]:
    """(id, place) of rows that a right provider says it does not have; `VerificationError` if it did not say so."""
    found: set[tuple[bytes, bytes]] = set()
    for word in words:
        if word.role not in right_roles(study):
            continue
        message = study.id + word.submission_ids + word.places
        verify(study.party(word.role).identity, _ABSENT, message, word.signature, f"the word of {word.role}")
        found.update(split_places(word.submission_ids, word.places))
    return found


def sign_bound(key: SigningKey, plan: bytes) -> bytes:
    """A provider's signature that it has bound the plan with this hash, as drawn."""
    return key.sign(BOUND, plan)
