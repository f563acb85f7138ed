"""The records of a device's queue on disk, and what a crash may leave of them.

One folder a kind (docs/device.md). `recover` finishes what a crash cut off, so that the rules of `trimask_client.queue` hold
from the first call on.
"""

from __future__ import annotations

from typing import Any

from trimask_client.disk import Disk
from trimask_client.record_store import Vault
from trimask_core.errors import VerificationError

__all__ = ["QueueRecords"]

STUDIES, DRAFTS, PAYLOADS, PROGRESS, RECEIPTS = "studies", "drafts", "payloads", "progress", "receipts"
WITHDRAWALS, HELD = "withdrawals", "held"
KINDS = (STUDIES, DRAFTS, PAYLOADS, PROGRESS, RECEIPTS, WITHDRAWALS, HELD)


class QueueRecords:
    """The records of one device."""

    def __init__(self, disk: Disk, vault: Vault) -> None:
        self._disk = disk
        self.vault = vault

    def save(self, kind: str, name: str, record: dict[str, Any]) -> None:
        """Write a record while nobody else writes."""
        with self._disk.lock("records", wait=True):
            self.vault.put(kind, name, record)

    def progress(self, name: str) -> dict[str, Any]:
        """How far sending a payload has got."""
        fresh: dict[str, Any] = {"attempts": 0, "next_ms": None, "why": "", "final": False, "receipts": []}
        try:
            return self.vault.get(PROGRESS, name) or fresh
        except VerificationError:
            return fresh  # it records only how far sending got, which sending again finds out

    def field(self, kind: str, name: str, key: str) -> str | None:
        """One field of a record; None where there is none, or it cannot be read."""
        try:
            record = self.vault.get(kind, name)
        except VerificationError:
            return None
        return None if record is None else record.get(key)

    def study(self, name: str) -> dict[str, Any]:
        """What is kept of a study; nothing where it is not joined, or cannot be read."""
        try:
            return self.vault.get(STUDIES, name) or {}
        except VerificationError:
            return {}

    def sealed_drafts(self) -> set[str]:
        """The drafts that a payload was made of which was not discarded."""
        found = {
            self.field(kind, name, "draft_id")
            for kind in (PAYLOADS, RECEIPTS, WITHDRAWALS)
            for name in self.vault.names(kind)
        }
        return {draft_id for draft_id in found if draft_id}

    def release_draft(self, name: str) -> None:
        """Delete the draft of a payload: a provider has accepted, or somebody else keeps the device from now on."""
        if name in self.vault.names(HELD):
            with self._disk.lock("records", wait=True):
                self.vault.delete(HELD, name)

    def keep_receipt(self, name: str, record: dict[str, Any]) -> None:
        """Write the receipt of a payload, then delete the payload."""
        with self._disk.lock("records", wait=True):
            self.vault.put(RECEIPTS, name, record)
            self.vault.delete(PAYLOADS, name)
            self.vault.delete(PROGRESS, name)

    def recover(self) -> None:
        """Finish what a crash cut off: half-written files, payloads that have their receipt, drafts that were sealed."""
        with self._disk.lock("records", wait=True):
            for kind in KINDS:
                self.vault.tidy(kind)
            for name in self.vault.names(WITHDRAWALS):
                for kind in (PAYLOADS, PROGRESS, RECEIPTS, HELD):
                    if name in self.vault.names(kind):
                        self.vault.delete(kind, name)
            for name in set(self.vault.names(RECEIPTS)).intersection(self.vault.names(PAYLOADS)):
                self.vault.delete(PAYLOADS, name)
            for name in set(self.vault.names(PROGRESS)).difference(self.vault.names(PAYLOADS)):
                self.vault.delete(PROGRESS, name)
            sealed = self.sealed_drafts() if self.vault.names(DRAFTS) else set()
            for name in self.vault.names(DRAFTS):
                if self.field(DRAFTS, name, "draft_id") in sealed:
                    self.vault.delete(DRAFTS, name)
            for name in self.vault.names(HELD):
                # Without its payload it was not sealed, or is taken up again: either way the study's draft has the answers.
                if name not in self.vault.names(PAYLOADS) or self.progress(name)["receipts"]:
                    self.vault.delete(HELD, name)
