"""A release service in a process of its own that is killed (SIGKILL) at a named step: the test runs and reopens it.

    python killed_collector.py STORE KEY REQUEST STEP

STORE holds the study and the ledger; KEY the collector's identity; REQUEST a serialized AskReleaseRequest.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from trimask_answers import OWNER, LoneCollector, stand_in
from trimask_core.crypto.keys import SigningKey
from trimask_proto.v1 import release_pb2 as pb
from trimask_server.collector import releases
from trimask_server.collector.releases import BudgetLedger
from trimask_server.suites.moments import answers


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
        "committed": (answers, "deliver", die),
        "drawn": (releases, "_answer_body", die),
        "before it is kept": (BudgetLedger, "answer", die),
        "kept, before the totals are erased": (answers, "erase_totals", die),
        "kept, before the reply": (BudgetLedger, "answer", after_answer),
    }
    owner, name, replacement = points[step]
    setattr(owner, name, replacement)


async def ask(
    store: Path, key: bytes, request: pb.AskReleaseRequest
) -> tuple[pb.AskReleaseResponse, list[str]]:
    """What a collector that has just started answers, and the states of the study's entries after it."""
    collector = LoneCollector(store, SigningKey(key))
    try:
        await collector.registry.load()
        reply = await collector.service().AskRelease(request, OWNER)
        return reply, (await collector.states(request.study_id))[0]
    finally:
        collector.database.close()


if __name__ == "__main__":
    stand_in()
    kill_at(sys.argv[4])
    asked = pb.AskReleaseRequest.FromString(bytes.fromhex(sys.argv[3]))
    asyncio.run(ask(Path(sys.argv[1]), bytes.fromhex(sys.argv[2]), asked))
    print("still alive")
