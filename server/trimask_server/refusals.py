"""Counts of every refusal by reason, kept across restarts."""

from __future__ import annotations

from collections import Counter

from trimask_proto.v1 import common_pb2
from trimask_server.audit import AuditLog
from trimask_server.store.interface import Store, Transaction

__all__ = ["Refusals"]


class Refusals:
    """In memory, written to the store when the node asks (so that a flood of bad requests costs no disk writes)."""

    def __init__(self, stored: dict[str, int]) -> None:
        self._counts = Counter(stored)
        self._unsaved: Counter[str] = Counter()

    @classmethod
    async def load(cls, database: Store) -> Refusals:
        """The counts so far."""
        return cls(
            await database.read(
                lambda tx: {row[0]: row[1] for row in tx.rows("SELECT reason, count FROM refusals")}
            )
        )

    def count(self, reason: str) -> None:
        """One more refusal."""
        self._counts[reason] += 1
        self._unsaved[reason] += 1

    def as_dict(self) -> dict[str, int]:
        """Counts by reason."""
        return dict(sorted(self._counts.items()))

    def as_messages(self) -> list[common_pb2.RefusalCount]:
        """Counts by reason, for the wire."""
        return [
            common_pb2.RefusalCount(reason=reason, count=count) for reason, count in self.as_dict().items()
        ]

    async def save(self, database: Store, audit: AuditLog | None = None) -> None:
        """Write what changed since the last save, and one entry in the audit log for all of it."""
        if not self._unsaved:
            return
        changed, self._unsaved = self._unsaved, Counter()

        def write(tx: Transaction) -> None:
            for reason, count in changed.items():
                tx.run(
                    "INSERT INTO refusals (reason, count) VALUES (?, ?)"
                    " ON CONFLICT (reason) DO UPDATE SET count = refusals.count + excluded.count",
                    (reason, count),
                )
            if audit is not None:
                audit.append(tx, "requests_refused", counts=dict(sorted(changed.items())))

        try:
            await database.write(write)
        except Exception:
            self._unsaved.update(changed)  # to be written when the store is back
            raise
