"""The audit log's chain: what an entry's hash covers, and finding the first entry that does not fit.

Everything here works on an exported log with nothing but the node's public identity. Every entry is signed, not only a
batch's head, so that any stretch that ends in an entry proves itself; entries are few (refusals are gathered for a
second before they make one), so the signatures cost nothing that matters.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from trimask_core.errors import VerificationError
from trimask_core.identity import SigningKey, verify
from trimask_core.strict_json import read_json

__all__ = ["GENESIS", "AuditEntry", "AuditHead", "ChainReport", "seal_entry", "verify_chain"]

GENESIS = bytes(32)
_CONTEXT = "audit-entry"


@dataclass(frozen=True)
class AuditHead:
    """The last entry's number, hash and signature, which fix the whole log."""

    sequence: int
    hash: bytes
    signature: bytes

    def verify(self, identity: bytes) -> None:
        """Raise `VerificationError` unless the node with this identity signed it."""
        if self.sequence:
            verify(identity, _CONTEXT, self.hash, self.signature, f"the audit head {self.sequence}")

    def to_json(self) -> str:
        """One line."""
        return json.dumps(
            {"sequence": self.sequence, "hash": self.hash.hex(), "signature": self.signature.hex()}
        )

    @classmethod
    def from_json(cls, text: str) -> AuditHead:
        """Read what `to_json` wrote."""
        try:
            data = read_json(text)
            return cls(int(data["sequence"]), bytes.fromhex(data["hash"]), bytes.fromhex(data["signature"]))
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"this is not an audit head: {error}") from None


@dataclass(frozen=True)
class AuditEntry:
    """One entry. `details` is canonical JSON, kept as text so that what was hashed is what is read."""

    sequence: int
    time_ms: int
    kind: str
    details: str
    previous: bytes
    hash: bytes
    signature: bytes

    def to_json(self) -> str:
        """One line of an exported log."""
        return json.dumps(
            {
                "sequence": self.sequence,
                "time_ms": self.time_ms,
                "kind": self.kind,
                "details": self.details,
                "previous": self.previous.hex(),
                "hash": self.hash.hex(),
                "signature": base64.b64encode(self.signature).decode(),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> AuditEntry:
        """Read what `to_json` wrote."""
        try:
            data = read_json(text)
            return cls(
                int(data["sequence"]),
                int(data["time_ms"]),
                str(data["kind"]),
                str(data["details"]),
                bytes.fromhex(data["previous"]),
                bytes.fromhex(data["hash"]),
                base64.b64decode(data["signature"], validate=True),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"this is not an audit entry: {error}") from None


def seal_entry(
    key: SigningKey, previous: bytes, sequence: int, time_ms: int, kind: str, details: str
) -> AuditEntry:
    """The entry that follows `previous`, hashed and signed."""
    found = _hash(previous, sequence, time_ms, kind, details)
    return AuditEntry(sequence, time_ms, kind, details, previous, found, key.sign(_CONTEXT, found))


@dataclass(frozen=True)
class ChainReport:
    """What checking a log found. `broken_at` is the number of the first entry that does not fit, None if all do."""

    entries: int
    last: AuditHead
    broken_at: int | None = None
    why: str = ""

    @property
    def whole(self) -> bool:
        """Whether every entry fits."""
        return self.broken_at is None


def verify_chain(
    entries: Iterable[AuditEntry], identity: bytes, heads: Iterable[AuditHead] = ()
) -> ChainReport:
    """Recompute every hash and check every signature, from the first entry on; then that the log reaches `heads`.

    A head is the word of somebody who saw the log earlier (the file beside the store, the collector): a log that ends
    before it was cut short, and one that has another entry in its place was rewritten.
    """
    witnesses = {head.sequence: head for head in heads}
    count, last = 0, AuditHead(0, GENESIS, b"")
    for entry in entries:
        why = _misfit(entry, last, identity, witnesses.get(entry.sequence))
        if why:
            # A gap is reported where the log should go on, which is the entry somebody removed.
            return ChainReport(count, last, last.sequence + 1, why)
        count, last = count + 1, AuditHead(entry.sequence, entry.hash, entry.signature)
    for head in sorted(witnesses.values(), key=lambda item: item.sequence):
        if head.sequence > last.sequence:
            why = f"the log ends at entry {last.sequence}, but entry {head.sequence} was there: it was cut short"
            return ChainReport(count, last, last.sequence + 1, why)
    return ChainReport(count, last)


def _misfit(entry: AuditEntry, last: AuditHead, identity: bytes, witness: AuditHead | None) -> str:
    if entry.sequence != last.sequence + 1:
        return f"entry {last.sequence + 1} is missing or out of order: entry {entry.sequence} stands in its place"
    if entry.previous != last.hash:
        return f"entry {entry.sequence} does not follow the entry before it"
    if _hash(entry.previous, entry.sequence, entry.time_ms, entry.kind, entry.details) != entry.hash:
        return f"entry {entry.sequence} was changed: its hash differs"
    try:
        verify(identity, _CONTEXT, entry.hash, entry.signature, f"entry {entry.sequence}")
    except VerificationError as error:
        return f"{error}: the node with this identity did not write it"
    if witness is not None and witness.hash != entry.hash:
        return f"entry {entry.sequence} was rewritten: an earlier head has another hash for it"
    return ""


def _hash(previous: bytes, sequence: int, time_ms: int, kind: str, details: str) -> bytes:
    word = kind.encode()
    parts = (
        b"trimask/v1/audit\0",
        previous,
        sequence.to_bytes(8, "big"),
        time_ms.to_bytes(8, "big", signed=True),
        len(word).to_bytes(2, "big"),
        word,
        details.encode(),
    )
    return hashlib.sha256(b"".join(parts)).digest()
