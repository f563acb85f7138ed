"""Invitations that were used, each bound to the first submission that came with it for as long as the study is kept."""

from __future__ import annotations

from trimask_core.admission import Admission
from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.store.interface import Transaction

__all__ = ["bind", "count_used", "erase_study", "used_after"]


def bind(tx: Transaction, admission: Admission, now_ms: int) -> None:
    """Bind an invitation, known by its public key, to its submission, unless it has expired or is bound to another."""
    if admission.expires_ms <= now_ms:
        raise Refused(Reason.INVITATION_EXPIRED, "this invitation has expired; ask for another")
    key, submission_id = (admission.study_id, admission.public_key), admission.submission_id
    tx.run(
        "INSERT INTO invitations (study_id, invitation_id, submission_id) VALUES (?, ?, ?)"
        " ON CONFLICT (study_id, invitation_id) DO NOTHING",
        (*key, submission_id),
    )
    bound = tx.row("SELECT submission_id FROM invitations WHERE study_id = ? AND invitation_id = ?", key)
    if bound is None or bytes(bound[0]) != submission_id:
        raise Refused(Reason.INVITATION_USED, "this invitation was used before, for another submission")


def count_used(tx: Transaction, study_id: bytes) -> int:
    """How many came with a submission."""
    row = tx.row("SELECT count(*) FROM invitations WHERE study_id = ?", (study_id,))
    return 0 if row is None else int(row[0])


def used_after(tx: Transaction, study_id: bytes, last: bytes, limit: int) -> list[bytes]:
    """The public keys of those used, in order, from the one after `last` on."""
    rows = tx.rows(
        "SELECT invitation_id FROM invitations WHERE study_id = ? AND invitation_id > ? ORDER BY invitation_id LIMIT ?",
        (study_id, last, limit),
    )
    return [bytes(row[0]) for row in rows]


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase which invitation came with which submission, and how many were signed: the study takes none any more."""
    tx.run("DELETE FROM invitations WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM invitations_made WHERE study_id = ?", (study_id,))
    return 0
