"""A right provider's part in the draw of blocks (`draw`): each step written down, then signed or shown.

Of its present draw each step is on disk before anybody is told of it, and a repeat gives the same. A store that was
restored from before a step takes it from the draw itself, in which this provider's own signatures are. The ids that a
draw has fixed are marked beside the rows (`draw_number`) until the row is in a block or goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.signed import verify_abandon
from trimask_core.submit.release_files import split_ids
from trimask_proto.v1 import row_draw_pb2, row_draw_pb2_grpc
from trimask_proto.v1.row_draw_pb2 import FrozenRows, PoolVerdicts, RowDraw
from trimask_server.access.permissions import admitted
from trimask_server.right.row_intake import list_again
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.store import held_blocks
from trimask_server.store.held_blocks import HeldState
from trimask_server.store.interface import Store, Transaction
from trimask_server.suites.rows.draw import Draw, coin_of, freeze, most_rows, sign_verdicts

_RELEASE = (
    "UPDATE submissions SET draw_number = NULL WHERE study_id = ? AND block_id IS NULL AND draw_number = ?"
)
Sign = Callable[[list[tuple[bytes, int]], bool], FrozenRows]


@dataclass(frozen=True)
class _Known:
    number: int
    own: FrozenRows
    lists: bytes | None  # the hash of all lists
    verdicts: PoolVerdicts | None
    votes: bytes | None  # the hash of all verdicts
    over: bool

    @property
    def abandoned(self) -> bool:
        return self.over and self.lists is None


@dataclass(frozen=True)
class DrawStore:
    """The table `draws`: one draw of each study."""

    database: Store
    audit: AuditLog | None = None

    async def freeze(self, study_id: bytes, number: int, most: int, sign: Sign) -> FrozenRows:
        """Fix every row that is here and in no block, the `most` oldest if they are more, and sign the list."""

        def write(tx: Transaction) -> FrozenRows:
            known = _find(tx, study_id)
            if known is not None and known.number == number and not known.abandoned:
                return known.own
            if known is not None and number <= known.number:
                raise Refused(Reason.DRAW_OVER, f"draw {number} is over here")
            if (known is not None and not known.over) or held_blocks.has_unbound(tx, study_id):
                raise Refused(Reason.NOT_YET, "the last draw is not over, or a block of it is not bound here")
            state = tx.row("SELECT state FROM studies WHERE study_id = ?", (study_id,))
            if state is None or state[0] == "closed":
                raise Refused(Reason.STUDY_CLOSED, "this study is closed here")
            first_left_out = tx.row(
                "SELECT sequence FROM submissions WHERE study_id = ? AND block_id IS NULL AND payload IS NOT NULL"
                " ORDER BY sequence LIMIT 1 OFFSET ?",
                (study_id, most),
            )
            # One statement finds and marks them: a withdrawal comes before it, or is refused.
            found = tx.rows(
                "UPDATE submissions SET draw_number = ? WHERE study_id = ? AND block_id IS NULL AND payload IS NOT NULL"
                " AND sequence < ? RETURNING submission_id, check_id, verdict",
                (number, study_id, first_left_out[0] if first_left_out else (1 << 63) - 1),
            )
            rows = [(bytes(row[0]), 1 if row[2] == 1 else 0 if row[1] is None else 2) for row in found]
            frozen = sign(rows, state[0] == "closing" and first_left_out is None)
            self._put(tx, study_id, number, frozen)
            self._record(tx, "draw_begun", study_id, number, rows=len(rows))
            return frozen

        return await self.database.write(write)

    async def judge(
        self, draw: Draw, own: FrozenRows, sign: Callable[[bytes], PoolVerdicts]
    ) -> PoolVerdicts | None:
        """Sign which rows of the pool this provider has accepted; None while a check of the draw is not decided here."""

        def write(tx: Transaction) -> PoolVerdicts | None:
            known = self._take_lists(tx, draw, own)
            if known.verdicts is not None:
                return known.verdicts
            study_id = draw.study.id
            if not _all_decided(tx, draw):
                return None
            here = {
                bytes(row[0])
                for row in tx.rows(
                    "SELECT submission_id FROM submissions WHERE study_id = ? AND block_id IS NULL AND draw_number = ?"
                    " AND verdict = 1 AND payload IS NOT NULL",
                    (study_id, draw.said.number),
                )
            }
            verdicts = sign(bytes(name in here for name in draw.pool))
            _set(tx, study_id, "verdicts", verdicts.SerializeToString())
            return verdicts

        return await self.database.write(write)

    async def open(self, draw: Draw, own: FrozenRows, verdicts: PoolVerdicts) -> None:
        """Take the verdicts of all for this draw's, for ever; with too few accepted rows it is over, and they go back."""

        def write(tx: Transaction) -> None:
            known = self._take_verdicts(tx, draw, own, verdicts)
            if not draw.opens and not known.over:
                tx.run(_RELEASE, (draw.study.id, draw.said.number))
                self._end(tx, draw, blocks=0)

        await self.database.write(write)

    async def settle(self, draw: Draw, own: FrozenRows, verdicts: PoolVerdicts) -> None:
        """Write the blocks down; rows that are in none go back. A draw that is left behind here changes nothing."""

        def write(tx: Transaction) -> None:
            study_id, number = draw.study.id, draw.said.number
            past = _find(tx, study_id)
            if past is not None and past.number > number:
                return
            if self._take_verdicts(tx, draw, own, verdicts).over:
                return
            blocks = draw.blocks()
            found = [(block.block_id, block.submission_ids) for block in blocks]
            held_blocks.put(tx, study_id, found, HeldState.UNBOUND)
            drawn = {name for block in blocks for name in split_ids(block.submission_ids)}
            _release(tx, study_id, number, (name for name in draw.pool if name not in drawn))
            self._end(tx, draw, blocks=len(blocks))

        await self.database.write(write)

    async def abandon(self, study_id: bytes, number: int) -> int:
        """Erase every row that an unfinished draw has fixed, or has drawn for a block that is not bound here; how many there
        were. No draw of that number or a lower one can come any more."""

        def write(tx: Transaction) -> int:
            known = _find(tx, study_id)
            if known is not None and known.number > number:
                return 0
            rows = tx.rows(
                "UPDATE submissions SET payload = NULL, draw_number = NULL WHERE study_id = ? AND draw_number IS NOT NULL"
                " AND block_id IS NULL RETURNING submission_id",
                (study_id,),
            )
            for (name,) in rows:
                list_again(tx, study_id, name)
            held_blocks.erase_unbound(tx, study_id)
            if known is None or known.number < number or not known.over:
                self._put(tx, study_id, number, FrozenRows())
                _set(tx, study_id, "over", 1)
                self._record(tx, "draw_abandoned", study_id, number, rows=len(rows))
            return len(rows)

        erased = await self.database.write(write)
        if erased:
            await self.database.scrub()
        return erased

    def _take_lists(self, tx: Transaction, draw: Draw, own: FrozenRows) -> _Known:
        """Take the lists of all for this draw's, for ever; refused if it has others here."""
        study_id, number = draw.study.id, draw.said.number
        known = _find(tx, study_id)
        if known is None or known.number < number:
            # Restored from before it: `own` is what this provider has signed. It has been told of earlier draws first.
            if known is not None and not known.over:
                raise Refused(Reason.NOT_YET, "this provider's last draw is not over")
            self._put(tx, study_id, number, own)
            tx.run_many(
                "UPDATE submissions SET draw_number = ? WHERE study_id = ? AND submission_id = ? AND block_id IS NULL"
                " AND payload IS NOT NULL",
                [(number, study_id, name) for name in split_ids(own.submission_ids)],
            )
            known = _Known(number, own, None, None, None, over=False)
        elif known.number > number or known.abandoned:
            raise Refused(Reason.DRAW_OVER, f"draw {number} is over here")
        elif known.own != own or known.lists not in (None, draw.lists_hash):
            raise Refused(Reason.OUT_OF_STEP, "this provider knows the draw with other lists")
        if known.lists is None:
            pool, mine = set(draw.pool), split_ids(own.submission_ids)
            _release(tx, study_id, number, (name for name in mine if name not in pool))
            _set(tx, study_id, "lists", draw.lists_hash)
            tx.run_many(
                "INSERT INTO row_checks (study_id, check_id, submission_ids, held) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (study_id, check_id) DO NOTHING",
                [(study_id, check_id, b"".join(ids), b"") for check_id, ids in draw.checks],
            )
        return known

    def _take_verdicts(self, tx: Transaction, draw: Draw, own: FrozenRows, verdicts: PoolVerdicts) -> _Known:
        known = self._take_lists(tx, draw, own)
        if known.verdicts not in (None, verdicts) or known.votes not in (None, draw.votes_hash):
            raise Refused(Reason.OUT_OF_STEP, "this provider knows the draw with other verdicts")
        _set(tx, draw.study.id, "verdicts", verdicts.SerializeToString())
        _set(tx, draw.study.id, "votes", draw.votes_hash)
        return known

    def _put(self, tx: Transaction, study_id: bytes, number: int, own: FrozenRows) -> None:
        tx.run("DELETE FROM draws WHERE study_id = ?", (study_id,))
        tx.run(
            "INSERT INTO draws (study_id, number, own) VALUES (?, ?, ?)",
            (study_id, number, own.SerializeToString()),
        )

    def _end(self, tx: Transaction, draw: Draw, *, blocks: int) -> None:
        _set(tx, draw.study.id, "over", 1)
        accepted = len(draw.accepted)
        self._record(tx, "draw_over", draw.study.id, draw.said.number, rows=accepted, blocks=blocks)

    def _record(self, tx: Transaction, kind: str, study_id: bytes, number: int, **counts: int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, study=study_id.hex(), draw=number, **counts)

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase a study's draw; its rows are erased by the row store."""
        tx.run("DELETE FROM draws WHERE study_id = ?", (study_id,))
        return 0


def _all_decided(tx: Transaction, draw: Draw) -> bool:
    """Whether every check of the draw is decided here: no verdict leaves a row out whose check the collector holds back."""
    decided = "SELECT 1 FROM row_checks WHERE study_id = ? AND check_id = ? AND decided = 1"
    return all(tx.row(decided, (draw.study.id, check_id)) for check_id, _ in draw.checks)


def _find(tx: Transaction, study_id: bytes) -> _Known | None:
    row = tx.row(
        "SELECT number, own, lists, verdicts, votes, over FROM draws WHERE study_id = ?", (study_id,)
    )
    if row is None:
        return None
    lists, verdicts, votes = (None if value is None else bytes(value) for value in row[2:5])
    signed = None if verdicts is None else PoolVerdicts.FromString(verdicts)
    return _Known(int(row[0]), FrozenRows.FromString(bytes(row[1])), lists, signed, votes, over=bool(row[5]))


def _set(tx: Transaction, study_id: bytes, column: str, value: bytes | int) -> None:
    tx.run(f"UPDATE draws SET {column} = ? WHERE study_id = ?", (value, study_id))  # noqa: S608 - names only


def _release(tx: Transaction, study_id: bytes, number: int, names: Iterable[bytes]) -> None:
    tx.run_many(
        _RELEASE + " AND submission_id = ?",
        [(study_id, number, name) for name in names],
    )


class RowDrawServicer(row_draw_pb2_grpc.RowDrawServiceServicer):
    """Serves the collector."""

    def __init__(self, node: NodeContext, store: DrawStore) -> None:
        self._node = node
        self._store = store

    def _verified(self, said: RowDraw) -> tuple[Draw, int]:
        """The draw, and this provider's place among its lists."""
        study, _, own = admitted()
        return Draw.verified(study, said), int(own[1:]) - 1

    def _with_verdicts(self, said: RowDraw) -> tuple[Draw, FrozenRows, PoolVerdicts]:
        """The draw with the verdicts of all; this provider's own list and verdicts in it."""
        draw, own = self._verified(said)
        if not said.verdicts:
            raise Refused(Reason.MALFORMED, "a draw needs the verdicts of all right providers first")
        return draw, said.lists[own], said.verdicts[own]

    async def FreezeDraw(
        self, request: row_draw_pb2.FreezeDrawRequest, context: Context
    ) -> row_draw_pb2.FreezeDrawResponse:
        (study, _, role), number = admitted(), request.number
        if not number:
            raise Refused(Reason.MALFORMED, "draws are numbered from 1")
        key = self._node.keys.identity

        def sign(rows: list[tuple[bytes, int]], closing: bool) -> FrozenRows:
            return freeze(key, role, study.id, number, rows, closing=closing)

        rows = await self._store.freeze(study.id, number, most_rows(study), sign)
        self._node.log.info("draw=%d rows=%d", number, len(rows.checked))
        return row_draw_pb2.FreezeDrawResponse(rows=rows)

    async def JudgeDraw(
        self, request: row_draw_pb2.JudgeDrawRequest, context: Context
    ) -> row_draw_pb2.JudgeDrawResponse:
        draw, own = self._verified(request.draw)
        key, role = self._node.keys.identity, admitted().own
        verdicts = await self._store.judge(
            draw, request.draw.lists[own], lambda marks: sign_verdicts(key, role, draw, marks)
        )
        return row_draw_pb2.JudgeDrawResponse(verdicts=verdicts)

    async def OpenDraw(
        self, request: row_draw_pb2.OpenDrawRequest, context: Context
    ) -> row_draw_pb2.OpenDrawResponse:
        draw, rows, verdicts = self._with_verdicts(request.draw)
        await self._store.open(draw, rows, verdicts)
        coin = coin_of(self._node.keys.identity, draw.study.id, draw.said.number, rows)
        return row_draw_pb2.OpenDrawResponse(coin=coin if draw.opens else b"")

    async def SettleDraw(
        self, request: row_draw_pb2.SettleDrawRequest, context: Context
    ) -> row_draw_pb2.SettleDrawResponse:
        draw, rows, verdicts = self._with_verdicts(request.draw)
        if not request.draw.coins:
            raise Refused(Reason.MALFORMED, "a draw needs the coins of all right providers first")
        await self._store.settle(draw, rows, verdicts)
        return row_draw_pb2.SettleDrawResponse()

    async def AbandonDraw(
        self, request: row_draw_pb2.AbandonDrawRequest, context: Context
    ) -> row_draw_pb2.AbandonDrawResponse:
        study = admitted().study
        verify_abandon(study, request.number, request.order_signature)
        rows = await self._store.abandon(study.id, request.number)
        self._node.metrics.erased_rows.labels("unused").inc(rows)
        self._node.log.warning("draw=%d is abandoned by the study's owner rows=%d", request.number, rows)
        return row_draw_pb2.AbandonDrawResponse(erased_rows=rows)
