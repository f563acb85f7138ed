"""A release service in a process of its own that is killed (SIGKILL) at a named step: the test runs and reopens it.

    python killed_collector.py STORE KEY REQUEST STEP

STORE holds the study, its factor and the ledger; KEY the collector's identity; REQUEST a serialized AskReleaseRequest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trimask_core.clock import SystemClock
from trimask_core.identity import SigningKey
from trimask_core.randomness import SystemRandom
from trimask_proto.v1 import release_pb2 as pb
from trimask_server.collector.releases import service
from trimask_server.collector.releases.budget_ledger import BudgetLedger
from trimask_server.collector.releases.factors import Factors
from trimask_server.node.workers import Workers
from trimask_server.store.data_keys import Vault
from trimask_server.store.master_keys import KeyRing
from trimask_server.store.schema import COLLECTOR
from trimask_server.store.sqlite import SqliteStore
from trimask_server.store.studies import StudyRegistry
from trimask_server.suites.rows import answers
from trimask_witnesses import WitnessedAnswers

OWNER: Any = SimpleNamespace(auth_context=lambda: {"peer_dns": [b"owner.trimask.local"]})


def die(*_: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(step: str) -> None:
    """Put the kill where the step is."""
    committed, settled = BudgetLedger.reserve, BudgetLedger.answer

    async def after_reserve(*arguments: Any) -> Any:
        await committed(*arguments)
        die()

    async def after_answer(*arguments: Any) -> Any:
        await settled(*arguments)
        die()

    points: dict[str, tuple[Any, str, Any]] = {
        "before it is reserved": (BudgetLedger, "reserve", die),
        "reserved": (BudgetLedger, "reserve", after_reserve),
        "factor read": (answers, "SecureNormals", die),
        "drawn": (service, "_answer_body", die),
        "before it has its place": (BudgetLedger, "link", die),
        "before it is witnessed": (WitnessedAnswers, "witness", die),
        "before it is kept": (BudgetLedger, "answer", die),
        "kept, before the reply": (BudgetLedger, "answer", after_answer),
    }
    owner, name, replacement = points[step]
    setattr(owner, name, replacement)


async def ask(
    store: Path, key: bytes, request: pb.AskReleaseRequest
) -> tuple[pb.AskReleaseResponse, list[str]]:
    """What a collector that has just started answers, and the states of the study's entries after it."""
    database, workers = SqliteStore(store, COLLECTOR), Workers(1)
    try:
        studies = StudyRegistry(database)
        await studies.load()
        node: Any = SimpleNamespace(
            database=database,
            vault=Vault(KeyRing.open(store.parent)),
            studies=studies,
            workers=workers,
            clock=SystemClock(),
            source=SystemRandom(),
            keys=SimpleNamespace(identity=SigningKey(key)),
            log=logging.getLogger("killed"),
            config=SimpleNamespace(owner_tls_name="owner.trimask.local"),
        )
        reply = await service.ReleaseServicer(node, lambda _: WitnessedAnswers(node)).AskRelease(
            request, OWNER
        )
        entries = await BudgetLedger(database).entries(request.study_id)
        return reply, [entry.state for entry in entries]
    finally:
        workers.close()
        database.close()


async def states(store: Path, study_id: bytes) -> tuple[list[str], str]:
    """The ledger's entries and the factor's state, as a start would find them."""
    database = SqliteStore(store, COLLECTOR)
    try:
        entries = await BudgetLedger(database).entries(study_id)
        factors = Factors(database, Vault(KeyRing.open(store.parent)))
        return [entry.state for entry in entries], (await factors.state(study_id))[0]
    finally:
        database.close()


if __name__ == "__main__":
    kill_at(sys.argv[4])
    asked = pb.AskReleaseRequest.FromString(bytes.fromhex(sys.argv[3]))
    asyncio.run(ask(Path(sys.argv[1]), bytes.fromhex(sys.argv[2]), asked))
    print("still alive")
