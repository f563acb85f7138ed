"""A right provider checks rows with the others before any of them may be planned (`check`).

The collector carries commitments and coins from one to the other and can choose neither; what is opened goes between right
providers alone. Every step may be repeated, and after a restart or a restore gives the same.

A row is in one check for ever, and a check has one seed. What was opened of a row is a fixed function of the row and the
seed, so nothing is opened twice under other directions, whatever is asked again; and the directions can be taken out of
the row whenever it is masked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.rows.payloads import ELEMENT_BYTES, TAG_BYTES
from trimask_core.study.definition import Study
from trimask_core.submit.release_files import split_ids
from trimask_proto.v1 import row_check_pb2, row_check_pb2_grpc
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_check_pb2_grpc import RowCheckPeerServiceStub
from trimask_server.access.permissions import admitted
from trimask_server.right.row_intake import list_again
from trimask_server.right.rows import in_groups
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.metrics import add_counts
from trimask_server.runtime.tls import Context
from trimask_server.store.interface import Store, Transaction
from trimask_server.suites.rows.attempt_shares import KEPT_SECONDS, Frames, OpenRows, Row
from trimask_server.suites.rows.check import (
    Openings,
    challenge,
    check_ids,
    checked_ids,
    coin_of,
    combinations,
    combinations_hold,
    commit,
    commitments_hash,
    directions,
    judge,
    open_component,
    pack_openings,
    seed_of,
    unpack_openings,
)

_MESSAGE_BYTES = 1 << 20
_MARKS: dict[Reason | None, int] = {None: 1, Reason.OUT_OF_FRAME: 0, Reason.WRONG_TAGS: -1}
"""The column `verdict`."""
_WHY = {code: reason for reason, code in _MARKS.items()}


@dataclass(frozen=True)
class CheckStore:
    """The table `row_checks`, and what is noted beside each row. Of a check that was not begun here, but is one of the
    present draw's, `held` is empty."""

    database: Store
    audit: AuditLog | None = None

    async def bind(self, study_id: bytes, check_id: bytes, ids: Sequence[bytes]) -> bytes:
        """Bind the rows of a draw's check to it; for each, 1 if it is here and in no other check or block, else 0. The first
        answer stays."""

        def write(tx: Transaction) -> bytes:
            known = _find(tx, study_id, check_id)
            if known is None or known[0] != b"".join(ids):
                raise Refused(Reason.OUT_OF_STEP, "no draw has a check of these rows here")
            if known[1]:
                return known[1]
            bound = {
                bytes(row[0])
                for row in in_groups(
                    tx,
                    "UPDATE submissions SET check_id = ? WHERE study_id = ? AND block_id IS NULL AND payload IS NOT NULL"
                    " AND check_id IS NULL AND submission_id IN",
                    (check_id, study_id),
                    ids,
                    returning="submission_id",
                )
            }
            held = bytes(name in bound for name in ids)
            _put(tx, study_id, check_id, ids, held)
            return held

        return await self.database.write(write)

    async def fix(
        self,
        study_id: bytes,
        check_id: bytes,
        ids: Sequence[bytes],
        held: bytes,
        commitments: bytes,
        seed: bytes | None = None,
    ) -> None:
        """Take what all have committed to, and then the seed, for this check's; refused if it has others.

        `held` is what this provider has signed. A store that was restored from before the check learns of it here.
        """

        def write(tx: Transaction) -> None:
            known = _find(tx, study_id, check_id)
            if known is None or not known[1]:
                _put(tx, study_id, check_id, ids, held)
            elif (known[0], known[1]) != (b"".join(ids), held) or known[2] not in (None, commitments):
                raise Refused(Reason.OUT_OF_STEP, "this provider knows the check with other commitments")
            # Rows that were bound before the store was restored, and have come again since.
            tx.run_many(
                "UPDATE submissions SET check_id = ? WHERE study_id = ? AND submission_id = ? AND check_id IS NULL",
                [(check_id, study_id, name) for name, mark in zip(ids, held, strict=True) if mark],
            )
            tx.run(
                "UPDATE row_checks SET commitments = ?, seed = coalesce(seed, ?) WHERE study_id = ? AND check_id = ?",
                (commitments, seed, study_id, check_id),
            )

        await self.database.write(write)

    async def decide(
        self, study_id: bytes, check_id: bytes, verdicts: Mapping[bytes, Reason | None]
    ) -> dict[bytes, Reason | None]:
        """Write down why rows are refused, and erase them, or that they are accepted; what is written, which was perhaps
        decided before."""

        def write(tx: Transaction) -> tuple[dict[bytes, Reason | None], int]:
            marks = [(_MARKS[why], study_id, name, check_id) for name, why in verdicts.items()]
            change = (
                "UPDATE submissions SET verdict = ? WHERE study_id = ? AND submission_id = ? AND check_id = ?"
                " AND verdict IS NULL AND payload IS NOT NULL"
            )
            tx.run_many(change, [mark for mark in marks if mark[0] == _MARKS[None]])
            erase = change.replace("verdict = ?", "verdict = ?, payload = NULL") + " AND block_id IS NULL"
            total = 0
            for reason, code in _MARKS.items():
                if reason is None:
                    continue
                refused = sum(tx.run(erase, mark) for mark in marks if mark[0] == code)
                total += refused
                if refused:
                    for mark in marks:
                        if mark[0] == code:
                            list_again(tx, study_id, mark[2])
                    self._count(tx, study_id, check_id, refused, reason)
            tx.run(
                "UPDATE row_checks SET decided = 1 WHERE study_id = ? AND check_id = ?", (study_id, check_id)
            )
            known = _find(tx, study_id, check_id)
            found = in_groups(
                tx,
                "SELECT submission_id, verdict FROM submissions WHERE study_id = ? AND check_id = ?"
                " AND verdict IS NOT NULL AND submission_id IN",
                (study_id, check_id),
                split_ids(known[0]) if known else [],
            )
            return {bytes(row[0]): _WHY[row[1]] for row in found}, total

        written, refused = await self.database.write(write)
        if refused:
            await self.database.scrub()
        return written

    def _count(self, tx: Transaction, study_id: bytes, check_id: bytes, refused: int, reason: Reason) -> None:
        add_counts(tx, {str(reason): refused})
        if self.audit is not None:
            self.audit.append(
                tx,
                "rows_refused",
                study=study_id.hex(),
                check=check_id.hex(),
                rows=refused,
                reason=str(reason),
            )

    async def seeds(self, study_id: bytes, block_id: bytes) -> dict[bytes, bytes]:
        """By submission id, the seed that each row of a block was checked with."""
        return await self.database.read(
            lambda tx: {
                bytes(row[0]): bytes(row[1])
                for row in tx.rows(
                    "SELECT s.submission_id, c.seed FROM submissions s JOIN row_checks c"
                    " ON c.study_id = s.study_id AND c.check_id = s.check_id WHERE s.study_id = ? AND s.block_id = ?"
                    " AND c.seed IS NOT NULL",
                    (study_id, block_id),
                )
            }
        )

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase a study's checks; its rows are erased by the row store."""
        tx.run("DELETE FROM row_checks WHERE study_id = ?", (study_id,))
        return 0


def _find(tx: Transaction, study_id: bytes, check_id: bytes) -> tuple[bytes, bytes, bytes | None] | None:
    row = tx.row(
        "SELECT submission_ids, held, commitments FROM row_checks WHERE study_id = ? AND check_id = ?",
        (study_id, check_id),
    )
    return None if row is None else (bytes(row[0]), bytes(row[1]), None if row[2] is None else bytes(row[2]))


def _put(tx: Transaction, study_id: bytes, check_id: bytes, ids: Sequence[bytes], held: bytes) -> None:
    tx.run(
        "INSERT INTO row_checks (study_id, check_id, submission_ids, held) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (study_id, check_id) DO UPDATE SET submission_ids = excluded.submission_ids, held = excluded.held",
        (study_id, check_id, b"".join(ids), held),
    )


class TagChecks:
    """What right providers show each other of devices' tags: its own components', and a check of those it holds keys of."""

    def __init__(self, node: NodeContext, rows: OpenRows) -> None:
        self._node = node
        self._rows = rows

    async def openings(
        self, study: Study, check: RowCheck, seed: bytes, ids: Sequence[bytes], holder: int
    ) -> row_check_pb2.GetTagOpeningsResponse:
        """For each row that is asked for and here, e x + y and its tags for one holder."""
        rows = await self._rows.of(study, check.check_id, ids)

        def work() -> tuple[bytes, bytes]:
            if not rows:
                return b"", b""
            tagged = [row.tags.tagged for row in rows.values() if row.tags is not None]
            components = np.array([row.component for row in rows.values()])
            return combinations(components, tagged, holder, challenge(seed))

        values, tags = await self._node.workers.run(work)
        held = bytes(name in rows for name in ids)
        return row_check_pb2.GetTagOpeningsResponse(held=held, values=values, tags=tags)

    async def judge(
        self, study: Study, check: RowCheck, ids: Sequence[bytes]
    ) -> tuple[set[bytes], set[bytes]]:
        """The rows with wrong tags under a key that is held here; and those that somebody has no more."""
        own = int(self._node.role_in(study)[1:])
        held = [k for k, holders in enumerate(study.rows.tag_holders, 1) if own in holders]
        if not held or not ids:
            return set(), set()
        rows = await self._rows.of(study, check.check_id, ids)
        wrong: set[bytes] = set()
        missing = set(ids) - rows.keys()
        for k in held:
            keys = {name: row.tags.keys[k] for name, row in rows.items() if row.tags is not None}
            await self._ask(study, check, k, keys, wrong, missing)
        return wrong, missing

    async def _ask(
        self,
        study: Study,
        check: RowCheck,
        k: int,
        keys: Mapping[bytes, bytes],
        wrong: set[bytes],
        missing: set[bytes],
    ) -> None:
        """Have R_k show its tags, a message at a time."""
        columns, names = study.rows.columns, list(keys)
        width = columns * ELEMENT_BYTES
        stub = RowCheckPeerServiceStub(self._node.peers.channel(study.party(f"R{k}")))
        e, step = challenge(seed_of(check)), max(1, _MESSAGE_BYTES // width)
        for first in range(0, len(names), step):
            some = names[first : first + step]
            request = row_check_pb2.GetTagOpeningsRequest(check=check, submission_ids=b"".join(some))
            answer = await self._node.peers.call(stub.GetTagOpenings, request)
            here = [name for name, mark in zip(some, answer.held, strict=False) if mark]
            count = len(here)
            if (len(answer.held), len(answer.values), len(answer.tags)) != (
                len(some),
                count * width,
                count * TAG_BYTES,
            ):
                raise Refused(Reason.WRONG_SHAPE, f"R{k} showed the tags of other rows than were asked for")
            missing |= set(some) - set(here)
            seeds = [keys[name] for name in here]
            holds = await self._node.workers.run(
                combinations_hold, answer.values, answer.tags, seeds, columns, e
            )
            wrong |= {name for name, mark in zip(here, holds, strict=True) if not mark}


Opened = dict[bytes, Openings]
_Key = tuple[bytes, bytes, bytes]


class RowChecks:
    """The checks this right provider takes part in."""

    def __init__(self, node: NodeContext, rows: OpenRows, store: CheckStore, frames: Frames) -> None:
        self._node = node
        self._rows = rows
        self._store = store
        self._frames = frames
        self._tags = TagChecks(node, self._rows)
        # What is opened is asked for by every right provider at about the same time, and worked out once.
        self._opening: dict[_Key, tuple[frozenset[bytes], asyncio.Task[Opened]]] = {}
        self._asked: Counter[_Key] = Counter()
        self._fixed: tuple[RowCheck, frozenset[bytes]] | None = None
        self.running = 0

    async def commit(self, study: Study, check: RowCheck) -> row_check_pb2.CheckCommitment:
        """Bind the rows that are here; this provider's commitment."""
        self._frames.learn(study, check.mask_seed)
        held = await self._store.bind(study.id, check.check_id, check_ids(check))
        return commit(self._node.keys.identity, self._node.role_in(study), check, held)

    async def reveal(self, study: Study, check: RowCheck) -> bytes:
        """This provider's coin, to a party that shows the commitments of all."""
        await self._fix(study, check, None)
        return coin_of(self._node.keys.identity, check)

    async def _fix(self, study: Study, check: RowCheck, seed: bytes | None) -> list[bytes]:
        """The rows of the check, which from now on has these commitments, and this seed, alone."""
        ids = checked_ids(study, check)  # this provider's own signature is among those verified
        own = check.commitments[int(self._node.role_in(study)[1:]) - 1]
        await self._store.fix(
            study.id, check.check_id, check_ids(check), own.held, commitments_hash(check), seed
        )
        return ids

    async def openings(self, study: Study, check: RowCheck) -> Opened:
        """This provider's part of what is opened, by row, for those that are here."""
        seed = seed_of(check)
        ids = await self._fix(study, check, seed)
        known = self._frames.learn(study, check.mask_seed)
        rows = await self._rows.of(study, check.check_id, ids)
        key, here = (study.id, check.check_id, seed), frozenset(rows)
        # Rows that came again since are opened anew. Rows that this provider has refused since, and erased, are still told
        # to one that asks late: it would not learn that they were refused.
        if key not in self._opening or not here <= self._opening[key][0]:
            self._forget(key)
            self._opening[key] = (here, asyncio.create_task(self._open(known, seed, rows)))
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, key)
        _, task = self._opening[key]
        self._asked[key] += 1
        if self._asked[key] >= len(study.right):
            self._forget(key)
        try:
            return await asyncio.shield(task)
        except Exception:
            self._forget(key)
            raise

    def _forget(self, key: _Key) -> None:
        """Keep what was opened no longer than others ask for it."""
        self._opening.pop(key, None)
        self._asked.pop(key, None)

    async def _open(self, study: Study, seed: bytes, rows: Mapping[bytes, Row]) -> Opened:
        def work() -> Opened:
            components = np.array([row.component for row in rows.values()])
            return dict(zip(rows, open_component(components, directions(study, seed)), strict=True))

        return await self._node.workers.run(work) if rows else {}

    async def tag_openings(
        self, study: Study, check: RowCheck, ids: list[bytes], holder: int
    ) -> row_check_pb2.GetTagOpeningsResponse:
        """What shows a holder of keys that the tags of some rows are right."""
        seed = seed_of(check)
        if self._fixed is None or self._fixed[0] != check:  # it is asked for a message of rows at a time
            self._fixed = (check, frozenset(await self._fix(study, check, seed)))
        if not self._fixed[1].issuperset(ids):
            raise Refused(Reason.UNKNOWN_ROW, "a row whose tags are asked for is not in this check")
        return await self._tags.openings(study, check, seed, ids, holder)

    async def decide(self, study: Study, check: RowCheck) -> bytes:
        """Open with all the others and write the verdict down: for each row 1, 2 (refused), or 0 where somebody lacks it."""
        self.running += 1
        try:
            own = self._node.role_in(study)
            others = [role for role in study.right_roles if role != own]
            parts = [
                await self.openings(study, check),
                *await asyncio.gather(*(self._ask(study, check, role) for role in others)),
            ]
            everywhere = sorted(set.intersection(*(set(part) for part in parts)))
            verdicts: dict[bytes, Reason | None] = {}
            if everywhere:
                stacked = [np.array([part[name] for name in everywhere]) for part in parts]
                accepted = await self._node.workers.run(judge, study, stacked)
                verdicts = {
                    name: None if mark else Reason.OUT_OF_FRAME
                    for name, mark in zip(everywhere, accepted, strict=True)
                }
                wrong, missing = await self._tags.judge(
                    study, check, [name for name, why in verdicts.items() if why is None]
                )
                verdicts |= dict.fromkeys(wrong, Reason.WRONG_TAGS)
                verdicts = {name: why for name, why in verdicts.items() if name not in missing}
            written = await self._store.decide(study.id, check.check_id, verdicts)
            refused = sum(why is not None for why in written.values())
            self._node.log.info("checked rows=%d refused=%d", len(written), refused)
            await self._node.refusals.refresh(self._node.database)
            marks = {None: 1, Reason.OUT_OF_FRAME: 2, Reason.WRONG_TAGS: 3}
            return bytes(marks[written[name]] if name in written else 0 for name in check_ids(check))
        finally:
            self.running -= 1

    async def _ask(self, study: Study, check: RowCheck, role: str) -> Opened:
        stub = RowCheckPeerServiceStub(self._node.peers.channel(study.party(role)))
        request = row_check_pb2.GetOpeningsRequest(check=check)
        answer = await self._node.peers.call(stub.GetOpenings, request)
        ids = check_ids(check)
        if len(answer.held) != len(ids):
            raise VerificationError(f"the openings of {role} are not of this check")
        names = [name for name, mark in zip(ids, answer.held, strict=True) if mark]
        return dict(zip(names, unpack_openings(answer.openings, len(names)), strict=True))


class RowCheckServicer(row_check_pb2_grpc.RowCheckServiceServicer):
    """Serves the collector."""

    def __init__(self, checks: RowChecks) -> None:
        self._checks = checks

    async def CommitCheck(
        self, request: row_check_pb2.CommitCheckRequest, context: Context
    ) -> row_check_pb2.CommitCheckResponse:
        commitment = await self._checks.commit(admitted().study, request.check)
        return row_check_pb2.CommitCheckResponse(commitment=commitment)

    async def RevealCoin(
        self, request: row_check_pb2.RevealCoinRequest, context: Context
    ) -> row_check_pb2.RevealCoinResponse:
        coin = await self._checks.reveal(admitted().study, request.check)
        return row_check_pb2.RevealCoinResponse(coin=coin)

    async def DecideCheck(
        self, request: row_check_pb2.DecideCheckRequest, context: Context
    ) -> row_check_pb2.DecideCheckResponse:
        verdicts = await self._checks.decide(admitted().study, request.check)
        return row_check_pb2.DecideCheckResponse(verdicts=verdicts)


class RowCheckPeerServicer(row_check_pb2_grpc.RowCheckPeerServiceServicer):
    """Serves the other right providers of a study, and nobody else."""

    def __init__(self, checks: RowChecks) -> None:
        self._checks = checks

    async def GetOpenings(
        self, request: row_check_pb2.GetOpeningsRequest, context: Context
    ) -> row_check_pb2.GetOpeningsResponse:
        found = await self._checks.openings(admitted().study, request.check)
        names = [name for name in check_ids(request.check) if name in found]
        return row_check_pb2.GetOpeningsResponse(
            held=bytes(name in found for name in check_ids(request.check)),
            openings=b"".join(pack_openings(found[name]) for name in names),
        )

    async def GetTagOpenings(
        self, request: row_check_pb2.GetTagOpeningsRequest, context: Context
    ) -> row_check_pb2.GetTagOpeningsResponse:
        study, role, own = admitted()
        holders, ids = study.rows.tag_holders[int(own[1:]) - 1], split_ids(request.submission_ids)
        return await self._checks.tag_openings(study, request.check, ids, holders.index(int(role[1:])))
