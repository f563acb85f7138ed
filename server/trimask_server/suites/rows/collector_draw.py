"""The collector's part in draws and in the checks of their rows: it passes messages on, and decides nothing.

Each is written down, with its progress, before it is sent to anybody. Everything a draw is made of can be asked for
again: a right provider repeats what it has said. So a collector that was restored from a backup finds the last draw again
by its number, which right providers tell it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_core.submit.release_files import split_ids
from trimask_proto.v1 import row_check_pb2, row_draw_pb2
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_check_pb2_grpc import RowCheckServiceStub
from trimask_proto.v1.row_draw_pb2 import RowDraw
from trimask_proto.v1.row_draw_pb2_grpc import RowDrawServiceStub
from trimask_server.collector.batches import PASSING, Intake
from trimask_server.collector.ledger import Ledger, plan_block
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.store.interface import Store, Transaction
from trimask_server.suites.rows.draw import Draw


@dataclass(frozen=True)
class DrawLedger:
    """The tables `draws` and `row_checks` of a collector."""

    database: Store
    audit: AuditLog | None = None

    async def last(self, study_id: bytes) -> int:
        """The number of the last draw; 0 if there was none."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT max(number) FROM draws WHERE study_id = ?", (study_id,))
        )
        return 0 if row is None or row[0] is None else int(row[0])

    async def begin(self, draw: RowDraw) -> None:
        """Write a draw down."""
        await self.database.write(
            lambda tx: tx.run(
                "INSERT INTO draws (study_id, number, content, state) VALUES (?, ?, ?, 'open')",
                (draw.study_id, draw.number, draw.SerializeToString()),
            )
        )

    async def save(self, draw: RowDraw) -> None:
        """How far it has come."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE draws SET content = ? WHERE study_id = ? AND number = ?",
                (draw.SerializeToString(), draw.study_id, draw.number),
            )
        )

    async def finish(self, draw: RowDraw, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        """Every right provider knows its outcome: its blocks, (id, ids of rows) each, are planned with it."""

        def write(tx: Transaction) -> None:
            first = tx.run(
                "UPDATE draws SET state = 'done' WHERE study_id = ? AND number = ? AND state = 'open'",
                (draw.study_id, draw.number),
            )
            if not first:
                return
            for block_id, ids in blocks:
                plan_block(tx, self.audit, draw.study_id, block_id, ids)
            if self.audit is not None:
                self.audit.append(
                    tx, "draw_over", study=draw.study_id.hex(), draw=draw.number, blocks=len(blocks)
                )

        await self.database.write(write)

    async def unfinished(self, study_id: bytes) -> RowDraw | None:
        """The draw that is under way."""
        return next(iter(await self._draws(study_id, "open")), None)

    async def done(self, study_id: bytes) -> list[RowDraw]:
        """The draws that are over, in their order."""
        return await self._draws(study_id, "done")

    async def _draws(self, study_id: bytes, state: str) -> list[RowDraw]:
        sql = "SELECT content FROM draws WHERE study_id = ? AND state = ? ORDER BY number"
        return await self.database.read(
            lambda tx: [RowDraw.FromString(row[0]) for row in tx.rows(sql, (study_id, state))]
        )

    async def abandon_order(self, draw: RowDraw) -> bytes:
        """The owner's order to give the draw up, if there is one (`collector.ledger`)."""
        sql = "SELECT abandon_order FROM draws WHERE study_id = ? AND number = ?"
        row = await self.database.read(lambda tx: tx.row(sql, (draw.study_id, draw.number)))
        return b"" if row is None or row[0] is None else bytes(row[0])

    async def begin_check(self, check: RowCheck) -> None:
        """Write a check down."""

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO row_checks (study_id, check_id, content, state) VALUES (?, ?, ?, 'open')",
                (check.study_id, check.check_id, check.SerializeToString()),
            )
            self._record(tx, "rows_to_check", check, rows=len(split_ids(check.submission_ids)))

        await self.database.write(write)

    async def save_check(self, check: RowCheck) -> None:
        """How far it has come."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE row_checks SET content = ? WHERE check_id = ?",
                (check.SerializeToString(), check.check_id),
            )
        )

    async def check(self, study_id: bytes, check_id: bytes) -> RowCheck | None:
        """A check that was begun."""
        sql = "SELECT content FROM row_checks WHERE study_id = ? AND check_id = ?"
        row = await self.database.read(lambda tx: tx.row(sql, (study_id, check_id)))
        return None if row is None else RowCheck.FromString(row[0])

    async def checks(self, study_id: bytes) -> list[RowCheck]:
        """Those that are decided, in the order they were begun."""
        sql = "SELECT content FROM row_checks WHERE study_id = ? AND state = 'done' ORDER BY sequence"
        return await self.database.read(
            lambda tx: [RowCheck.FromString(row[0]) for row in tx.rows(sql, (study_id,))]
        )

    async def finish_check(self, check: RowCheck, refused: Mapping[str, int]) -> None:
        """Every right provider has decided; refused rows are counted for the study's status."""

        def write(tx: Transaction) -> None:
            first = tx.run(
                "UPDATE row_checks SET state = 'done' WHERE check_id = ? AND state = 'open'",
                (check.check_id,),
            )
            if not first:
                return
            for reason, count in refused.items():
                tx.run(
                    "INSERT INTO refused_reports (study_id, reason, count) VALUES (?, ?, ?)"
                    " ON CONFLICT (study_id, reason) DO UPDATE SET count = refused_reports.count + excluded.count",
                    (check.study_id, reason, count),
                )
            self._record(tx, "rows_checked", check, refused=sum(refused.values()))

        await self.database.write(write)

    def _record(self, tx: Transaction, kind: str, check: RowCheck, **details: int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, study=check.study_id.hex(), check=check.check_id.hex(), **details)

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase a study's draws and checks, with the ids in them."""
        for table in ("draws", "row_checks"):
            tx.run(f"DELETE FROM {table} WHERE study_id = ?", (study_id,))  # noqa: S608 - names only
        return 0


T = TypeVar("T")
_WORRYING_TRIES = 5
_REFUSED = {2: Reason.OUT_OF_FRAME, 3: Reason.WRONG_TAGS}


class DrawDriver:
    """The draws of one study."""

    def __init__(self, node: NodeContext, study: Study, ledger: Ledger) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._draws = DrawLedger(ledger.database, node.audit)
        self._failures = 0
        self._asked_again: set[bytes] = set()  # rows whose old check was repeated, in this process
        # A draw begun of these rows, in this state, gave no block: the same give none again.
        self._fruitless: tuple[str, set[bytes]] = ("", set())

    async def look(self, intake: Intake, state: str) -> bool:
        """Bring the draw that was begun to its end, or begin one if it may make a block; whether there was one."""
        said, fresh = await self._draws.unfinished(self._study.id), False
        if said is None:
            if await self._decide_again(intake):
                return True
            if not self._worth_it(intake, state):
                return False
            last = await self._draws.last(self._study.id)
            # One that right providers know and this collector does not was begun after the backup it was restored from.
            said = RowDraw(study_id=self._study.id, number=max(last + 1, intake.draw_number))
            fresh = said.number > intake.draw_number
            await self._draws.begin(said)
        usable = {*intake.accepted, *intake.unchecked}
        try:
            blocks = await self._run(said)
        except Refused as error:
            await self._note_failure(said.number, error)
            raise
        self._failures = 0
        # Of a draw that was begun before, a right provider's list may be from then: without later rows, or not closing.
        self._fruitless = (state, usable) if fresh and not blocks else ("", set())
        intake.count_anew()
        return True

    def _worth_it(self, intake: Intake, state: str) -> bool:
        """Two blocks of rows, or one when the study closes; while it is counted before it closes, any row to be checked."""
        n, usable = self._study.rows.block_rows, {*intake.accepted, *intake.unchecked}
        if self._fruitless[0] == state and usable <= self._fruitless[1]:
            return False
        if state == "paused" and intake.unchecked:
            return True
        return len(usable) >= (n if state == "closing" else 2 * n)

    async def _note_failure(self, number: int, error: Refused) -> None:
        if error.reason in PASSING or error.reason is Reason.LEASE_LOST:
            return
        self._failures += 1
        if self._failures == _WORRYING_TRIES:
            await self._ledger.note(
                self._study.id,
                f"draw {number} does not come to its end, last: {error.reason}. It is tried again; "
                f"`trimask study abandon STUDY.json draw-{number}` erases its rows, and the study goes on",
            )

    async def _run(self, said: RowDraw) -> int:
        """Bring a draw to its end; how many blocks it gave."""
        order = await self._draws.abandon_order(said)
        if order:
            await self._abandon(said, order)
            return 0
        if not said.lists:
            freeze = row_draw_pb2.FreezeDrawRequest(study_id=said.study_id, number=said.number)
            try:
                frozen = await self._each(lambda party: self._call(self._stub(party).FreezeDraw, freeze))
            except Refused as error:
                if error.reason is Reason.DRAW_OVER:  # abandoned, and this collector was restored since
                    await self._draws.finish(said, [])
                raise
            said.lists.extend(answer.rows for answer in frozen)
            self._verify(said)
            await self._draws.save(said)
        if not said.verdicts and not await self._judge(said):
            await self._check(Draw(self._study, said))
            if not await self._judge(said):
                raise Refused(Reason.ROW_NOT_CHECKED, "a right provider has not decided a check of this draw")
        draw = Draw(self._study, said)
        if not said.coins:
            opening = row_draw_pb2.OpenDrawRequest(draw=said)
            shown = await self._each(lambda party: self._call(self._stub(party).OpenDraw, opening))
            if draw.opens:
                said.coins.extend(answer.coin for answer in shown)
                self._verify(said)
                await self._draws.save(said)
        if draw.opens:
            settle = row_draw_pb2.SettleDrawRequest(draw=said)
            await self._each(lambda party: self._call(self._stub(party).SettleDraw, settle))
        blocks = draw.blocks()
        await self._draws.finish(said, [(block.block_id, block.submission_ids) for block in blocks])
        self._node.log.info(
            "draw=%d pool=%d accepted=%d blocks=%d",
            said.number,
            len(draw.pool),
            len(draw.accepted),
            len(blocks),
        )
        return len(blocks)

    def _verify(self, said: RowDraw) -> None:
        try:
            Draw.verified(self._study, said)
        except VerificationError as error:
            raise Refused(Reason.BAD_SIGNATURE, str(error)) from None

    async def _judge(self, said: RowDraw) -> bool:
        """Whether all have given their verdicts; which tells them of the pool, too."""
        judge = row_draw_pb2.JudgeDrawRequest(draw=said)
        answers = await self._each(lambda party: self._call(self._stub(party).JudgeDraw, judge))
        if not all(answer.HasField("verdicts") for answer in answers):
            return False
        said.verdicts.extend(answer.verdicts for answer in answers)
        self._verify(said)
        await self._draws.save(said)
        return True

    async def _abandon(self, said: RowDraw, order: bytes) -> None:
        request = _abandonment(said, order)
        answers = await self._each(lambda party: self._call(self._stub(party).AbandonDraw, request))
        await self._draws.finish(said, [])
        rows = max(answer.erased_rows for answer in answers)
        await self._ledger.note(
            self._study.id,
            f"draw {said.number} is abandoned by the study's owner, and its {rows:,} rows are erased",
        )

    # Checks of rows

    async def _check(self, draw: Draw) -> None:
        for check_id, ids in draw.checks:
            check = await self._draws.check(self._study.id, check_id)
            if check is None:
                check = RowCheck(study_id=self._study.id, check_id=check_id, submission_ids=b"".join(ids))
                await self._draws.begin_check(check)
            await self._run_check(check)

    async def _run_check(self, check: RowCheck) -> None:
        if not check.commitments:
            commit = row_check_pb2.CommitCheckRequest(check=self._with_seed(check))
            said = await self._each(lambda party: self._call(self._check_stub(party).CommitCheck, commit))
            check.commitments.extend(answer.commitment for answer in said)
            await self._draws.save_check(check)
        if not check.coins:
            reveal = row_check_pb2.RevealCoinRequest(check=self._with_seed(check))
            shown = await self._each(lambda party: self._call(self._check_stub(party).RevealCoin, reveal))
            check.coins.extend(answer.coin for answer in shown)
            await self._draws.save_check(check)
        verdicts = await self._decide_all(check)
        rows = len(split_ids(check.submission_ids))
        refused = [max(marks[i] for marks in verdicts) for i in range(rows)]
        reasons = Counter(str(_REFUSED[mark]) for mark in refused if mark in _REFUSED)
        await self._draws.finish_check(check, reasons)
        self._node.log.info("checked rows=%d refused=%d", rows, reasons.total())

    async def _decide_again(self, intake: Intake) -> bool:
        """Rows that came again to a provider which was restored from a backup are in the check they were in, and are decided
        there; whether there were any. What is not decided then never will be."""
        behind = intake.half_checked - self._asked_again
        if not behind:
            return False
        self._asked_again |= behind
        for check in await self._draws.checks(self._study.id):
            if not behind.isdisjoint(split_ids(check.submission_ids)):
                await self._decide_all(check)
        intake.count_anew()
        return True

    async def _decide_all(self, check: RowCheck) -> list[bytes]:
        return await self._each(lambda party: self._decide(party, check))

    async def _decide(self, party: Party, check: RowCheck) -> bytes:
        request = row_check_pb2.DecideCheckRequest(check=self._with_seed(check))
        answer = await self._call(self._check_stub(party).DecideCheck, request)
        if len(answer.verdicts) != len(split_ids(check.submission_ids)):
            raise Refused(Reason.WRONG_SHAPE, "a right provider's verdict is not of this check")
        return bytes(answer.verdicts)

    async def tell(self, party: Party) -> None:
        """Have a right provider whose store was replaced repeat its earlier decisions, and its part in draws."""
        for check in await self._draws.checks(self._study.id):
            await self._decide(party, check)
        for said in await self._draws.done(self._study.id):
            try:
                await self._repeat(party, said)
            except Refused as error:
                if error.reason is not Reason.DRAW_OVER:  # it knows that much
                    raise

    async def _repeat(self, party: Party, said: RowDraw) -> None:
        """The last step of a draw that is over."""
        stub, order = self._stub(party), await self._draws.abandon_order(said)
        if order:
            await self._call(stub.AbandonDraw, _abandonment(said, order))
        elif said.coins:
            await self._call(stub.SettleDraw, row_draw_pb2.SettleDrawRequest(draw=said))
        elif said.verdicts:
            await self._call(stub.OpenDraw, row_draw_pb2.OpenDrawRequest(draw=said))

    def _with_seed(self, check: RowCheck) -> RowCheck:
        filled = RowCheck()
        filled.CopyFrom(check)
        filled.mask_seed = self._study.rows.mask_seed
        return filled

    def _stub(self, party: Party) -> RowDrawServiceStub:
        return RowDrawServiceStub(self._node.peers.channel(party))

    def _check_stub(self, party: Party) -> RowCheckServiceStub:
        return RowCheckServiceStub(self._node.peers.channel(party))

    async def _call(self, method: object, request: object) -> Any:
        return await self._node.peers.call(method, request, self._node.config.attempt_timeout_seconds)

    async def _each(self, call: Callable[[Party], Awaitable[T]]) -> list[T]:
        return list(await asyncio.gather(*(call(party) for party in self._study.right)))


def _abandonment(said: RowDraw, order: bytes) -> row_draw_pb2.AbandonDrawRequest:
    return row_draw_pb2.AbandonDrawRequest(study_id=said.study_id, number=said.number, order_signature=order)
