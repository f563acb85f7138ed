"""The node programs: `trimask collector|right|left --config FILE`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvloop

from trimask_core.errors import ConfigError
from trimask_server.collector.admission import AdmissionOwnerServicer
from trimask_server.collector.deliveries import CollectionServicer
from trimask_server.collector.driving import Drivers
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.releases.service import ReleaseOwnerServicer, ReleaseServicer
from trimask_server.collector.services import DatasetServicer, StudyOwnerServicer, StudyServicer
from trimask_server.collector.stored_factors import StoredFactors
from trimask_server.config import NodeConfig, NodeRole, load_config
from trimask_server.governance import OperatorServicer, ProposalServicer
from trimask_server.left.masking import LeftMaskingServicer
from trimask_server.node import AddServices, Node
from trimask_server.right.masking import RightMaskingServicer
from trimask_server.right.opening import Opener, OpeningKeys
from trimask_server.right.rows import RowStore
from trimask_server.right.submissions import SubmissionServicer
from trimask_server.tokens import TokenStore
from trimask_server.unmasking.service import UnmaskingServicer

__all__ = ["Services", "run_node", "services_of", "start_node"]


@dataclass(frozen=True)
class Services:
    """What a node of one role serves, and what it begins once it listens."""

    public: list[AddServices]
    peer: list[AddServices]
    begin: Callable[[], None]


def services_of(node: Node) -> Services:
    """The services of a node's role, apart from the sockets they are served on."""
    governing: list[AddServices] = [ProposalServicer(node).add_to, OperatorServicer(node).add_to]
    if node.role == "collector":
        ledger = Ledger(node.database, node.vault, node.audit)
        collection = CollectionServicer(node)
        drivers = Drivers(node, ledger, collection)
        public: list[AddServices] = [
            StudyServicer(node, ledger, drivers).add_to,
            DatasetServicer(node, ledger).add_to,
            ReleaseServicer(node).add_to,
        ]
        # The owner, known by certificate, finds everything on one connection.
        owner: list[AddServices] = [
            StudyOwnerServicer(node, drivers).add_to,
            ReleaseOwnerServicer(node).add_to,
            AdmissionOwnerServicer(node, TokenStore(node.database, node.audit)).add_to,
        ]

        def drive() -> None:
            node.spawn(
                _encrypt_old(node, StoredFactors(node.vault).encrypt_old(node.database)), "encrypting factors"
            )
            node.spawn(drivers.run(), "driving studies")

        return Services(public, [collection.add_to, *owner, *public, *governing], drive)
    unmasking = UnmaskingServicer(node)
    if node.role == "right":
        rows = RowStore(node.database, node.vault, node.audit)
        if node.keys.sealing is None:
            raise ConfigError("a right provider needs a sealing key; `trimask keys` makes it")
        opener = Opener(OpeningKeys(node.keys.identity, (node.keys.sealing,)))
        node.at_stop(opener.stop)

        def begin() -> None:
            opener.start()
            node.spawn(_encrypt_old(node, rows.encrypt_old_rows()), "encrypting rows")

        return Services(
            [SubmissionServicer(node, rows, opener).add_to],
            [RightMaskingServicer(node, rows, unmasking).add_to, unmasking.add_to, *governing],
            begin,
        )
    left = [LeftMaskingServicer(node, unmasking).add_to, unmasking.add_to]
    return Services([], [*left, *governing], _nothing)


async def _encrypt_old(node: Node, work: Coroutine[Any, Any, int]) -> None:
    """What a version without data keys left in the store."""
    if count := await work:
        node.log.info("encrypted %d stored values of an earlier version", count)


def _nothing() -> None:
    """Providers wait to be called."""


async def start_node(role: NodeRole, config: NodeConfig) -> Node:
    """A node of the given role, serving."""
    node = Node(role, config)
    await node.load()
    services = services_of(node)
    await node.serve(services.public, services.peer)
    # A crash between an erasure's commit and its scrub leaves the old pages on disk: finish it now.
    await node.database.scrub()
    services.begin()
    return node


def run_node(role: NodeRole, config_path: Path, worker_listen: str = "") -> int:
    """Run a node, or one worker of it, until it is told to stop (SIGTERM or SIGINT)."""
    config = load_config(config_path, role)
    if worker_listen:
        config = replace(config, worker_listen=worker_listen)

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        node = await start_node(role, config)
        await stop.wait()
        await node.stop()

    uvloop.run(serve())
    return 0
