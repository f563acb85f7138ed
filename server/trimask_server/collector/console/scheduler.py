"""The console's background task: counts submissions by day, opens and closes studies at their scheduled time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_server.collector.console.records import Records, ScheduledOpens
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.services import StudyServicer
from trimask_server.runtime.context import NodeContext

_EVERY_SECONDS = 20.0


class Clerk:
    """One loop for all studies of a collector."""

    def __init__(
        self,
        node: NodeContext,
        records: Records,
        studies: StudyServicer,
        close: Callable[[Study, CloseOrder], Awaitable[None]],
        opens: ScheduledOpens,
        open_study: Callable[[SignedStudy], Awaitable[None]],
    ) -> None:
        self._node = node
        self._records = records
        self._studies = studies
        self._close = close
        self._opens = opens
        self._open = open_study

    async def run(self) -> None:
        """Until the node stops."""
        while True:
            await self.open_due()
            for study in self._node.studies.all():
                try:
                    await self.look(study)
                except Exception as error:  # noqa: BLE001 - the store may be away, and the next round comes
                    self._node.log.warning("console: study=%s %s", study.id.hex()[:12], error)
            await asyncio.sleep(_EVERY_SECONDS)

    async def open_due(self) -> None:
        """Open the studies that are due; a node that does not answer is asked again in the next round."""
        try:
            for signed in await self._opens.due(self._node.clock.now_ms()):
                await self._open(signed)
        except Exception as error:  # noqa: BLE001 - a node or the store may be away, and the next round comes
            self._node.log.warning("a study that was to open by now is not open yet: %s", error)

    async def look(self, study: Study) -> None:
        """One study, once."""
        if await self._node.studies.state_now(study.id) != "open":
            return
        now = self._node.clock.now_ms()
        await self._records.note_complete(study.id, now, await self._studies.complete_rows(study))
        order = await Ledger(self._node.database).close_order(study.id)
        if order is not None and 0 < order.close_time_ms <= now:
            await self._close(study, order)
            self._node.log.info("closing study=%s as scheduled", study.id.hex()[:12])
