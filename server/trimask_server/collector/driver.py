"""One study's progress, whatever its suite: count, plan, bind, have the suite work, have it erased. Restartable anywhere.

Everything the driver decides is in the ledger before it is sent to anybody, and every call it makes is idempotent; so after
a crash, its own or another node's, it picks up the block where the ledger says it is.

A right provider restored from a backup has a store that is not the one the collector knew. It may hold rows that were
pooled and erased since the backup was made, and lack rows and plans that came since. Before anything new is planned the
provider is sent every block again. It binds plans that are under way again, and erases pooled blocks again; with their
plans it also uses up the ids of rows it does not have. All of these calls may be repeated. A block in progress with rows
that the provider lost cannot be finished: it is erased everywhere and the owner is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Collection
from typing import Protocol

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_core.study.progress import closing_of
from trimask_core.study.signed import close_due
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_server.collector.batches import Batches, Intake, RightCalls
from trimask_server.collector.ledger import NOT_CLOSED, Ledger, write_note
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.collector.publication import Catalogue
from trimask_server.runtime.context import NodeContext
from trimask_server.store.interface import Transaction
from trimask_server.store.release_table import IN_A_BLOCK, UNFINISHED, Block, BlockState


async def begin_closing(node: NodeContext, ledger: Ledger, study_id: bytes, order: CloseOrder) -> None:
    """Carry out an order that is due. Where it announces what is published, or is due by its number of people alone, intake
    pauses first, and what is there is counted."""
    if (await ledger.read_note(study_id)).startswith(NOT_CLOSED):
        await ledger.note(study_id, "")
    if order.published_rows or not close_due(order, node.clock.now_ms(), 0):
        await node.studies.pause(study_id, node.audit.entry("study_paused", study=study_id.hex()))
    else:
        entry = node.audit.entry("study_closing", study=study_id.hex())
        await node.studies.set_state(study_id, "closing", entry)


_LONGEST_REST_SECONDS = 5.0
_LONGEST_SLEEP_SECONDS = 60.0  # of a driver whose study is at rest, should nobody wake it
_RESTED = (0, 0.0)


class BatchWork(Protocol):
    """What a suite does in a study that is collected in blocks. Every step may be repeated after a crash."""

    @property
    def draws_blocks(self) -> bool:
        """Whether right providers draw blocks, and the collector plans none."""
        ...

    async def draw(self, intake: Intake, state: str) -> bool:
        """Have right providers draw blocks, where they do that, in an open, paused or closing study; whether there was
        something to do."""
        ...

    async def tell(self, party: Party) -> None:
        """Tell a right provider that was restored from a backup what it needs before it hears about blocks."""
        ...

    @property
    def at_once(self) -> int:
        """How many blocks are worked on at the same time."""
        ...

    def choose(self, ready: Collection[bytes], *, closing: bool) -> list[bytes]:
        """The sorted ids of the next block out of the complete submissions, oldest first; empty if they are too few, or
        right providers draw it."""
        ...

    async def work_on(self, block: Block, batches: Batches) -> None:
        """One attempt at a planned block: bind it (`Batches.bind`), and mark it pooled in the ledger once it is."""
        ...

    async def forget(self, block: Block) -> None:
        """Have nodes erase what else they kept of a block that is pooled or given up; its rows are erased next."""
        ...

    async def publish(self) -> bool:
        """Publish what is complete while the study goes on; whether anything was."""
        ...

    async def look_after_closed(self) -> None:
        """Once the study is closed, now and then: have erased what no longer has a use."""
        ...

    async def finish(self, remainder: int) -> bool:
        """No more blocks can be made, and so many submissions are left over: publish (or keep to answer from) what is
        large enough and forget the rest; whether anything of the study was published."""
        ...


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, or so long.

    Python 3.11's `asyncio.wait_for` forgets that its task is cancelled if the event is set at that moment: a driver that is
    woken while its node stops would go on, and the node wait for it for ever. `asyncio.timeout` does not forget.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class BatchDriver:
    """Drives one study until it is closed (`study_leases` starts and stops it)."""

    def __init__(
        self,
        node: NodeContext,
        study: Study,
        ledger: Ledger,
        provider_status: ProviderStatus,
        work: BatchWork,
    ) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._provider_status = provider_status
        self._work = work
        self._calls = RightCalls(node, study)
        self._intake = Intake(study, ledger, self._calls)
        self._batches = Batches(node, study, ledger, self._calls, self._intake)
        self._known: dict[
            str, bytes
        ] = {}  # each right provider's store that was told of every block, by role
        # A provider may have been restored from a backup: looked into at the start and whenever something is refused.
        self._suspicious = True
        self._rest: dict[
            bytes, tuple[int, float]
        ] = {}  # blocks that failed: how often, and until when they wait
        self._told = (
            "",
            0,
        )  # what every right provider was told about intake: a state of the study, and its turn
        # How many more people this collector counted than the right provider that counted fewest: one that was restored.
        self._counts_more = 0
        self._resting_seconds = node.config.poll_seconds
        self.wake = asyncio.Event()  # set when there may be something to do at once

    async def run(self) -> None:
        """Until the study is closed; `Refused` with lease_lost when another worker drives it."""
        node, prefix = self._node, self._study.id.hex()[:12]
        while node.studies.state(self._study.id) != "closed":
            self.wake.clear()
            self._resting_seconds = node.config.poll_seconds
            try:
                # While draining nothing is begun; the lease stays with this worker until it stops.
                busy = not node.drain.on and await self._step()
            except Refused as error:
                if error.reason is Reason.LEASE_LOST:
                    raise
                node.log.warning("study=%s waits: reason=%s: %s", prefix, error.reason, error)
                busy, self._suspicious = False, True
            except Exception:
                # Whatever the error was (a full disk, for example), the study must go on once it is gone.
                node.log.exception("study=%s waits after an error", prefix)
                busy = False
            if not busy:
                await set_within(self.wake, self._resting_seconds)

    async def look_after_closed(self) -> None:
        """Of a closed study: tell right providers that were restored since, and finish what one was away for."""
        await self._handle_restores()
        await self._work.look_after_closed()

    async def _handle_restores(self) -> bool:
        """Tell each right provider whose store was replaced of every block; whether there was one."""
        described = await self._provider_status.describe(self._study, 5.0)
        self._known = await self._ledger.generations(self._study.id)
        told = False
        for number, party in enumerate(self._study.right, 1):
            role, answer = f"R{number}", described[f"R{number}"]
            if answer is None or self._known.get(role) == answer.store_generation:
                continue
            if role in self._known:
                self._node.log.warning(
                    "study=%s: %s was restored from a backup and is told of every block again",
                    self._study.id.hex()[:12], role,
                )  # fmt: skip
            await self._tell_of_blocks(party)
            await self._ledger.set_generation(self._study.id, role, answer.store_generation)
            self._known[role] = answer.store_generation
            told = True
        return told

    async def _tell_of_blocks(self, party: Party) -> None:
        study, calls = self._study, self._calls
        await calls.register(party)
        await self._work.tell(party)
        # First: rows that were freed since the backup would stay bound there, and are perhaps in another block by now.
        for block in await self._ledger.blocks(study.id, BlockState.CANCELLED, BlockState.RELEASED):
            await calls.cancel(party, block)
        for block in await self._ledger.blocks(study.id, *IN_A_BLOCK):
            if block.state is BlockState.PLANNED:
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

    async def _step(self) -> bool:
        """One piece of work; whether there may be more at once."""
        study_id = self._study.id
        if self._suspicious:
            if await self._handle_restores():
                self._intake.count_anew()
            self._suspicious, self._told = False, ("", 0)
        state, turn = await self._node.studies.intake(study_id)
        if self._told != (state, turn) and await self._batches.tell_intake(state, turn):
            self._told = (state, turn)  # whatever happens to blocks
        if state == "paused":
            if self._told != (state, turn):
                raise Refused(
                    Reason.UNREACHABLE, "intake is paused, and a right provider has not said what it holds"
                )
            await self._count_before_closing(turn)
            return True
        if state == "open" and await self._order_is_due():
            return True
        closing = state == "closing"
        unfinished = await self._ledger.blocks(study_id, *UNFINISHED)
        now = asyncio.get_running_loop().time()
        able = [block for block in unfinished if now >= self._rest.get(block.block_id, _RESTED)[1]]
        if able:  # those that failed rest, and others go on
            able.sort(key=lambda block: self._rest.get(block.block_id, _RESTED)[0])
            moves = (self._move_on(block, closing=closing) for block in able[: self._work.at_once])
            for outcome in await asyncio.gather(*moves, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
            return True
        ready = await self._intake.complete(self._known, closing=closing)
        if ready is None:
            self._suspicious = True
            return True
        await self._ledger.note_pending(study_id, self._intake.usable)
        if await self._work.draw(self._intake, state):
            return True
        planned = 0
        while planned < self._work.at_once and (ids := self._work.choose(ready, closing=closing)):
            await self._ledger.plan(study_id, self._node.source.read(16), ids)
            self._intake.remove(ids)
            planned += 1
        if planned:
            return True
        if closing and not unfinished:
            if self._intake.stale:
                self._intake.count_anew()  # what is erased now is what the providers themselves say is left
                return True
            await self._close(len(ready))
            return True
        if closing:
            return False
        if await self._work.publish():
            return True
        if not unfinished and self._told == (state, turn):
            if state == "open" and await self._order_is_due():
                return True  # by people counted in this step, of whom nobody may tell again
            await self._rest_until_told()
        return False

    async def _rest_until_told(self) -> None:
        """Nothing can be done until something comes (`study_leases.Drivers`), or an order for later is due."""
        order = await self._ledger.close_order(self._study.id)
        until_due = math.inf
        if order is not None and order.close_time_ms:
            until_due = (order.close_time_ms - self._node.clock.now_ms()) / 1000
        self._resting_seconds = max(self._node.config.poll_seconds, min(_LONGEST_SLEEP_SECONDS, until_due))

    async def _move_on(self, block: Block, *, closing: bool) -> None:
        """The next step of a block that is neither erased nor released. After a failure it pauses for a while."""
        try:
            if block.state is BlockState.CANCELLED:
                await self._batches.release(block)
            elif block.state is BlockState.PLANNED:
                await self._work.work_on(block, self._batches)
            else:  # pooled, or given up
                await self._work.forget(block)
                await self._batches.erase(block)
        except Exception:
            failures = self._rest.get(block.block_id, _RESTED)[0] + 1
            polls = 2 if closing else 2 ** min(failures, 16)
            pause = min(_LONGEST_REST_SECONDS, self._node.config.poll_seconds * polls)
            self._rest[block.block_id] = (failures, asyncio.get_running_loop().time() + pause)
            raise
        self._rest.pop(block.block_id, None)

    async def _order_is_due(self) -> bool:
        """Carry out the owner's order for later, if it is due; whether it was."""
        study_id = self._study.id
        order = await self._ledger.close_order(study_id)
        if order is None or not (order.close_time_ms or order.close_people):
            return False  # one for now was carried out when it came
        people = await Catalogue(self._ledger.database).people(study_id) if order.close_people else 0
        if not close_due(order, self._node.clock.now_ms(), people - self._counts_more):
            return False
        await begin_closing(self._node, self._ledger, study_id, order)
        self._node.log.info("study=%s closes as its owner has ordered", study_id.hex()[:12])
        return True

    async def _count_before_closing(self, turn: int) -> None:
        """Intake is paused: once nothing can change any more, close, or go on if that breaks what the owner was told.

        Every right provider has paused, so nothing comes or goes. Where submissions are checked in their block they are all
        put into blocks first; elsewhere rows are checked, and blocks that were planned are bound.
        """
        study_id = self._study.id
        planned = await self._ledger.blocks(study_id, BlockState.PLANNED, BlockState.CANCELLED)
        for block in planned:
            if block.state is BlockState.CANCELLED or not self._work.draws_blocks:
                await self._move_on(block, closing=True)
                return
            if not block.attempts and not await self._batches.bind(block):
                return  # a row of it was withdrawn
        ready = await self._intake.complete(self._known, closing=False, paused=True)
        if ready is None:
            self._suspicious = True
            return
        if await self._work.draw(self._intake, "paused"):
            return
        ids = [] if self._work.draws_blocks else self._work.choose(ready, closing=True)
        if ids:
            await self._ledger.plan(study_id, self._node.source.read(16), ids)
        if ids or self._intake.stale:
            self._intake.count_anew()
            return
        await self._ledger.note_pending(study_id, self._intake.usable)
        there = await Catalogue(self._ledger.database).progress(study_id)
        outcome = closing_of(self._study, pending=there.pending, masking=there.masking, pooled=there.pooled)
        order = await self._ledger.close_order(study_id)
        published, erased = (0, 0) if order is None else (order.published_rows, order.erased_rows)
        people = 0
        if order is not None and order.close_people:
            counted = await Catalogue(self._ledger.database).people(study_id)
            people = min(counted, await self._batches.people(turn))
            self._counts_more = counted - people
        self._intake.count_anew()
        early = order is not None and not close_due(order, self._node.clock.now_ms(), people)
        goes_on = early or (outcome.published < published and outcome.erased > erased)
        entry = self._node.audit.entry("study_resumed" if goes_on else "study_closing", study=study_id.hex())

        def also(tx: Transaction) -> None:
            entry(tx)
            if goes_on and not early:
                write_note(
                    tx,
                    study_id,
                    f"{NOT_CLOSED}{published:,} complete submissions were to be published; of those that are there now "
                    f"{outcome.published:,} would be, and {outcome.erased:,} erased. The study goes on collecting; "
                    "`trimask study close STUDY.json --erase` ends it all the same",
                )

        await self._node.studies.end_pause(study_id, turn, "open" if goes_on else "closing", also)

    async def _close(self, remainder: int) -> None:
        study, node = self._study, self._node
        published = await self._work.finish(remainder)
        erased = await self._batches.erase_unused()
        if published and erased:
            await self._ledger.note(
                study.id,
                f"{erased} submissions had reached only some of the right providers when the study closed; erased",
            )
        await self._ledger.note_pending(study.id, 0)
        entry = node.audit.entry("study_closed", study=study.id.hex())
        await node.studies.set_state(study.id, "closed", entry)
        node.log.info("closed study=%s", study.id.hex()[:12])
