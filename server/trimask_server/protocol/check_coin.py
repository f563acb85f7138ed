"""The coin that right providers toss to check rows: everybody commits, then everybody reveals.

Nobody knows the seed while rows can still come into the check: each provider binds the rows before it commits, and shows
its coin only to a party that shows the commitments of all. One provider that follows the protocol is enough for a seed that
nobody chose. A provider's coin is a fixed function of the check, so that a store restored from a backup has no second one.
"""

from __future__ import annotations

import hashlib

from trimask_core.errors import Refused, VerificationError
from trimask_core.identity import SigningKey, verify
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_core.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1.row_check_pb2 import CheckCommitment, RowCheck
from trimask_server.protocol.plans import split_ids
from trimask_server.protocol.roles import right_roles

__all__ = [
    "MOST_ROWS",
    "check_ids",
    "checked_ids",
    "coin_of",
    "commit",
    "commitments_hash",
    "seed_of",
]

MOST_ROWS = 1024
_COIN, _COMMITMENT = "row-check-coin", "row-check-commitment"


def check_ids(check: RowCheck) -> list[bytes]:
    """The ids of a check."""
    ids = split_ids(check.submission_ids)
    if (
        len(check.check_id) != SUBMISSION_ID_BYTES
        or ids != sorted(set(ids))
        or not 1 <= len(ids) <= MOST_ROWS
    ):
        raise Refused(
            Reason.MALFORMED, f"a check has a 16-byte id and 1 to {MOST_ROWS} sorted, distinct submission ids"
        )
    return ids


def _name(check: RowCheck) -> bytes:
    return check.study_id + check.check_id + hashlib.sha256(check.submission_ids).digest()


def coin_of(key: SigningKey, check: RowCheck) -> bytes:
    """This provider's coin. (An Ed25519 signature is a fixed function of key and message; this one is shown to nobody.)"""
    return hashlib.sha256(key.sign(_COIN, _name(check))).digest()


def _message(check: RowCheck, role: str, held: bytes, coin_hash: bytes) -> bytes:
    return _name(check) + role.encode() + b"\0" + held + coin_hash


def commit(key: SigningKey, role: str, check: RowCheck, held: bytes) -> CheckCommitment:
    """This provider's signed commitment: which rows it has bound, and the hash of its coin."""
    digest = hashlib.sha256(coin_of(key, check)).digest()
    signature = key.sign(_COMMITMENT, _message(check, role, held, digest))
    return CheckCommitment(held=held, coin_hash=digest, signature=signature)


def checked_ids(study: Study, check: RowCheck) -> list[bytes]:
    """The rows that every right provider has bound; refused unless all of them have signed."""
    ids, roles = check_ids(check), right_roles(study)
    if len(check.commitments) != len(roles):
        raise Refused(Reason.MALFORMED, f"a check needs the commitments of all {len(roles)} right providers")
    for role, said in zip(roles, check.commitments, strict=True):
        if len(said.held) != len(ids) or set(said.held) - {0, 1} or len(said.coin_hash) != 32:
            raise Refused(Reason.MALFORMED, f"the commitment of {role} does not fit the check")
        message = _message(check, role, said.held, said.coin_hash)
        verify(study.party(role).identity, _COMMITMENT, message, said.signature, f"the commitment of {role}")
    return [name for i, name in enumerate(ids) if all(said.held[i] for said in check.commitments)]


def commitments_hash(check: RowCheck) -> bytes:
    """Names what all have committed to."""
    said = b"".join(said.held + said.coin_hash for said in check.commitments)
    return hashlib.sha256(b"trimask row check\0" + _name(check) + said).digest()


def seed_of(check: RowCheck) -> bytes:
    """The seed the coins give, if they are those committed to."""
    if len(check.coins) != len(check.commitments):
        raise Refused(Reason.MALFORMED, "a check needs a coin for each commitment")
    for number, (coin, said) in enumerate(zip(check.coins, check.commitments, strict=True), 1):
        if hashlib.sha256(coin).digest() != said.coin_hash:
            raise VerificationError(f"the coin of R{number} is not the one it committed to")
    return hashlib.sha256(
        b"trimask row check seed\0" + commitments_hash(check) + b"".join(check.coins)
    ).digest()
