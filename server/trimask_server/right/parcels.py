"""Opening a sealed component and signing its receipt.

Two curve operations: half of what a submission costs a right provider. `opener` decides where they are done.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass

from trimask_core.errors import VerificationError
from trimask_core.identity import SigningKey
from trimask_core.payload import PayloadForm
from trimask_core.receipt import receipt_digest_message
from trimask_core.sealing import SealingKey, component_info
from trimask_core.suites import check_payload

__all__ = ["Opened", "OpeningKeys", "Parcel", "open_parcel", "try_open"]


@dataclass(frozen=True)
class OpeningKeys:
    """A right provider's keys for the job, the newest sealing key first."""

    identity: SigningKey
    sealing: tuple[SealingKey, ...]

    def __repr__(self) -> str:
        return f"OpeningKeys({self.identity!r})"


@dataclass(frozen=True)
class Parcel:
    """A sealed component as received, the form it must have, and when it arrived."""

    study_id: bytes
    binding: bytes
    submission_id: bytes
    form: PayloadForm
    receive_time_ms: int
    sealed: bytes

    def __repr__(self) -> str:
        return f"Parcel(submission_id={self.submission_id.hex()})"


@dataclass(frozen=True)
class Opened:
    """A component that opened and has the right form: its hash, and the receipt's signature for the time it arrived."""

    digest: bytes
    signature: bytes


def open_parcel(keys: OpeningKeys, parcel: Parcel) -> Opened:
    """Open, check, hash and sign; `VerificationError` if it does not open or is not a component."""
    info = component_info(parcel.binding, parcel.form.provider, parcel.submission_id)
    check_payload(parcel.form, _open(keys.sealing, parcel.sealed, info))
    digest = hashlib.sha256(parcel.sealed).digest()
    message = receipt_digest_message(parcel.study_id, parcel.submission_id, digest, parcel.receive_time_ms)
    return Opened(digest, keys.identity.sign("receipt", message))


def _open(keys: tuple[SealingKey, ...], sealed: bytes, info: bytes) -> bytes:
    for key in keys[:-1]:
        with contextlib.suppress(VerificationError):
            return key.open(sealed, info)
    return keys[-1].open(sealed, info)


def try_open(keys: OpeningKeys, parcel: Parcel) -> Opened | str:
    """The same, but return the problem as text instead of raising."""
    try:
        return open_parcel(keys, parcel)
    except VerificationError as error:
        return str(error)
