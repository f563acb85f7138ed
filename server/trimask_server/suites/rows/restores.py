"""Nodes restored from backups: what the collector tells a right provider whose store is not the one it knew.

A restored store may hold rows that were pooled and erased since the backup was made, and lack rows and plans that came
since. Before anything new is planned the provider is told of every block again: plans that are under way it is given
again, pooled blocks it erases again, with their plans, so that it also uses up the ids of rows it does not have. All of
these calls may be repeated. A block that is under way and has rows which the provider lost cannot be masked any more:
it is erased everywhere and the owner is told.
"""

from __future__ import annotations

from trimask_core.errors import Refused
from trimask_core.study import Party, Study
from trimask_proto.v1 import node_pb2, right_masking_pb2
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_proto.v1.right_masking_pb2_grpc import RightMaskingServiceStub
from trimask_server.collector.ledger import Block, BlockState, Ledger
from trimask_server.node.node import Node
from trimask_server.right.rows import split_ids
from trimask_server.suites.rows.right_masking import plan_message

__all__ = ["Restores"]


class Restores:
    """One study's right providers and the stores they have."""

    STATES: tuple[BlockState, ...] = ("planned", "pooled", "erased", "abandoned")

    def __init__(self, node: Node, study: Study, ledger: Ledger) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._known: dict[str, bytes] = {}

    def is_new(self, role: str, generation: bytes) -> bool:
        """Whether a right provider's store has not been told of every block."""
        return self._known.get(role) != generation

    async def heed(self, described: dict[str, node_pb2.DescribeNodeResponse | None]) -> bool:
        """Tell every right provider that has another store than before; whether there was one."""
        self._known = await self._ledger.generations(self._study.id)
        told = False
        for number, party in enumerate(self._study.right, 1):
            role, answer = f"R{number}", described[f"R{number}"]
            if answer is None or not self.is_new(role, answer.store_generation):
                continue
            if role in self._known:
                self._node.log.warning(
                    "study=%s: %s was restored from a backup and is told of every block again",
                    self._study.id.hex()[:12], role,
                )  # fmt: skip
            await self._tell(party)
            await self._ledger.set_generation(self._study.id, role, answer.store_generation)
            self._known[role] = answer.store_generation
            told = True
        return told

    async def _tell(self, party: Party) -> None:
        study, node = self._study, self._node
        signed = node.studies.signed(study.id).without_seed().to_json().encode()
        stub = NodeServiceStub(node.peers.channel(party))
        await node.peers.call(stub.RegisterStudy, node_pb2.RegisterStudyRequest(signed_study=signed))
        for block in await self._ledger.blocks(study.id, *self.STATES, "cancelled", "released"):
            if block.state in ("cancelled", "released"):
                # Or rows that were freed since the backup would stay bound there, and no plan could have them.
                await self.cancel(party, block)
            elif block.state == "planned":
                try:
                    await self.assign(party, block)
                except Refused as error:
                    if error.reason != "unknown_row":
                        raise
                    await self.abandon(block)
            else:
                await self.erase(party, block)
        if node.studies.state(study.id) == "closed":
            request = right_masking_pb2.EraseStudyRequest(study_id=study.id)
            await node.peers.call(self._right(party).EraseStudy, request)

    async def abandon(self, block: Block) -> None:
        """Have a block that can never be pooled erased everywhere, and tell the owner."""
        for party in self._study.right:
            await self.erase(party, block)
        await self._ledger.mark_erased(block.block_id, "abandoned")
        self._node.log.warning("abandoned block=%s rows=%d", block.block_id.hex(), block.rows)
        await self._ledger.note(
            self._study.id,
            f"block {block.block_id.hex()[:12]} is lost with its {block.rows} rows: a node was restored from a backup "
            "made before it. Nothing of it is in a release",
        )

    async def assign(self, party: Party, block: Block) -> list[bytes]:
        """Give a right provider a block's plan; the ids for which it declines it, because they were withdrawn."""
        study, node = self._study, self._node
        request = right_masking_pb2.AssignBlockRequest(
            study_id=study.id,
            block_id=block.block_id,
            submission_ids=block.submission_ids,
            signature=self._signature(block),
        )
        answer = await node.peers.call(self._right(party).AssignBlock, request)
        return split_ids(answer.withdrawn_ids)

    async def cancel(self, party: Party, block: Block) -> None:
        """Have a right provider free the rows of a plan that was given up."""
        message = plan_message(self._study.id, block.block_id, b"")
        request = right_masking_pb2.CancelBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            signature=self._node.keys.identity.sign("block-cancel", message),
        )
        await self._node.peers.call(self._right(party).CancelBlock, request)

    async def erase(self, party: Party, block: Block) -> None:
        """Have a right provider erase a block, also one it does not know."""
        request = right_masking_pb2.EraseBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            submission_ids=block.submission_ids,
            signature=self._signature(block),
        )
        await self._node.peers.call(self._right(party).EraseBlock, request)

    def _right(self, party: Party) -> RightMaskingServiceStub:
        return RightMaskingServiceStub(self._node.peers.channel(party))

    def _signature(self, block: Block) -> bytes:
        message = plan_message(self._study.id, block.block_id, block.submission_ids)
        return self._node.keys.identity.sign("block-plan", message)
