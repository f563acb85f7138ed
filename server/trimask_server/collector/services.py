"""What the collector serves about studies: to devices and everybody, and to the study's owner.

It forwards an owner's proposal to every operator and gathers the decisions.

Who erases a study at the collector, and who still needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_core.study.signed import SignedStudy, close_due, verify_abandon, verify_close
from trimask_proto.v1 import governance_pb2, node_pb2, study_pb2, study_pb2_grpc
from trimask_proto.v1.common_pb2 import CloseOrder, RefusalCount
from trimask_proto.v1.governance_pb2_grpc import ProposalServiceStub
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_server.access import governance, tokens
from trimask_server.access.governance import DECISIONS, Proposals, head_message
from trimask_server.access.permissions import sent_study
from trimask_server.collector import ledger, study_leases
from trimask_server.collector.driver import begin_closing
from trimask_server.collector.ledger import DAY_MS, Ledger
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.collector.publication import Catalogue
from trimask_server.collector.study_leases import Drivers
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.store import data_keys, release_table
from trimask_server.store.interface import Erasers, StoreError
from trimask_server.store.release_table import BlockState

ERASERS = Erasers(
    (
        release_table.erase_blocks,
        ledger.erase_study,
        tokens.erase_study,
        governance.erase_study,
        study_leases.erase_study,
        data_keys.erase_study,
    ),
    still_needed=(release_table.still_needed,),
)


_SECONDS = 10.0
_PREFIX_BYTES = 4
_STATES = {
    "open": study_pb2.STUDY_STATE_OPEN,
    "paused": study_pb2.STUDY_STATE_PAUSED,
    "closing": study_pb2.STUDY_STATE_CLOSING,
    "closed": study_pb2.STUDY_STATE_CLOSED,
}
_CLERK_SECONDS = 20.0


class StudyServicer(study_pb2_grpc.StudyServiceServicer):
    """Reading studies and their progress."""

    def __init__(
        self,
        node: NodeContext,
        ledger: Ledger,
        catalogue: Catalogue,
        provider_status: ProviderStatus,
    ) -> None:
        self._node = node
        self._ledger = ledger
        self._catalogue = catalogue
        self._provider_status = provider_status

    async def ListStudies(
        self, request: study_pb2.ListStudiesRequest, context: Context
    ) -> study_pb2.ListStudiesResponse:
        studies = self._node.studies
        await studies.refresh()
        return study_pb2.ListStudiesResponse(
            studies=[
                study_pb2.StudySummary(
                    study_id=study.id, title=study.title, state=_STATES[studies.state(study.id)]
                )
                for study in studies.all()
            ]
        )

    async def GetStudy(
        self, request: study_pb2.GetStudyRequest, context: Context
    ) -> study_pb2.GetStudyResponse:
        await self._ledger.refuse_early(request.study_id)
        signed = self._node.studies.signed(request.study_id)
        copy = signed if request.for_device else signed.without_seed()
        return study_pb2.GetStudyResponse(signed_study=copy.to_json().encode())

    async def GetStudyStatus(
        self, request: study_pb2.GetStudyStatusRequest, context: Context
    ) -> study_pb2.GetStudyStatusResponse:
        await self._ledger.refuse_early(request.study_id)
        return await self.status_of(self._node.studies.get(request.study_id))

    async def status_of(self, study: Study) -> study_pb2.GetStudyStatusResponse:
        """The same, for this node's own pages."""
        described = await self._provider_status.describe_cached(study)
        # The state first: a study that is closed then has its last numbers.
        state = await self._node.studies.state_now(study.id)
        progress = await self._catalogue.progress(study.id)
        blocks = await self._ledger.blocks(study.id, BlockState.PLANNED, BlockState.POOLED, BlockState.ERASED)
        releases = await self._catalogue.releases(study.id)
        refusals = [
            study_pb2.NodeRefusals(
                role=role,
                reachable=answer is not None,
                counts=[] if answer is None else answer.refusals,
                study_counts=[] if answer is None else answer.study_refusals,
                audit_head=None if answer is None else answer.audit_head,
                last_seen_time_ms=self._provider_status.last_ms(study.party(role).tls_name),
                invitations_used=0 if answer is None else answer.invitations_used,
                sent_together=0 if answer is None else answer.sent_together,
            )
            for role, answer in described.items()
        ]
        own = study_pb2.NodeRefusals(
            role="collector",
            reachable=True,
            counts=self._node.refusals.as_messages(),
            study_counts=self._node.refusals.of_study(study.id),
            audit_head=head_message(await self._node.audit.head()),
            last_seen_time_ms=self._node.clock.now_ms(),
        )
        return study_pb2.GetStudyStatusResponse(
            state=_STATES[state],
            pending_rows=progress.pending,
            masking_rows=progress.masking,
            pooled_rows=progress.pooled,
            published_rows=sum(release.rows for release in releases if release.state == "published"),
            pooled_blocks=sum(block.state != "planned" for block in blocks),
            failed_attempts=await self._ledger.failed_attempts(study.id),
            releases=sum(release.state == "published" for release in releases),
            note=await self._ledger.read_note(study.id),
            refusals=[*refusals, own],
            refused_reports=[
                RefusalCount(reason=reason, count=count)
                for reason, count in (await self._ledger.refused_reports(study.id)).items()
            ],
            abandoned_blocks=[
                study_pb2.AbandonedBlock(block_id=block.block_id, rows=block.rows, why=block.why)
                for block in await self._ledger.abandoned(study.id)
            ],
        )


class StudyOwnerServicer(study_pb2_grpc.StudyOwnerServiceServicer):
    """Opening and closing studies: the owner's certificate only."""

    def __init__(self, node: NodeContext, proposals: Proposals, drivers: Drivers, ledger: Ledger) -> None:
        self._node = node
        self._ledger = ledger
        self._proposals = proposals
        self._drivers = drivers

    async def SendProposal(
        self, request: study_pb2.SendProposalRequest, context: Context
    ) -> study_pb2.SendProposalResponse:
        node, signed = self._node, sent_study().without_seed()
        await self._proposals.propose(signed, node.clock.now_ms())
        handed = governance_pb2.ProposeStudyRequest(signed_study=signed.to_json().encode())

        async def hand_over(stub: ProposalServiceStub) -> None:
            await node.peers.call(stub.ProposeStudy, handed, _SECONDS)

        return study_pb2.SendProposalResponse(parties=await self._decisions(signed.study, hand_over))

    async def GatherApprovals(
        self, request: study_pb2.GatherApprovalsRequest, context: Context
    ) -> study_pb2.GatherApprovalsResponse:
        found = await self._proposals.get(request.study_id)
        if found is None:
            raise Refused(
                Reason.UNKNOWN_STUDY, "that study was not proposed here; `trimask study propose` does it"
            )
        return study_pb2.GatherApprovalsResponse(parties=await self._decisions(found.signed.study))

    async def _decisions(
        self, study: Study, first: Callable[[ProposalServiceStub], Awaitable[None]] | None = None
    ) -> list[study_pb2.PartyDecision]:
        """What each party's operator decided, after what is to be sent `first`; or why it cannot be reached."""
        node, wanted = self._node, governance_pb2.GetDecisionRequest(study_id=study.id)

        async def ask(party: Party) -> study_pb2.PartyDecision:
            stub = ProposalServiceStub(node.peers.channel(party))
            try:
                if first is not None:
                    await first(stub)
                answer = await node.peers.call(stub.GetDecision, wanted, _SECONDS)
            except Refused as error:
                return study_pb2.PartyDecision(reason=f"{error.reason}: {error}")
            return study_pb2.PartyDecision(
                decision=answer.decision, approval=answer.approval, reason=answer.reason
            )

        async def own() -> study_pb2.PartyDecision:
            found = await self._proposals.get(study.id)
            if found is None:
                return study_pb2.PartyDecision()
            return study_pb2.PartyDecision(
                decision=DECISIONS[found.decision], approval=found.approval.encode(), reason=found.reason
            )

        roles = study.parties.items()
        asked = (own() if role == "collector" else ask(party) for role, party in roles)
        decisions = await asyncio.gather(*asked)
        for role, decision in zip(study.parties, decisions, strict=True):
            decision.role = role
        return list(decisions)

    async def OpenStudy(
        self, request: study_pb2.OpenStudyRequest, context: Context
    ) -> study_pb2.OpenStudyResponse:
        node = self._node
        signed = sent_study()
        study = signed.verify()
        await node.studies.refuse_over(study.id)
        if signed.needs_seed and not signed.mask_seed:
            raise Refused(
                Reason.MALFORMED, "the study came without the seed of B_0; open it where it was made"
            )
        if request.open_time_ms > node.clock.now_ms():
            if not request.open_time_ms < 1 << 48:
                raise Refused(
                    Reason.MALFORMED, "open_time_ms must be a time in milliseconds since 1970, or 0 for now"
                )
            await self._ledger.schedule_open(signed, request.open_time_ms)
            return study_pb2.OpenStudyResponse(study_id=study.id, open_time_ms=request.open_time_ms)
        await self.open(signed)
        return study_pb2.OpenStudyResponse(study_id=study.id)

    async def open(self, signed: SignedStudy) -> None:
        """Send a verified study to every node, and register it here."""
        node, study = self._node, signed.study
        for_providers = signed.without_seed().to_json().encode()
        for name, party in study.parties.items():
            if name == "collector":
                continue
            stub = NodeServiceStub(node.peers.channel(party))
            try:
                await node.peers.call(
                    stub.RegisterStudy, node_pb2.RegisterStudyRequest(signed_study=for_providers), 10.0
                )
            except Refused as error:
                raise Refused(error.reason, f"{name} ({party.peer_address}): {error}") from None
        entry = node.audit.entry("study_opened", study=study.id.hex(), admission=study.admission)
        await node.studies.register(signed, node.clock.now_ms(), entry)
        await self._ledger.end_scheduled(study.id)
        self._drivers.look(study.id)
        node.log.info("opened study=%s title=%r", study.id.hex()[:12], study.title)

    async def CloseStudy(
        self, request: study_pb2.CloseStudyRequest, context: Context
    ) -> study_pb2.CloseStudyResponse:
        await self.close(self._node.studies.get(request.order.study_id), request.order)
        return study_pb2.CloseStudyResponse()

    async def close(self, study: Study, order: CloseOrder) -> None:
        """End collection by its owner's order, once it is due; the caller has been verified as the owner."""
        now, ledger = self._node.clock.now_ms(), self._ledger
        verify_close(study, order, max(now, order.close_time_ms), order.close_people)
        if (order.close_time_ms or order.close_people) and order.published_rows:
            raise Refused(Reason.MALFORMED, "an order for later announces nothing: leave published_rows out")
        # The driver carries out an order for later. One that asks for nothing is kept while the study closes too: a right
        # provider restored from a backup may count fewer people than the number by which it closes.
        now_due = close_due(order, now, 0)
        if (now_due and not order.published_rows) or not await self._node.studies.is_closing(study.id):
            await ledger.keep_close_order(study.id, order)
        if now_due:
            await begin_closing(self._node, ledger, study.id, order)
        self._drivers.look(study.id)

    async def AbandonBlock(
        self, request: study_pb2.AbandonBlockRequest, context: Context
    ) -> study_pb2.AbandonBlockResponse:
        study = self._node.studies.get(request.study_id)
        if request.release_number:
            if study.suite.name != "moments":
                raise Refused(
                    Reason.MALFORMED, "a release is given up by its number in the moments suite alone"
                )
        elif request.draw_number:
            verify_abandon(study, request.draw_number, request.order_signature)
        elif len(request.block_id) < _PREFIX_BYTES:
            raise Refused(
                Reason.MALFORMED, f"give {2 * _PREFIX_BYTES} hexadecimal digits of the block's id at least"
            )
        named, ledger = request.release_number or request.block_id, self._ledger
        if request.draw_number:
            found = await ledger.abandon_draw(
                study.id,
                request.draw_number,
                request.order_signature,
                healthy=request.healthy,
                look=request.look,
            )
            self._drivers.look(study.id)
        elif request.look:
            found = await ledger.look_at(study.id, named)
        else:
            found = await ledger.abandon(study.id, named, healthy=request.healthy)
            if request.release_number:
                said = f"release {request.release_number} with its {found.rows} rows is given up by the study's owner"
                await ledger.note(study.id, said)
            self._drivers.look(study.id)
        return study_pb2.AbandonBlockResponse(
            block=study_pb2.AbandonedBlock(block_id=found.block_id, rows=found.rows, why=found.why),
            state=found.state,
            healthy=found.healthy,
        )


class Clerk:
    """The background task for all studies: opens those whose time has come, counts submissions by day for the console."""

    def __init__(
        self, node: NodeContext, ledger: Ledger, open_study: Callable[[SignedStudy], Awaitable[None]]
    ) -> None:
        self._node = node
        self._ledger = ledger
        self._open = open_study
        self._noted: dict[bytes, tuple[int, int]] = {}  # by study: the day, and how many it had
        node.studies.on_forget.append(lambda study_id: self._noted.pop(study_id, None))

    async def run(self) -> None:
        """Until the node stops."""
        while True:
            await self.open_due()
            with contextlib.suppress(Refused, StoreError):  # the store may be away, and the next round comes
                await self._node.studies.refresh()
            for study in self._node.studies.all():
                try:
                    await self.look(study)
                except Exception as error:  # noqa: BLE001 - the store may be away, and the next round comes
                    self._node.log.warning("console: study=%s %s", study.id.hex()[:12], error)
            await asyncio.sleep(_CLERK_SECONDS)

    async def open_due(self) -> None:
        """Open the studies that are due; a node that does not answer is asked again in the next round."""
        try:
            for signed in await self._ledger.opens_due(self._node.clock.now_ms()):
                await self._open(signed)
        except Exception as error:  # noqa: BLE001 - a node or the store may be away, and the next round comes
            self._node.log.warning("a study that was to open by now is not open yet: %s", error)

    async def look(self, study: Study) -> None:
        """One study, once."""
        if self._node.studies.state(study.id) != "open":
            return
        now_ms = self._node.clock.now_ms()
        complete = await Catalogue(self._node.database).people(study.id)
        if self._noted.get(study.id) != (now_ms // DAY_MS, complete):
            await self._ledger.note_complete(study.id, now_ms, complete)
            self._noted[study.id] = (now_ms // DAY_MS, complete)
