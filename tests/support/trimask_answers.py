"""A collector's private answers without the rest of a cluster: the real service, ledger and questions over a real store,
and in place of right providers numbers that depend on the question alone, as theirs do."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stored_rows import insert
from trimask_core.basics.clock import SystemClock
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_proto.v1 import moments_pb2
from trimask_server.collector.releases import BudgetLedger, ReleaseServicer
from trimask_server.store.database import COLLECTOR
from trimask_server.store.release_table import answers_state
from trimask_server.store.sqlite import SqliteStore
from trimask_server.store.studies import StudyRegistry
from trimask_server.suites.moments import answers
from trimask_server.suites.moments.publisher import Committed, Gathered

__all__ = ["OWNER", "ROWS", "LoneCollector", "stand_in"]

ROWS = 48
OWNER: Any = SimpleNamespace(auth_context=lambda: {"peer_dns": [b"owner.trimask.local"]})


async def _commit(
    _node: Any, study: Study, number: int, batches: Sequence[bytes], question: bytes, _: float
) -> Committed:
    asked = moments_pb2.AskedTotals(
        study_id=study.id, release_number=number, batch_ids=b"".join(batches), question=question
    )
    return Committed(asked, [])


async def _deliver(_node: Any, study: Study, committed: Committed, _: float) -> Gathered:
    digest = hashlib.sha256(study.id + committed.totals.question).digest()
    return Gathered([int.from_bytes(digest[:4], "big")], bytes(32), ROWS, [], [])


async def _erase_totals(*_: Any) -> None:
    """Nobody has any."""


def stand_in(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Have questions answered here. `put` is `setattr`, or a monkeypatch's."""
    for name, stands_in in (("commit", _commit), ("deliver", _deliver), ("erase_totals", _erase_totals)):
        put(answers, name, stands_in)


class LoneCollector:
    """Over the store at `path`. A new `service` knows only what is on disk."""

    def __init__(self, path: Path, key: SigningKey) -> None:
        self.database = SqliteStore(path, COLLECTOR)
        self.registry = StudyRegistry(self.database)
        self.key = key

    async def open(self, signed: SignedStudy, state: str = "closed", release: str = "answerable") -> None:
        """Register a study with one release in some state."""
        await self.registry.register(signed, 1)
        await self.registry.set_state(signed.study.id, state)
        row = {
            "study_id": signed.study.id,
            "release_number": 1,
            "row_count": ROWS,
            "block_count": 1,
            "state": release,
        }
        await self.database.write(lambda tx: insert(tx, [("releases", row)]))

    def service(self) -> ReleaseServicer:
        """As after a start."""
        node: Any = SimpleNamespace(
            database=self.database,
            studies=self.registry,
            clock=SystemClock(),
            keys=SimpleNamespace(identity=self.key),
            log=logging.getLogger("lone collector"),
            config=SimpleNamespace(owner_tls_name="owner.trimask.local"),
        )
        return ReleaseServicer(node, lambda _: answers.MomentsAnswers(node))

    async def states(self, study_id: bytes) -> tuple[list[str], str]:
        """Of the ledger's entries, and of the release they are about."""
        entries = await BudgetLedger(self.database).entries(study_id)
        found = await self.database.read(lambda tx: answers_state(tx, study_id))
        return [entry.state for entry in entries], found[0]
