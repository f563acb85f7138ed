"""Nodes restored from backups: what the collector tells a right provider whose store is not the one it knew.

A restored store may hold rows that were pooled and erased since the backup was made, and lack rows and plans that came
since. Before anything new is planned the provider is sent every block again. It binds plans that are under way again,
and erases pooled blocks again; with their plans it also uses up the ids of rows it does not have. All of these calls
may be repeated. A block in progress with rows that the provider lost cannot be finished: it is erased
everywhere and the owner is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.study import Party, Study
from trimask_server.collector.batches import Batches
from trimask_server.collector.ledger import IN_A_BLOCK, Ledger
from trimask_server.collector.provider_status import Described
from trimask_server.collector.right_calls import RightCalls
from trimask_server.node.context import NodeContext

__all__ = ["Restores"]


class Restores:
    """One study's right providers and the stores they have."""

    def __init__(
        self,
        node: NodeContext,
        study: Study,
        ledger: Ledger,
        calls: RightCalls,
        batches: Batches,
        tell: Callable[[Party], Awaitable[None]],
    ) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._calls = calls
        self._batches = batches
        self._tell_first = tell
        self.known: dict[str, bytes] = {}
        """The store of each right provider, by role, that has been told of every block."""

    async def handle(self, described: Described) -> bool:
        """Tell each right provider whose store was replaced; whether there was one."""
        self.known = await self._ledger.generations(self._study.id)
        told = False
        for number, party in enumerate(self._study.right, 1):
            role, answer = f"R{number}", described[f"R{number}"]
            if answer is None or self.known.get(role) == answer.store_generation:
                continue
            if role in self.known:
                self._node.log.warning(
                    "study=%s: %s was restored from a backup and is told of every block again",
                    self._study.id.hex()[:12], role,
                )  # fmt: skip
            await self._tell(party)
            await self._ledger.set_generation(self._study.id, role, answer.store_generation)
            self.known[role] = answer.store_generation
            told = True
        return told

    async def _tell(self, party: Party) -> None:
        study, calls = self._study, self._calls
        await calls.register(party)
        await self._tell_first(party)
        # First: rows that were freed since the backup would stay bound there, and are perhaps in another block by now.
        for block in await self._ledger.blocks(study.id, "cancelled", "released"):
            await calls.cancel(party, block)
        for block in await self._ledger.blocks(study.id, *IN_A_BLOCK):
            if block.state == "planned":
                try:
                    await calls.assign(party, block)
                except Refused as error:
                    if error.reason is not Reason.UNKNOWN_ROW:
                        raise
                    await self._batches.give_up(block)
            else:
                await calls.erase(party, block)
        if self._node.studies.state(study.id) == "closed":
            await calls.stop_intake(party, await self._ledger.close_order(study.id))
            await calls.erase_study(party)
