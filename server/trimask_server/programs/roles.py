"""The node programs, `trimask collector|right|left --config FILE`: each role assembled from its packages and the suites.

A node has services, state and background tasks. `SUITES` has every suite there is, by name. SIGTERM and SIGINT stop the
process gracefully, a second one at once; SIGHUP reloads keys.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError
from trimask_server.access.governance import (
    Count,
    NodeServicer,
    OperatorServicer,
    Proposals,
    ProposalServicer,
)
from trimask_server.access.permissions import Gate
from trimask_server.programs.node_lock import claim_node
from trimask_server.right.batches import IncompleteRows, RightBatchServicer
from trimask_server.right.invitations import InvitationServicer
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing, SealingRing, load_ring
from trimask_server.right.submissions import SubmissionServicer
from trimask_server.runtime.context import NodeContext, make_context
from trimask_server.runtime.host import Host, Services, collect_forever
from trimask_server.runtime.key_files import look_at_keys
from trimask_server.runtime.logs import configure_tracing, make_handler
from trimask_server.settings.config import NodeConfig, NodeRole, load_config
from trimask_server.store.interface import Erasers, StoreError
from trimask_server.suites.interface import Suite
from trimask_server.suites.moments.suite import MomentsSuite
from trimask_server.suites.rows.suite import RowsSuite

if TYPE_CHECKING:
    from aiohttp.web import RouteDef

    from trimask_core.study.definition import Study
    from trimask_server.collector.releases import Answers


SUITES: dict[str, Suite] = {suite.name: suite for suite in (RowsSuite(), MomentsSuite())}


@dataclass(frozen=True)
class Node:
    """A node put together. A right provider has a ring of sealing keys."""

    host: Host
    services: Services
    key_ring: CurrentKeyRing | None = None

    @property
    def context(self) -> NodeContext:
        """What its services share."""
        return self.host.context


def assemble(host: Host, ring: SealingRing | None = None) -> Node:
    """A node of the role its context says. `ring` is used instead of the sealing keys in its folder."""
    if host.context.role == "collector":
        return _collector(host)
    return _right(host, ring) if host.context.role == "right" else _left(host)


def _shared(
    context: NodeContext,
    proposals: Proposals,
    running: Callable[[], int],
    *counts: Count,
) -> list[object]:
    """What nodes of every role serve on their peer port."""
    return [
        ProposalServicer(context, proposals),
        OperatorServicer(context, proposals, running),
        NodeServicer(context, proposals, *counts),
    ]


def _left(host: Host) -> Node:
    context = host.context
    parts = [suite.left(host) for suite in SUITES.values()]
    shared = _shared(
        context,
        Proposals(context.database, context.audit),
        lambda: sum(part.running() for part in parts),
    )
    services = Services(
        gate=partial(Gate, context),
        public=[],
        peer=[*(add for part in parts for add in part.services), *shared],
    )
    return Node(host, services)


def _right(host: Host, ring: SealingRing | None) -> Node:
    context = host.context
    if ring is None:
        if context.key_folder is None:
            raise ConfigError("a right provider needs a sealing key; `trimask keys` makes it")
        ring = load_ring(context.key_folder)
    key_ring = CurrentKeyRing(context, ring, context.key_folder)
    host.on_reload(key_ring.reload)
    rows = RowStore(context.database, context.vault, context.audit)
    suites = {name: suite.right(host, rows, key_ring) for name, suite in SUITES.items()}
    classical, hybrid = (ring.newest(kind, context.clock.now_ms()) for kind in ("classical", "hybrid"))
    invitations = InvitationServicer(context)

    async def after_collection(now_ms: int) -> None:
        await key_ring.destroy_spent(now_ms)
        await IncompleteRows(context).sweep(now_ms)

    shared = _shared(
        context,
        Proposals(context.database, context.audit),
        lambda: sum(part.running() for part in suites.values()),
        invitations.used,
        rows.sent_together,
    )
    services = Services(
        gate=partial(Gate, context),
        public=[SubmissionServicer(context, key_ring, rows)],
        peer=[
            RightBatchServicer(context, rows, suites),
            invitations,
            *(add for part in suites.values() for add in part.services),
            *shared,
        ],
        after_collection=after_collection,
        key_names={
            "sealing_key": classical.hex(),
            "sealing_key_hybrid_sha256": hashlib.sha256(hybrid).hexdigest() if hybrid else "",
        },
    )
    return Node(host, services, key_ring)


def _collector(host: Host) -> Node:
    # Imported here and not above: providers do not need these.
    from trimask_server.access.tokens import TokenStore
    from trimask_server.collector.ledger import Ledger
    from trimask_server.collector.provider_status import ProviderStatus
    from trimask_server.collector.publication import AdmissionOwnerServicer, Catalogue, DatasetServicer
    from trimask_server.collector.releases import ReleaseOwnerServicer, ReleaseServicer
    from trimask_server.collector.services import Clerk, StudyOwnerServicer, StudyServicer
    from trimask_server.collector.study_leases import Drivers

    context = host.context
    proposals = Proposals(context.database, context.audit)
    tokens = TokenStore(context.database, context.audit)
    ledger, catalogue = Ledger(context.database, context.audit), Catalogue(context.database)
    provider_status = ProviderStatus(context)
    suites = {name: suite.collector(host, provider_status) for name, suite in SUITES.items()}
    drivers = Drivers(context, host.spawn, {name: suite.driver for name, suite in suites.items()})
    studies = StudyServicer(context, ledger, catalogue, provider_status)

    def answers(study: Study) -> Answers:
        found = suites[study.suite.name].answers
        assert found is not None  # noqa: S101 - only a study with a budget is asked, and only of a suite that has answers
        return found

    public: list[object] = [
        studies,
        DatasetServicer(context, catalogue),
        ReleaseServicer(context, answers),
    ]
    # The owner, known by certificate, finds everything on one connection.
    owned = StudyOwnerServicer(context, proposals, drivers, ledger)
    owner: list[object] = [
        owned,
        ReleaseOwnerServicer(context, answers),
        AdmissionOwnerServicer(context, tokens, ledger.is_scheduled),
    ]
    clerk = Clerk(context, ledger, owned.open)

    def begin() -> None:
        host.spawn(drivers.run(), "driving studies")
        host.spawn(clerk.run(), "the console's clerk")

    def pages() -> list[RouteDef]:
        from trimask_server.collector.console import Console
        from trimask_server.collector.status_page import StatusPages

        shown = StatusPages(context, catalogue, studies)
        return [*shown.routes(), *Console(context, shown, catalogue, tokens).routes()]

    services = Services(
        gate=partial(Gate, context, tokens),
        public=public,
        peer=[
            *(add for part in suites.values() for add in part.services),
            *owner,
            *public,
            *_shared(context, proposals, lambda: 0),
        ],
        begin=begin,
        pages=pages,
    )
    return Node(host, services)


def erasers_of(role: NodeRole) -> Erasers:
    """Who erases a study in the tables of a role: the role itself, and each suite."""
    if role == "collector":
        from trimask_server.collector.services import ERASERS  # a provider does not need what this imports
    else:
        from trimask_server.right.submissions import ERASERS

    every = [ERASERS, *(suite.erasers(role) for suite in SUITES.values())]
    return Erasers(
        tuple(erase for owners in every for erase in owners.erase),
        tuple(needed for owners in every for needed in owners.still_needed),
    )


CALLS_SECONDS = 8.0
GRACE_SECONDS = 15.0
EXIT_GRACE_EXCEEDED = 1


async def serve_until_signal(start: Callable[[], Awaitable[Host]]) -> None:
    """Start a node and run it until a signal; then drain and stop within `GRACE_SECONDS`."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop(number: int) -> None:
        if stopping.is_set():
            # Nothing is lost: what was acknowledged is on disk, and what was not is sent again.
            os._exit(128 + number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    node: Host | None = None

    def reload() -> None:
        if node is not None:  # while it starts it reads its keys anyway, and must not be ended by this signal
            node.reload_keys()

    loop.add_signal_handler(signal.SIGHUP, reload)
    node = await start()
    _freeze_garbage_collector()
    await stopping.wait()
    # In a separate thread, so that it ends the process even if the event loop is blocked (by a long matrix product).
    watchdog = threading.Timer(GRACE_SECONDS - 0.5, _give_up, (node,))
    watchdog.daemon = True
    watchdog.start()
    await node.wind_down()
    await node.stop(CALLS_SECONDS)
    watchdog.cancel()


def _freeze_garbage_collector() -> None:
    """Exempt what lives as long as the process from garbage collection, which took a tenth of a busy node's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _give_up(node: Host) -> None:
    node.log.error("not drained after %.0f seconds; stopping all the same", GRACE_SECONDS)
    os._exit(EXIT_GRACE_EXCEEDED)


async def start_node(role: NodeRole, config: NodeConfig) -> Node:
    """A node of the given role, serving. A start that fails leaves nothing in the audit log."""
    claim = claim_node(role, config)
    try:
        warnings = look_at_keys(config.keys, SystemClock().now_ms())
        host = Host(make_context(role, config))
    except BaseException:
        claim.release()
        raise
    host.at_end(claim.release)
    try:
        await host.load()
        node = assemble(host)
        await host.serve(node.services)
        for warning in warnings:
            host.log.warning("%s", warning)
        # A crash between an erasure's commit and its scrub leaves the old pages on disk: finish it now.
        await host.context.database.scrub()
        node.services.begin()
        rounds = collect_forever(host.context, erasers_of(role), node.services.after_collection)
        host.spawn(rounds, "collecting garbage")
    except BaseException:
        await host.stop(0)  # a port that was taken, say: leave nothing half started
        raise
    return node


def run_node(role: NodeRole, config_path: Path, own: Mapping[str, Any]) -> int:
    """Run a node, or one worker of it with settings of its `own`, until SIGTERM or SIGINT."""
    config = replace(load_config(config_path, role), **own)
    configure_tracing(config.name, role)
    logging.basicConfig(
        handlers=[make_handler(config.log_format)]
    )  # what libraries warn of is a line like any other

    async def start() -> Host:
        try:
            return (await start_node(role, config)).host
        except StoreError as error:
            where = "[store] url of node.toml" if config.store.url else str(config.data)
            raise ConfigError(
                f"cannot write the store of {config.name} in {where}: {error}; `trimask node doctor` says more"
            ) from None

    uvloop.run(serve_until_signal(start))
    return 0
