"""The node programs: `trimask collector|right|left --config FILE`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import uvloop
from aiohttp.web import RouteDef

from trimask_core.errors import ConfigError
from trimask_server.access.governance import OperatorServicer, ProposalServicer
from trimask_server.node.config import NodeConfig, NodeRole, load_config
from trimask_server.node.node import AddServices, Node
from trimask_server.operations.garbage import collect_forever
from trimask_server.operations.signals import serve_until_told
from trimask_server.operations.tracing import configure_tracing
from trimask_server.right.opener import Opener
from trimask_server.right.parcels import OpeningKeys
from trimask_server.right.rows import RowStore
from trimask_server.right.submissions import SubmissionServicer
from trimask_server.right.tables import ERASERS as PROVIDER_ERASERS
from trimask_server.store.erasure import Erasers
from trimask_server.suites.rows.left_masking import LeftMaskingServicer
from trimask_server.suites.rows.right_masking import RightMaskingServicer
from trimask_server.suites.rows.unmasking import UnmaskingServicer

__all__ = ["Services", "erasers_of", "run_node", "services_of", "start_node"]


@dataclass(frozen=True)
class Services:
    """What a node of one role serves, and what it begins once it listens."""

    public: list[AddServices]
    peer: list[AddServices]
    begin: Callable[[], None]
    pages: list[RouteDef] = field(default_factory=list)


def services_of(node: Node) -> Services:
    """The services of a node's role, apart from the sockets they are served on."""
    governing: list[AddServices] = [ProposalServicer(node).add_to, OperatorServicer(node).add_to]
    if node.role == "collector":
        return _collector_services(node, governing)
    unmasking = UnmaskingServicer(node)
    if node.role == "right":
        return _right_services(node, unmasking, governing)
    left = [LeftMaskingServicer(node, unmasking).add_to, unmasking.add_to]
    return Services([], [*left, *governing], _nothing)


def _collector_services(node: Node, governing: list[AddServices]) -> Services:
    # Here and not above: the statistics behind private releases take a second to import, and providers have no use for them.
    from trimask_server.access.tokens import TokenStore
    from trimask_server.collector.admission import AdmissionOwnerServicer
    from trimask_server.collector.ledger import Ledger
    from trimask_server.collector.releases.service import ReleaseOwnerServicer, ReleaseServicer
    from trimask_server.collector.services import DatasetServicer, StudyOwnerServicer, StudyServicer
    from trimask_server.collector.status_page import StatusPages
    from trimask_server.collector.study_leases import Drivers
    from trimask_server.suites.rows.deliveries import CollectionServicer

    ledger = Ledger(node.database, node.vault, node.audit)
    collection = CollectionServicer(node)
    drivers = Drivers(node, ledger, collection)
    studies = StudyServicer(node, ledger, drivers)
    public: list[AddServices] = [
        studies.add_to,
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
        node.spawn(drivers.run(), "driving studies")

    pages = StatusPages(node, ledger, studies).routes()
    return Services(public, [collection.add_to, *owner, *public, *governing], drive, pages)


def _right_services(node: Node, unmasking: UnmaskingServicer, governing: list[AddServices]) -> Services:
    rows = RowStore(node.database, node.vault, node.audit)
    if node.keys.sealing is None:
        raise ConfigError("a right provider needs a sealing key; `trimask keys` makes it")
    opener = Opener(OpeningKeys(node.keys.identity, (node.keys.sealing,)))
    node.at_stop(opener.stop)

    return Services(
        [SubmissionServicer(node, rows, opener).add_to],
        [RightMaskingServicer(node, rows, unmasking).add_to, unmasking.add_to, *governing],
        opener.start,
    )


def erasers_of(role: NodeRole) -> Erasers:
    """Who erases a study in the tables of a role."""
    if role == "collector":
        from trimask_server.collector import tables  # a provider has no use for what comes with it

        return tables.ERASERS
    return PROVIDER_ERASERS


def _nothing() -> None:
    """Providers wait to be called."""


async def start_node(role: NodeRole, config: NodeConfig) -> Node:
    """A node of the given role, serving."""
    node = Node(role, config)
    try:
        await node.load()
        services = services_of(node)
        await node.serve(services.public, services.peer, services.pages)
        # A crash between an erasure's commit and its scrub leaves the old pages on disk: finish it now.
        await node.database.scrub()
        services.begin()
        node.spawn(collect_forever(node, erasers_of(role)), "collecting garbage")
    except BaseException:
        await node.stop(0)  # a port that was taken, say: leave nothing half started
        raise
    return node


def run_node(role: NodeRole, config_path: Path, worker_listen: str = "") -> int:
    """Run a node, or one worker of it, until it is told to stop (SIGTERM or SIGINT)."""
    config = load_config(config_path, role)
    if worker_listen:
        config = replace(config, worker_listen=worker_listen)
    configure_tracing(config.name, role)
    uvloop.run(serve_until_told(lambda: start_node(role, config)))
    return 0
