"""Stopping well: health first, nothing new, tries handed back, what is under way finished, then the end.

A device whose submission was acknowledged has it on disk, for acknowledging comes after the commit; what is refused while
draining is sent again by the device. A try that this node was part of cannot be finished by anybody else, since masks are
never saved, so the collector is told and begins another when the node is back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trimask_core.errors import TrimaskError
from trimask_proto.v1 import common_pb2
from trimask_proto.v1.collection_pb2 import ReportFailureRequest
from trimask_proto.v1.collection_pb2_grpc import CollectionServiceStub
from trimask_server.store.interface import StoreError, Transaction

if TYPE_CHECKING:
    from trimask_server.node.node import Node

__all__ = ["CALLS_SECONDS", "drain_all", "follow_others", "wind_down"]

CALLS_SECONDS = 8.0
_TELL_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_FACT = "draining"


async def wind_down(node: Node) -> None:
    """What comes before the ports are closed. Returns when the collector was told of every try, or cannot be."""
    await node.drain()
    await node.health.set(serving=False)
    await asyncio.gather(*(_hand_back(node, attempt) for source in node.tries for attempt in source()))


async def drain_all(node: Node, *, resume: bool) -> None:
    """Drain every worker of a node, or have all take work again; when this returns they do.

    It ends with the process all the same: a worker that starts afterwards takes work.
    """
    await node.drain(resume=resume)
    if not node.worker_address:
        return
    # A word that was never written before, so that each worker sees that it is news.
    word = b"" if resume else node.source.read(16)
    await node.database.write(lambda tx: _write(tx, word))
    await node.clock.sleep(2 * _LOOK_SECONDS)


async def follow_others(node: Node) -> None:
    """Do as another worker of the node was told to."""
    seen = await node.database.read(_read)  # from before this process: not meant for it
    while True:
        await node.clock.sleep(_LOOK_SECONDS)
        try:
            word = await node.database.read(_read)
        except (TrimaskError, StoreError) as error:
            node.log.warning("cannot see yet whether this node drains: %s", error)
            continue
        if word != seen:
            seen, node.draining = word, bool(word)
            node.log.info("draining, as another worker was told" if word else "takes new work again")


def _write(tx: Transaction, word: bytes) -> None:
    tx.run(
        "INSERT INTO store_facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (_FACT, word),
    )


def _read(tx: Transaction) -> bytes:
    found = tx.row("SELECT value FROM store_facts WHERE name = ?", (_FACT,))
    return b"" if found is None else bytes(found[0])


async def _hand_back(node: Node, attempt: common_pb2.Attempt) -> None:
    try:
        stub = CollectionServiceStub(node.peers.channel(node.studies.get(attempt.study_id).collector))
        request = ReportFailureRequest(attempt=attempt, reason="draining")
        await node.peers.call(stub.ReportFailure, request, _TELL_SECONDS)
    except TrimaskError as error:  # it finds out by the boot id
        node.log.warning("could not hand try %d back: %s", attempt.number, error)
        return
    node.metrics.tries.labels("handed_back").inc()
