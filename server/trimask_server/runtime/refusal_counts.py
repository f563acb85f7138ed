"""Counts of every refusal by reason, kept across restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from trimask_proto.v1 import common_pb2
from trimask_server.runtime.audit import AuditLog
from trimask_server.store.interface import Store, Transaction

_ID_BYTES = 32
_MOST_STUDIES = 1000


class Refusals:
    """In memory, written to the store when the node asks (so that a flood of bad requests costs no disk writes)."""

    def __init__(self, stored: dict[str, int]) -> None:
        self._stored = Counter(stored)  # of all workers of the node
        self._unsaved: Counter[str] = Counter()
        self._saving: Counter[str] = Counter()
        self._here: Counter[str] = Counter()
        self._studies: dict[bytes, Counter[str]] = {}

    @classmethod
    async def load(cls, database: Store) -> Refusals:
        """The counts so far."""
        return cls(await database.read(_read))

    async def refresh(self, database: Store) -> None:
        """Read again what all workers of the node have saved. Counts only grow: a save may overtake the read."""
        self._stored |= Counter(await database.read(_read))

    def count(self, reason: str, study_id: bytes = b"") -> None:
        """One more refusal, or one more of what is counted beside them (`trimask_core.basics.refusals`)."""
        text = str(reason)  # as plain text: this goes into the store
        self._unsaved[text] += 1
        self._here[text] += 1
        # Bounded: callers that name unknown studies must not fill the memory.
        if len(study_id) == _ID_BYTES and (study_id in self._studies or len(self._studies) < _MOST_STUDIES):
            self._studies.setdefault(study_id, Counter())[text] += 1

    def of_study(self, study_id: bytes) -> list[common_pb2.RefusalCount]:
        """A study's own, by reason, since this process began."""
        found = self._studies.get(study_id, Counter())
        return [
            common_pb2.RefusalCount(reason=reason, count=count) for reason, count in sorted(found.items())
        ]

    def as_dict(self) -> dict[str, int]:
        """Counts by reason: the node's, whatever its workers have saved."""
        return dict(sorted((self._stored + self._saving + self._unsaved).items()))

    def in_this_process(self) -> dict[str, int]:
        """Counts by reason since this process began."""
        return dict(sorted(self._here.items()))

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
        self._saving += changed

        def write(tx: Transaction) -> dict[str, int]:
            add_counts(tx, changed)
            if audit is not None:
                audit.append(tx, "requests_refused", counts=dict(sorted(changed.items())))
            return _read(tx)

        try:
            self._stored = Counter(await database.write(write))
        except Exception:
            self._unsaved += changed  # to be written when the store is back
            raise
        finally:
            self._saving -= changed


def add_counts(tx: Transaction, counts: Mapping[str, int]) -> None:
    """Count in the store itself, where a count belongs to what is written with it; `Refusals.refresh` reads it."""
    for reason, count in counts.items():
        tx.run(
            "INSERT INTO refusals (reason, count) VALUES (?, ?)"
            " ON CONFLICT (reason) DO UPDATE SET count = refusals.count + excluded.count",
            (reason, count),
        )


def _read(tx: Transaction) -> dict[str, int]:
    return {row[0]: row[1] for row in tx.rows("SELECT reason, count FROM refusals")}
