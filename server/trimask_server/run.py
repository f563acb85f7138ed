"""The node programs: `trimask collector|right|left --config FILE`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from trimask_core.errors import ConfigError
from trimask_server.collector.deliveries import CollectionServicer
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.releases.service import ReleaseOwnerServicer, ReleaseServicer
from trimask_server.collector.services import DatasetServicer, Drivers, StudyOwnerServicer, StudyServicer
from trimask_server.config import NodeConfig, NodeRole, load_config
from trimask_server.left.masking import LeftMaskingServicer
from trimask_server.node import AddServices, Node
from trimask_server.right.masking import RightMaskingServicer
from trimask_server.right.opening import Opener, OpeningKeys
from trimask_server.right.rows import RowStore
from trimask_server.right.submissions import SubmissionServicer
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
    if node.role == "collector":
        ledger = Ledger(node.database)
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
        ]

        def drive() -> None:
            for study in node.studies.all():
                drivers.of(study)

        return Services(public, [collection.add_to, *owner, *public], drive)
    unmasking = UnmaskingServicer(node)
    if node.role == "right":
        rows = RowStore(node.database)
        if node.keys.sealing is None:
            raise ConfigError("a right provider needs a sealing key; `trimask keys` makes it")
        opener = Opener(OpeningKeys(node.keys.identity, (node.keys.sealing,)))
        node.at_stop(opener.stop)
        return Services(
            [SubmissionServicer(node, rows, opener).add_to],
            [RightMaskingServicer(node, rows, unmasking).add_to, unmasking.add_to],
            opener.start,
        )
    return Services([], [LeftMaskingServicer(node, unmasking).add_to, unmasking.add_to], _nothing)


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


def run_node(role: NodeRole, config_path: Path) -> int:
    """Run a node until it is told to stop (SIGTERM or SIGINT)."""
    config = load_config(config_path, role)

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
