"""Which submissions are bound together: what a right provider serves the collector and its peers, whatever the suite.

A block of the rows suite and a batch of another are the same here: a set of submission ids, bound for ever.

Submissions that some right provider does not have: how the others find them, and when they erase them.

Anybody can send one provider of an open study as much as they like. What the other providers do not have can be in no block,
so it would stay until the study closes. Therefore providers ask each other (not the collector, which could have rows erased
that it does not want):

- What every other provider holds is marked complete, and never asked about or touched again, whatever is lost later.
- What another provider does not hold is erased when it is old, or the oldest of it when there is much; but only once the
  other one has written down that it will never take it. So nothing can become complete meanwhile, and a device that comes
  to any of them later is told why (`incomplete_submission`).

In a study for invited people each invitation brings one submission, so there is an end to them, and nothing is erased: the
person could not answer again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import verify
from trimask_core.study.definition import Study
from trimask_core.study.signed import verify_close
from trimask_core.submit.release_files import plan_hash, plan_message, sign_bound, split_ids
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1 import right_batches_pb2, right_batches_pb2_grpc
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_server.access.permissions import admitted
from trimask_server.right.row_intake import INCOMPLETE, list_again
from trimask_server.right.rows import RowStore
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context, peer_names
from trimask_server.store.interface import Transaction

_MINUTE_MS = 60_000
_GRACE_MS = 10 * _MINUTE_MS  # a device sends to one provider after the other
_AGE_MS = 30 * 24 * 60 * _MINUTE_MS
_MOST = 10_000
_MOST_REMEMBERED = 100_000
_PAGE = 8192
_UNSEEN = bytes(32)  # in the place of a hash: of a submission refused before it came
_OPEN = "SELECT 1 FROM studies WHERE study_id = ? AND state = 'open'"


class IncompleteRows:
    """What one right provider holds of submissions that others lack."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node

    async def sweep(self, now_ms: int) -> int:
        """Ask about every open study for everybody, and erase what is due; how many submissions."""
        node = self._node
        studies = [study for study in node.studies.all() if node.studies.state(study.id) == "open"]
        return sum([await self._sweep(study, now_ms) for study in studies if study.admission == "open"])

    async def _sweep(self, study: Study, now_ms: int) -> int:
        own = self._node.role_in(study)
        others = [f"R{k}" for k in range(1, len(study.right) + 1) if f"R{k}" != own]
        lacking: list[tuple[int, bytes]] = []
        lacked_by: defaultdict[str, set[bytes]] = defaultdict(set)
        silent: set[str] = set()
        after = 0
        while page := await self._node.database.read(
            partial(_unmarked, study_id=study.id, until_ms=now_ms - _GRACE_MS, after=after)
        ):
            ids = [submission_id for _, submission_id, _ in page]
            for role in others:
                lacked_by[role].update(await self._ask(study, role, ids, silent))
            lacked = set().union(*lacked_by.values())
            if not silent:
                await self._node.database.write(
                    partial(_mark, study_id=study.id, ids=sorted(set(ids) - lacked))
                )
            lacking += [(came_ms, name) for _, name, came_ms in page if name in lacked]
            after = page[-1][0]
        too_many = len(lacking) - _MOST
        due = {
            name for at, (came_ms, name) in enumerate(lacking) if at < too_many or came_ms <= now_ms - _AGE_MS
        }
        refused: set[bytes] = set()
        for role in others:
            names = sorted(due & lacked_by[role])
            for first in range(0, len(names), _PAGE):
                refused.update(
                    await self._ask(study, role, names[first : first + _PAGE], silent, refuse=True)
                )
        return await self._erase(study, sorted(refused & due)) if refused else 0

    async def _ask(
        self, study: Study, role: str, ids: Sequence[bytes], silent: set[str], *, refuse: bool = False
    ) -> list[bytes]:
        """The ids that another right provider lacks, as far as it answers."""
        if role in silent:
            return []
        stub = RightBatchServiceStub(self._node.peers.channel(study.party(role)))
        request = right_batches_pb2.FindMissingRequest(
            study_id=study.id, submission_ids=b"".join(ids), refuse=refuse
        )
        try:
            answer = await self._node.peers.call(stub.FindMissing, request)
            return split_ids(answer.missing_ids) if answer.missing_ids else []
        except Refused as error:
            self._node.log.info(
                "%s does not say what it lacks of study=%s: %s", role, study.id.hex()[:12], error
            )
            silent.add(role)
            return []

    async def _erase(self, study: Study, ids: Sequence[bytes]) -> int:
        node = self._node

        def write(tx: Transaction) -> int:
            erased = sum(_erase(tx, study.id, name) for name in ids)
            _forget_oldest(tx, study.id)
            if erased:
                node.audit.append(tx, "incomplete_rows_erased", study=study.id.hex(), rows=erased)
            return erased

        erased = await node.database.write(write)
        for _ in range(erased):
            node.refusals.count(Reason.INCOMPLETE_SUBMISSION, study.id)
        node.metrics.erased_rows.labels("incomplete").inc(erased)
        if erased:
            node.log.warning(
                "erased study=%s rows=%d that another provider lacks", study.id.hex()[:12], erased
            )
            await node.database.scrub()
        return erased


def find_missing(tx: Transaction, study_id: bytes, ids: Sequence[bytes]) -> list[bytes]:
    """Those that are neither held here nor in a block."""
    held = (
        "SELECT 1 FROM submissions WHERE study_id = ? AND submission_id = ?"
        " AND (payload IS NOT NULL OR block_id IS NOT NULL)"
    )
    return [name for name in ids if tx.row(held, (study_id, name)) is None]


def refuse_missing(tx: Transaction, study_id: bytes, ids: Sequence[bytes], now_ms: int) -> list[bytes]:
    """The same, and from now on none of those is ever taken; none while the study is not open."""
    if tx.row(_OPEN, (study_id,)) is None:
        return []
    missing = find_missing(tx, study_id, ids)
    tx.run_many(
        "INSERT INTO submissions (study_id, submission_id, payload_hash, receive_time_ms, verdict)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (study_id, submission_id) DO NOTHING",
        [(study_id, name, _UNSEEN, now_ms, INCOMPLETE) for name in missing],
    )
    _forget_oldest(tx, study_id)
    return missing


def _unmarked(tx: Transaction, study_id: bytes, until_ms: int, after: int) -> list[tuple[int, bytes, int]]:
    """(sequence, id, when it came) of rows that wait and were never seen at all providers, in order of arrival."""
    found = tx.rows(
        "SELECT sequence, submission_id, receive_time_ms FROM submissions WHERE study_id = ? AND block_id IS NULL"
        " AND sequence > ? AND complete = 0 AND payload IS NOT NULL AND receive_time_ms <= ?"
        " ORDER BY sequence LIMIT ?",
        (study_id, after, until_ms, _PAGE),
    )
    return [(int(row[0]), bytes(row[1]), int(row[2])) for row in found]


def _mark(tx: Transaction, study_id: bytes, ids: Sequence[bytes]) -> None:
    tx.run_many(
        "UPDATE submissions SET complete = 1 WHERE study_id = ? AND submission_id = ?",
        [(study_id, name) for name in ids],
    )


def _erase(tx: Transaction, study_id: bytes, submission_id: bytes) -> int:
    erased = tx.run(
        "UPDATE submissions SET payload = NULL, verdict = ? WHERE study_id = ? AND submission_id = ?"
        " AND block_id IS NULL AND draw_number IS NULL AND payload IS NOT NULL AND complete = 0"
        " AND study_id IN (SELECT study_id FROM studies WHERE state = 'open')",
        (INCOMPLETE, study_id, submission_id),
    )
    if erased:
        list_again(tx, study_id, submission_id)
    return erased


def _forget_oldest(tx: Transaction, study_id: bytes) -> None:
    """Forget ids of what was erased long ago, so that they do not fill the disk either."""
    tx.run(
        "DELETE FROM submissions WHERE study_id = ? AND verdict = ? AND sequence <= (SELECT sequence FROM submissions"
        " WHERE study_id = ? AND verdict = ? ORDER BY sequence DESC LIMIT 1 OFFSET ?)",
        (study_id, INCOMPLETE, study_id, INCOMPLETE, _MOST_REMEMBERED),
    )


class BlockRules(Protocol):
    """What a suite says about blocks at a right provider."""

    def check_plan(self, study: Study, rows: int) -> None:
        """Refuse a plan of so many rows, if the study has no blocks of that size."""
        ...

    @property
    def draws_blocks(self) -> bool:
        """Whether right providers draw blocks, and the collector plans none."""
        ...

    def forget_block(self, study_id: bytes, block_id: bytes) -> None:
        """Forget what is held in memory for a block that is erased."""
        ...


def _planned_ids(
    study: Study, request: right_batches_pb2.AssignBlockRequest | right_batches_pb2.EraseBlockRequest
) -> list[bytes]:
    """A plan's ids, which the collector signed."""
    ids = split_ids(request.submission_ids)
    message = plan_message(study.id, request.block_id, request.submission_ids)
    verify(study.collector.identity, "block-plan", message, request.signature, "the block plan")
    return ids


def _erased_ids(rules: BlockRules, study: Study, request: right_batches_pb2.EraseBlockRequest) -> list[bytes]:
    """The ids of a plan that is not known here. What is in a drawn block follows from its draw, not from the collector."""
    return _planned_ids(study, request) if request.submission_ids and not rules.draws_blocks else []


class RightBatchServicer(right_batches_pb2_grpc.RightBatchServiceServicer):
    """Serves the collector, and the other right providers one call."""

    def __init__(self, node: NodeContext, rows: RowStore, rules: Mapping[str, BlockRules]) -> None:
        self._node = node
        self._rows = rows
        self._rules = rules  # by suite

    async def FindMissing(
        self, request: right_batches_pb2.FindMissingRequest, context: Context
    ) -> right_batches_pb2.FindMissingResponse:
        study = admitted().study
        ids, now_ms, database = (
            split_ids(request.submission_ids),
            self._node.clock.now_ms(),
            self._node.database,
        )
        if request.refuse and study.admission == "open":
            missing = await database.write(lambda tx: refuse_missing(tx, study.id, ids, now_ms))
        else:
            missing = await database.read(lambda tx: find_missing(tx, study.id, ids))
        return right_batches_pb2.FindMissingResponse(missing_ids=b"".join(missing))

    async def ListNews(
        self, request: right_batches_pb2.ListNewsRequest, context: Context
    ) -> right_batches_pb2.ListNewsResponse:
        node, names = self._node, peer_names(context)
        newest, found = await self._rows.news(request.after)
        known = {study.id: study for study in node.studies.all()}
        if not known.keys() >= set(found):  # another worker of this node has registered one
            await node.studies.refresh()
            known = {study.id: study for study in node.studies.all()}
        its = (name for name in found if name in known and known[name].collector.tls_name in names)
        return right_batches_pb2.ListNewsResponse(
            newest=newest, study_ids=its, store_generation=node.database.generation
        )

    async def ListPending(
        self, request: right_batches_pb2.ListPendingRequest, context: Context
    ) -> right_batches_pb2.ListPendingResponse:
        study = admitted().study
        token = request.page_token or "0"
        if not (token.isascii() and token.isdigit() and len(token) < 19):  # a row's sequence, 63 bits at most
            raise Refused(Reason.MALFORMED, "page_token must be one that this provider gave")
        limit = min(request.page_size or _PAGE, _PAGE)
        found = await self._rows.pending(study.id, int(token), limit)
        return right_batches_pb2.ListPendingResponse(
            submission_ids=b"".join(submission_id for _, submission_id, _ in found),
            checked=bytes(mark for _, _, mark in found),
            draw_number=await self._rows.last_draw(study.id),
            next_page_token=str(found[-1][0]) if len(found) == limit else "",
            store_generation=self._node.database.generation,
        )

    async def PauseIntake(
        self, request: right_batches_pb2.PauseIntakeRequest, context: Context
    ) -> right_batches_pb2.PauseIntakeResponse:
        study = admitted().study
        kind = "study_paused" if request.turn % 2 else "study_resumed"
        entry = self._node.audit.entry(kind, study=study.id.hex())
        turn = await self._node.studies.follow(study.id, request.turn, entry)
        people = await self._rows.people(study.id) if turn % 2 else 0
        return right_batches_pb2.PauseIntakeResponse(turn=turn, people=people)

    async def StopIntake(
        self, request: right_batches_pb2.StopIntakeRequest, context: Context
    ) -> right_batches_pb2.StopIntakeResponse:
        study, order = admitted().study, request.order
        people = order.close_people
        if people and not await self._node.studies.is_closing(study.id):  # later they are fewer: rows go
            people = await self._rows.people(study.id)
        verify_close(study, order, self._node.clock.now_ms(), people)
        entry = self._node.audit.entry("study_closing", study=study.id.hex())
        await self._node.studies.set_state(study.id, "closing", entry)
        return right_batches_pb2.StopIntakeResponse()

    async def AssignBlock(
        self, request: right_batches_pb2.AssignBlockRequest, context: Context
    ) -> right_batches_pb2.AssignBlockResponse:
        study = admitted().study
        rules = self._rules[study.suite.name]
        if rules.draws_blocks:
            joined = await self._rows.bind_drawn(study.id, request.block_id)
        else:
            ids, joined = _planned_ids(study, request), request.submission_ids
            rules.check_plan(study, len(ids))
            if len(request.block_id) != SUBMISSION_ID_BYTES or ids != sorted(set(ids)):
                raise Refused(
                    Reason.MALFORMED, "a plan has a 16-byte block id and sorted, distinct submission ids"
                )
            withdrawn = await self._rows.assign(study.id, request.block_id, ids)
            if withdrawn:
                self._node.log.info("declined block=%s withdrawn=%d", request.block_id.hex(), len(withdrawn))
                return right_batches_pb2.AssignBlockResponse(withdrawn_ids=b"".join(withdrawn))
        self._node.log.info("assigned block=%s", request.block_id.hex())
        plan = plan_hash(study.id, request.block_id, joined)
        return right_batches_pb2.AssignBlockResponse(
            bound_signature=sign_bound(self._node.keys.identity, plan)
        )

    async def CancelBlock(
        self, request: right_batches_pb2.CancelBlockRequest, context: Context
    ) -> right_batches_pb2.CancelBlockResponse:
        study = admitted().study
        if len(request.block_id) != SUBMISSION_ID_BYTES:
            raise Refused(Reason.MALFORMED, "a block id has 16 bytes")
        if self._rules[study.suite.name].draws_blocks:
            raise Refused(Reason.OUT_OF_STEP, "blocks of this study are drawn: none is cancelled")
        verify(
            study.collector.identity, "block-cancel", plan_message(study.id, request.block_id, b""),
            request.signature, "the cancellation",
        )  # fmt: skip
        await self._rows.cancel(study.id, request.block_id)
        self._node.log.info("cancelled block=%s", request.block_id.hex())
        return right_batches_pb2.CancelBlockResponse()

    async def EraseBlock(
        self, request: right_batches_pb2.EraseBlockRequest, context: Context
    ) -> right_batches_pb2.EraseBlockResponse:
        study = admitted().study
        rules = self._rules[study.suite.name]
        ids = _erased_ids(rules, study, request)
        rows = await self._rows.erase_block(study.id, request.block_id, ids)
        rules.forget_block(study.id, request.block_id)
        self._node.metrics.erased_rows.labels("pooled").inc(rows)
        self._node.log.info("erased block=%s rows=%d", request.block_id.hex(), rows)
        return right_batches_pb2.EraseBlockResponse(erased_rows=rows)

    async def EraseStudy(
        self, request: right_batches_pb2.EraseStudyRequest, context: Context
    ) -> right_batches_pb2.EraseStudyResponse:
        study = admitted().study
        state, _ = await self._node.studies.intake(study.id)
        if state not in ("closing", "closed"):
            raise Refused(Reason.NOT_YET, "the study is not closing here: its owner's order comes first")
        entry = self._node.audit.entry("study_closed", study=study.id.hex())
        await self._node.studies.set_state(study.id, "closed", entry)
        rows = await self._rows.erase_pending(study.id)
        self._node.metrics.erased_rows.labels("unused").inc(rows)
        self._node.log.info("erased study=%s unused_rows=%d", study.id.hex()[:12], rows)
        return right_batches_pb2.EraseStudyResponse(erased_rows=rows)
