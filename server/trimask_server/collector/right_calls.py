"""The collector's calls to one study's right providers about blocks. All of them may be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.study import Party, Study
from trimask_proto.v1 import node_pb2, right_batches_pb2
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_proto.v1.right_batches_pb2 import RowAbsence
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_server.collector.ledger import Block
from trimask_server.node.context import NodeContext
from trimask_server.protocol.draw import split_places
from trimask_server.protocol.plans import plan_message, split_ids

__all__ = ["Assigned", "Page", "RightCalls"]

_PAGE = 8192


@dataclass(frozen=True)
class Page:
    """Some of the submissions that wait at a provider, in the order in which they came."""

    ids: Sequence[bytes]
    next_token: str
    store_generation: bytes
    checked: bytes = b""
    """For each: 1 if it was checked and accepted there, 2 if it is in a check, 3 if it is there no more, else 0."""
    places: Sequence[tuple[bytes, bytes]] = ()
    """(id, place) of those that were accepted."""


@dataclass(frozen=True)
class Assigned:
    """A provider's answer to a plan: bound, with its signature; or not, because of withdrawn rows or of the draw."""

    withdrawn: Sequence[bytes] = ()
    bound_signature: bytes = b""
    not_drawn: bool = False
    skipped: Sequence[tuple[bytes, bytes]] = ()
    """(id, place) of rows that should have been in the plan."""


class RightCalls:
    """One study's right providers."""

    def __init__(self, node: NodeContext, study: Study) -> None:
        self._node = node
        self._study = study

    def _stub(self, party: Party) -> RightBatchServiceStub:
        return RightBatchServiceStub(self._node.peers.channel(party))

    async def register(self, party: Party) -> None:
        """Hand a provider the study."""
        node = self._node
        signed = node.studies.signed(self._study.id).without_seed().to_json().encode()
        stub = NodeServiceStub(node.peers.channel(party))
        await node.peers.call(stub.RegisterStudy, node_pb2.RegisterStudyRequest(signed_study=signed))

    async def list_pending(self, party: Party, token: str) -> Page:
        """The submissions a provider holds that are in no block, after `token`."""
        request = right_batches_pb2.ListPendingRequest(
            study_id=self._study.id, page_token=token, page_size=_PAGE
        )
        page = await self._node.peers.call(self._stub(party).ListPending, request)
        ids = split_ids(page.submission_ids)
        accepted = b"".join(name for name, mark in zip(ids, page.checked, strict=False) if mark == 1)
        places = split_places(accepted, page.places)
        return Page(ids, page.next_page_token, page.store_generation, page.checked, places)

    async def pause_intake(self, party: Party, turn: int) -> int:
        """Have a provider accept nothing and let nothing be withdrawn for now, or go on; the highest turn it was told."""
        request = right_batches_pb2.PauseIntakeRequest(study_id=self._study.id, turn=turn)
        answer = await self._node.peers.call(self._stub(party).PauseIntake, request)
        return int(answer.turn)

    async def stop_intake(self, party: Party) -> None:
        """Have a provider stop accepting submissions."""
        request = right_batches_pb2.StopIntakeRequest(study_id=self._study.id)
        await self._node.peers.call(self._stub(party).StopIntake, request)

    async def assign(
        self, party: Party, block: Block, absences: Sequence[RowAbsence] = (), bound: bytes = b""
    ) -> Assigned:
        """Give a provider a block's plan, with what others have said about rows, and its own earlier answer."""
        request = right_batches_pb2.AssignBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            submission_ids=block.submission_ids,
            signature=self._signature(block),
            absences=absences,
            bound_signature=bound,
        )
        answer = await self._node.peers.call(self._stub(party).AssignBlock, request)
        return Assigned(
            split_ids(answer.withdrawn_ids),
            bytes(answer.bound_signature),
            answer.not_drawn,
            split_places(answer.skipped_ids, answer.skipped_places),
        )

    async def absence(self, party: Party, rows: Sequence[tuple[bytes, bytes]]) -> RowAbsence:
        """A provider's signed statement on which of these rows, (id, place), it cannot put into a block."""
        request = right_batches_pb2.ConfirmAbsentRequest(
            study_id=self._study.id,
            submission_ids=b"".join(name for name, _ in rows),
            places=b"".join(at for _, at in rows),
        )
        answer = await self._node.peers.call(self._stub(party).ConfirmAbsent, request)
        return RowAbsence.FromString(answer.absence.SerializeToString())

    async def cancel(self, party: Party, block: Block) -> None:
        """Have a provider free the rows of a plan that was given up."""
        message = plan_message(self._study.id, block.block_id, b"")
        request = right_batches_pb2.CancelBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            signature=self._node.keys.identity.sign("block-cancel", message),
        )
        await self._node.peers.call(self._stub(party).CancelBlock, request)

    async def erase(self, party: Party, block: Block) -> None:
        """Have a provider erase a block, also one it does not know."""
        request = right_batches_pb2.EraseBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            submission_ids=block.submission_ids,
            signature=self._signature(block),
        )
        await self._node.peers.call(self._stub(party).EraseBlock, request)

    async def erase_study(self, party: Party) -> int:
        """Have a provider erase every row of the study that is in no block; how many there were."""
        request = right_batches_pb2.EraseStudyRequest(study_id=self._study.id)
        answer = await self._node.peers.call(self._stub(party).EraseStudy, request)
        return int(answer.erased_rows)

    def _signature(self, block: Block) -> bytes:
        message = plan_message(self._study.id, block.block_id, block.submission_ids)
        return self._node.keys.identity.sign("block-plan", message)
