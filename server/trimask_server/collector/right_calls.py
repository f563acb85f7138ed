"""The collector's calls to one study's right providers about blocks. All of them may be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_proto.v1 import node_pb2, right_batches_pb2
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_server.collector.ledger import Block
from trimask_server.protocol.plans import plan_message, split_ids
from trimask_server.runtime.context import NodeContext

_PAGE = 8192


@dataclass(frozen=True)
class Page:
    """Some of the submissions that wait at a provider, in the order in which they came."""

    ids: Sequence[bytes]
    next_token: str
    store_generation: bytes
    checked: bytes = b""
    """For each: 1 if it was checked and accepted there, 2 if it is in a check, 3 if it is there no more, else 0."""
    draw_number: int = 0
    """Of the last draw that the provider has begun."""


@dataclass(frozen=True)
class Assigned:
    """A provider's answer to a plan: bound, with its signature; or not, because of withdrawn rows."""

    withdrawn: Sequence[bytes] = ()
    bound_signature: bytes = b""


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
        return Page(
            split_ids(page.submission_ids),
            page.next_page_token,
            page.store_generation,
            page.checked,
            page.draw_number,
        )

    async def pause_intake(self, party: Party, turn: int) -> int:
        """Have a provider accept nothing and let nothing be withdrawn for now, or go on; the highest turn it was told."""
        request = right_batches_pb2.PauseIntakeRequest(study_id=self._study.id, turn=turn)
        answer = await self._node.peers.call(self._stub(party).PauseIntake, request)
        return int(answer.turn)

    async def stop_intake(self, party: Party, order: CloseOrder | None) -> None:
        """Have a provider stop accepting submissions, by the owner's order."""
        request = right_batches_pb2.StopIntakeRequest(order=order or CloseOrder(study_id=self._study.id))
        await self._node.peers.call(self._stub(party).StopIntake, request)

    async def assign(self, party: Party, block: Block) -> Assigned:
        """Give a provider a block's plan; of a drawn block, its id."""
        request = right_batches_pb2.AssignBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            submission_ids=self._named(block),
            signature=self._signature(block),
        )
        answer = await self._node.peers.call(self._stub(party).AssignBlock, request)
        return Assigned(split_ids(answer.withdrawn_ids), bytes(answer.bound_signature))

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
            submission_ids=self._named(block),
            signature=self._signature(block),
        )
        await self._node.peers.call(self._stub(party).EraseBlock, request)

    async def erase_study(self, party: Party) -> int:
        """Have a provider erase every row of the study that is in no block; how many there were."""
        request = right_batches_pb2.EraseStudyRequest(study_id=self._study.id)
        answer = await self._node.peers.call(self._stub(party).EraseStudy, request)
        return int(answer.erased_rows)

    def _named(self, block: Block) -> bytes:
        """The ids that a plan names; in the rows suite right providers know them from the draw."""
        return b"" if self._study.suite.name == "rows" else block.submission_ids

    def _signature(self, block: Block) -> bytes:
        message = plan_message(self._study.id, block.block_id, self._named(block))
        return self._node.keys.identity.sign("block-plan", message)
