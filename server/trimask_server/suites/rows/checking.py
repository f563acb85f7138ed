"""The collector's part in the check of rows: it passes right providers' messages on, and decides nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.study import Party, Study
from trimask_proto.v1 import row_check_pb2
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_check_pb2_grpc import RowCheckServiceStub
from trimask_server.collector.batches import PASSING
from trimask_server.collector.intake import Intake
from trimask_server.collector.ledger import Ledger
from trimask_server.node.context import NodeContext
from trimask_server.protocol.check_coin import seed_of, sign_check
from trimask_server.protocol.draw import place
from trimask_server.protocol.plans import split_ids
from trimask_server.suites.rows.check_ledger import CheckLedger

__all__ = ["Checking"]

T = TypeVar("T")
_BATCH = 1024
_NEVER_DECIDED = "their check was given up, or a node was restored from a backup made before it"
_REFUSED = {2: Reason.OUT_OF_FRAME, 3: Reason.WRONG_TAGS}


class Checking:
    """The checks of one study."""

    def __init__(self, node: NodeContext, study: Study, ledger: Ledger) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._checks = CheckLedger(ledger.database, node.audit)
        self._places: dict[bytes, bytes] = {}  # of rows that are accepted and in no block yet

    async def look(self, intake: Intake, *, closing: bool) -> bool:
        """Finish a check that was begun, or begin one if its rows make a block possible; whether there was one."""
        for check in await self._checks.checks(self._study.id, "open"):
            await self._run(check, intake)
            return True
        if await self._decide_again(intake):
            return True
        n, accepted, fresh = self._study.rows.block_rows, len(intake.accepted), intake.unchecked
        # A block is made of 2 n rows or more, or of the n or more that are left when the study closes.
        enough = accepted + len(fresh) >= (n if closing else 2 * n)
        if not fresh or not enough or accepted >= 2 * n:
            return False  # blocks first: rows that wait are checked a batch at a time, at close too
        ids, check_id = b"".join(sorted(fresh[:_BATCH])), self._node.source.read(16)
        signature = sign_check(self._node.keys.identity, self._study.id, check_id, ids)
        check = RowCheck(study_id=self._study.id, check_id=check_id, submission_ids=ids, signature=signature)
        await self._checks.begin(check)
        await self._run(check, intake)
        return True

    async def places(self, ids: Sequence[bytes], told: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """The place that the coin of its check gives each accepted row; read again where one is not in memory.

        Of a check that was begun after the backup this collector was restored from, right providers have `told` it.
        """
        if not self._places.keys() >= set(ids):
            wanted = set(ids)
            for check in await self._checks.checks(self._study.id, "done"):
                seed = seed_of(check)
                self._places |= {
                    name: place(seed, name) for name in wanted.intersection(split_ids(check.submission_ids))
                }
        self._places = {name: self._places.get(name) or told.get(name, b"") for name in ids}
        return self._places

    async def _decide_again(self, intake: Intake) -> bool:
        """Rows that came again to a provider which was restored from a backup are in the check they were in; whether there
        were any.

        What is not decided then never will be. Providers that have accepted such a row miss it in every plan, so it is
        given up.
        """
        behind = intake.half_checked
        if not behind:
            return False
        for check in await self._checks.checks(self._study.id, "done"):
            ids = split_ids(check.submission_ids)
            if behind.isdisjoint(ids):
                continue
            intake.note_check(ids, _accepted(ids, await self._decide_all(check)))
        lost = sorted(behind & intake.half_checked)
        if lost:
            block = await self._ledger.plan(self._study.id, self._node.source.read(16), lost)
            await self._ledger.give_up(self._study.id, block.block_id, _NEVER_DECIDED)
            intake.remove(lost)
            await self._ledger.note(
                self._study.id,
                f"{len(lost)} rows are lost: {_NEVER_DECIDED}. Nothing of them is in a release",
            )
        return True

    async def _run(self, check: RowCheck, intake: Intake) -> None:
        try:
            verdicts = await self._verdicts(check)
        except Refused as error:
            if error.reason not in PASSING and await self._checks.failed(
                check, self._node.config.max_attempts
            ):
                rows = len(split_ids(check.submission_ids))
                await self._ledger.note(
                    self._study.id,
                    f"check {check.check_id.hex()[:12]} of {rows} rows was given up, last: {error.reason}. They are in no "
                    "block and are erased when the study closes",
                )
            raise
        ids = split_ids(check.submission_ids)
        refused = [max(marks[i] for marks in verdicts) for i in range(len(ids))]
        reasons = Counter(str(_REFUSED[mark]) for mark in refused if mark in _REFUSED)
        await self._checks.finish(check, reasons)
        intake.note_check(ids, _accepted(ids, verdicts))
        self._node.log.info("checked rows=%d refused=%d", len(ids), reasons.total())

    async def _verdicts(self, check: RowCheck) -> list[bytes]:
        if not check.commitments:
            commit = row_check_pb2.CommitCheckRequest(check=self._with_seed(check))
            said = await self._each(lambda party: self._call(self._stub(party).CommitCheck, commit))
            check.commitments.extend(answer.commitment for answer in said)
            await self._checks.save(check)
        if not check.coins:
            reveal = row_check_pb2.RevealCoinRequest(check=self._with_seed(check))
            shown = await self._each(lambda party: self._call(self._stub(party).RevealCoin, reveal))
            check.coins.extend(answer.coin for answer in shown)
            await self._checks.save(check)
        return await self._decide_all(check)

    async def _decide_all(self, check: RowCheck) -> list[bytes]:
        return await self._each(lambda party: self._decide(party, check))

    async def _decide(self, party: Party, check: RowCheck) -> bytes:
        request = row_check_pb2.DecideCheckRequest(check=self._with_seed(check))
        answer = await self._call(self._stub(party).DecideCheck, request)
        if len(answer.verdicts) != len(split_ids(check.submission_ids)):
            raise Refused(Reason.WRONG_SHAPE, "a right provider's verdict is not of this check")
        return bytes(answer.verdicts)

    async def tell(self, party: Party) -> None:
        """Have a right provider whose store was replaced repeat its earlier decisions."""
        for check in await self._checks.checks(self._study.id, "done"):
            await self._decide(party, check)

    def _with_seed(self, check: RowCheck) -> RowCheck:
        filled = RowCheck()
        filled.CopyFrom(check)
        filled.mask_seed = self._study.rows.mask_seed
        return filled

    def _stub(self, party: Party) -> RowCheckServiceStub:
        return RowCheckServiceStub(self._node.peers.channel(party))

    async def _call(self, method: object, request: object) -> Any:
        return await self._node.peers.call(method, request, self._node.config.attempt_timeout_seconds)

    async def _each(self, call: Callable[[Party], Awaitable[T]]) -> list[T]:
        return list(await asyncio.gather(*(call(party) for party in self._study.right)))


def _accepted(ids: list[bytes], verdicts: list[bytes]) -> list[bytes]:
    return [name for i, name in enumerate(ids) if all(marks[i] == 1 for marks in verdicts)]
