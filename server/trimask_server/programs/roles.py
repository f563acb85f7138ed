"""Assembles a node of each role from its packages: its services, its state and its background tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from trimask_core.errors import ConfigError
from trimask_server.access.gate import Gate
from trimask_server.access.governance import OperatorServicer, ProposalServicer
from trimask_server.access.node_service import NodeServicer, UsedInvitations
from trimask_server.access.proposals import Proposals
from trimask_server.node.context import NodeContext
from trimask_server.node.host import Host, Services
from trimask_server.node.ports import AddServices
from trimask_server.right.batches import RightBatchServicer
from trimask_server.right.current_key_ring import CurrentKeyRing
from trimask_server.right.incomplete import IncompleteRows
from trimask_server.right.invitation_service import InvitationServicer
from trimask_server.right.opener import Opener
from trimask_server.right.parcels import OpeningKeys
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import SealingRing, load_ring
from trimask_server.right.submissions import SubmissionServicer
from trimask_server.settings.config import NodeRole
from trimask_server.store.erasure import Erasers
from trimask_server.suites.interface import ByStudy
from trimask_server.suites.registry import SUITES

if TYPE_CHECKING:
    from aiohttp.web import RouteDef

    from trimask_core.study import Study
    from trimask_server.collector.releases.answering import Answers

__all__ = ["Node", "assemble", "erasers_of"]


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
    used: UsedInvitations | None = None,
) -> list[AddServices]:
    """What nodes of every role serve on their peer port."""
    return [
        ProposalServicer(context, proposals).add_to,
        OperatorServicer(context, proposals, running).add_to,
        NodeServicer(context, proposals, used).add_to,
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
    suites = ByStudy({name: suite.right(host, rows, key_ring) for name, suite in SUITES.items()})
    newest = ring.keys[0].key
    invitations = InvitationServicer(context)
    opener = Opener(OpeningKeys(context.keys.identity, (newest,)))
    host.at_stop(opener.stop)

    async def after_collection(now_ms: int) -> None:
        await key_ring.destroy_spent(now_ms)
        await IncompleteRows(context).sweep(now_ms)

    shared = _shared(
        context,
        Proposals(context.database, context.audit),
        lambda: sum(part.running() for part in suites.all),
        invitations.used,
    )
    services = Services(
        gate=partial(Gate, context),
        public=[SubmissionServicer(context, key_ring, rows, opener).add_to],
        peer=[
            RightBatchServicer(context, rows, suites.of).add_to,
            invitations.add_to,
            *(add for part in suites.all for add in part.services),
            *shared,
        ],
        begin=opener.start,
        after_collection=after_collection,
        key_names={"sealing_key": newest.public.hex()},
    )
    return Node(host, services, key_ring)


def _collector(host: Host) -> Node:
    # Imported here and not above: providers do not need these.
    from trimask_server.access.tokens import TokenStore
    from trimask_server.collector.admission import AdmissionOwnerServicer
    from trimask_server.collector.catalogue import Catalogue
    from trimask_server.collector.console.clerk import Clerk
    from trimask_server.collector.console.records import Records
    from trimask_server.collector.datasets import DatasetServicer
    from trimask_server.collector.ledger import Ledger
    from trimask_server.collector.provider_status import ProviderStatus
    from trimask_server.collector.releases.service import ReleaseOwnerServicer, ReleaseServicer
    from trimask_server.collector.scheduled_opens import ScheduledOpens
    from trimask_server.collector.services import StudyOwnerServicer, StudyServicer
    from trimask_server.collector.study_leases import Drivers

    context = host.context
    proposals = Proposals(context.database, context.audit)
    tokens = TokenStore(context.database, context.audit)
    ledger, catalogue = Ledger(context.database, context.audit), Catalogue(context.database)
    provider_status = ProviderStatus(context)
    suites = ByStudy({name: suite.collector(host, provider_status) for name, suite in SUITES.items()})
    drivers = Drivers(context, host.spawn, lambda study, database: suites.of(study).driver(study, database))
    opens = ScheduledOpens(context.database, context.audit)
    studies = StudyServicer(context, ledger, catalogue, provider_status, opens)

    def answers(study: Study) -> Answers:
        found = suites.of(study).answers
        assert found is not None  # noqa: S101 - only a study with a budget is asked, and only of a suite that has answers
        return found

    public: list[AddServices] = [
        studies.add_to,
        DatasetServicer(context, catalogue).add_to,
        ReleaseServicer(context, answers).add_to,
    ]
    # The owner, known by certificate, finds everything on one connection.
    owned = StudyOwnerServicer(context, proposals, drivers, opens)
    owner: list[AddServices] = [
        owned.add_to,
        ReleaseOwnerServicer(context, answers).add_to,
        AdmissionOwnerServicer(context, tokens).add_to,
    ]

    records = Records(context.database, context.audit)
    clerk = Clerk(context, records, studies, owned.close, opens, owned.open)

    def begin() -> None:
        host.spawn(drivers.run(), "driving studies")
        host.spawn(clerk.run(), "the console's clerk")

    def pages() -> list[RouteDef]:
        from trimask_server.collector.console.budget import budget_lines
        from trimask_server.collector.console.pages import Console
        from trimask_server.collector.releases.budget_ledger import BudgetLedger
        from trimask_server.collector.status_page import StatusPages

        shown = StatusPages(context, catalogue, studies)
        lines = partial(budget_lines, BudgetLedger(context.database))
        return [
            *shown.routes(),
            *Console(context, shown, catalogue, tokens, records, lines).routes(),
        ]

    services = Services(
        gate=partial(Gate, context, tokens),
        public=public,
        peer=[
            *(add for part in suites.all for add in part.services),
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
        from trimask_server.collector.tables import ERASERS  # a provider does not need what this imports
    else:
        from trimask_server.right.tables import ERASERS

    every = [ERASERS, *(suite.erasers(role) for suite in SUITES.values())]
    return Erasers(
        tuple(erase for owners in every for erase in owners.erase),
        tuple(needed for owners in every for needed in owners.still_needed),
    )
