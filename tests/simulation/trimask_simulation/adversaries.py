"""Parties of the rows suite that do not follow the protocol, one kind a seed, and what must hold beside each.

A hostile party spoils the blocks that its seed chooses, in every try. Honest rows are then counted once, or reported as not
counted: in a block that was given up, with its reason, or under a note that nothing was published. No study is stuck.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows import payloads
from trimask_core.rows.arrays import device_frame
from trimask_core.study.definition import Study
from trimask_core.study.signed import sign_close
from trimask_core.submit.submission import Receipt
from trimask_proto.v1 import row_check_pb2, row_draw_pb2
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_draw_pb2 import PoolVerdicts, RowDraw
from trimask_server.collector.batches import RightCalls
from trimask_server.suites.rows import unmasking
from trimask_server.suites.rows.collector_draw import DrawDriver
from trimask_server.suites.rows.draw import Draw
from trimask_server.suites.rows.provider_masking import LeftMaskingServicer, RightMaskingServicer
from trimask_simulation.oracle import Oracle, require, split
from trimask_simulation.people import PEOPLE

__all__ = ["ADVERSARIES", "Adversary", "HostileOracle"]

ADVERSARIES = (
    "altering R", "flipping L", "lying U", "poisoning devices", "choosing collector", "Sybil fleet",
)  # fmt: skip
_ENDS = ("given_up", "abandoned")
_lies: ContextVar[bool] = ContextVar("lies", default=False)


@dataclass(frozen=True)
class Adversary:
    """One hostile party: its kind, the share of blocks it spoils, and the people whose devices are hostile.

    `acts` counts what it really did: a party whose program no longer reaches what it changes would look like one that fails.
    """

    kind: str
    seed: int
    acts: Counter[str] = field(default_factory=Counter, compare=False)

    @property
    def people(self) -> frozenset[int]:
        """Whose devices are the adversary's."""
        if self.kind not in ("poisoning devices", "Sybil fleet"):
            return frozenset()
        chance = random.Random(f"hostile people {self.seed}")
        return frozenset(chance.sample(range(PEOPLE), chance.choice((1, 6, 14))))

    def copies(self, person: int) -> int:
        """How often a person answers."""
        return 2 if self.kind == "Sybil fleet" and person in self.people else 1

    def spoils(self, block_id: bytes) -> bool:
        """Whether this block is one of those it goes for: half of them, in some seeds every one."""
        if self.seed % 7 == 0:
            return True
        return hashlib.sha256(block_id + str(self.seed).encode()).digest()[0] < 128

    @contextlib.contextmanager
    def at_work(self, oracle: Oracle) -> Iterator[None]:
        """Its program in the place of the honest one's."""
        with contextlib.ExitStack() as stack:
            for target, name, replacement in self._patches(oracle):
                stack.enter_context(mock.patch.object(target, name, replacement))
            yield

    def _did(self, harm: bool) -> None:
        if harm:
            self.acts[self.kind] += 1

    def _patches(self, oracle: Oracle) -> list[tuple[Any, str, Any]]:
        return {
            "altering R": self._altering_right,
            "flipping L": self._flipping_left,
            "lying U": self._lying_unmasker,
            "poisoning devices": self._poisoning,
            "choosing collector": self._choosing,
            "Sybil fleet": list,
        }[self.kind]()

    def _altering_right(self) -> list[tuple[Any, str, Any]]:
        honest, mask = RightMaskingServicer._read, RightMaskingServicer._mask

        async def marked(servicer: Any, study: Study, attempt: Any, rows: Any) -> None:
            _lies.set(servicer._node.config.name == "R2" and self.spoils(attempt.block_id))
            await mask(servicer, study, attempt, rows)

        def altered(servicer: Any, study: Study, *more: Any) -> Any:
            component, held = honest(servicer, study, *more)
            if _lies.get():  # somebody else's row, many times over
                self._did(not np.array_equal(component[-1], np.zeros_like(component[-1])))
                component[0] += 1e3 * component[-1]
            return component, held

        return [(RightMaskingServicer, "_mask", marked), (RightMaskingServicer, "_read", altered)]

    def _flipping_left(self) -> list[tuple[Any, str, Any]]:
        honest = LeftMaskingServicer._send

        async def flipped(servicer: Any, study: Study, j: int, attempt: Any, k: int, masked: Any) -> None:
            if servicer._node.config.name == "L2" and k == 1 and self.spoils(attempt.block_id):
                masked = masked.copy()
                self._did(bool(masked[0].any()))
                masked[0] *= -1.0  # which no Gram matrix of one component shows
            await honest(servicer, study, j, attempt, k, masked)

        return [(LeftMaskingServicer, "_send", flipped)]

    def _lying_unmasker(self) -> list[tuple[Any, str, Any]]:
        honest, begin = unmasking.unmask_component, unmasking.UnmaskingServicer._unmask

        async def marked(servicer: Any, study: Study, attempt: Any, state: Any, k: int) -> None:
            _lies.set(k == 1 and self.spoils(attempt.block_id))
            await begin(servicer, study, attempt, state, k)

        def lying(study: Study, masked: Any, mask: Any, seed: bytes) -> Any:
            values = honest(study, masked, mask, seed)
            if _lies.get():
                values = values.copy()
                self._did(bool((values[-1] // 2).any()))
                values[0] += values[-1] // 2
            return values

        return [(unmasking.UnmaskingServicer, "_unmask", marked), (unmasking, "unmask_component", lying)]

    def _poisoning(self) -> list[tuple[Any, str, Any]]:
        """Rows far outside the frame; `world` says whose submission is being made."""
        honest: Callable[..., list[int]] = payloads.mask_row

        def poisoned(study: Study, x1: Any, source: Any) -> list[int]:
            row = honest(study, x1, source)
            if not _lies.get():
                return row
            inside = device_frame(study).apply(device_frame(study).unapply(np.array([row], dtype=float)))[0]
            outside = [int(value) for value in np.rint(inside + 1e3 * (np.array(row) - inside))]
            self._did(outside != row)
            return outside

        return [(payloads, "mask_row", poisoned)]

    @contextlib.contextmanager
    def making(self, person: int) -> Iterator[None]:
        """While a person's submission is being made."""
        token = _lies.set(self.kind == "poisoning devices" and person in self.people)
        try:
            yield
            self._did(self.kind == "Sybil fleet" and person in self.people)
        finally:
            _lies.reset(token)

    def _choosing(self) -> list[tuple[Any, str, Any]]:
        """It wants to choose who is in a block, and tries one of three ways before it does what it should: a check for each
        row, of which it would have only some decided; ending intake on its own while few rows are there; or telling a right
        provider other lists and verdicts than were signed."""
        check, look, judge = DrawDriver._check, DrawDriver.look, DrawDriver._judge

        async def one_by_one(driver: Any, draw: Draw) -> None:
            for name in [name for _, ids in draw.checks for name in ids][:3]:
                alone = RowCheck(study_id=draw.study.id, check_id=name, submission_ids=name)
                request = row_check_pb2.CommitCheckRequest(check=driver._with_seed(alone))
                for party in draw.study.right:
                    await self._try(driver._call(driver._check_stub(party).CommitCheck, request))
            await check(driver, draw)

        async def hasty(driver: Any, intake: Any, state: str) -> bool:
            if state == "open" and intake.usable >= driver._study.rows.block_rows:
                order = CloseOrder(study_id=driver._study.id)
                order.signature = sign_close(driver._node.keys.identity, order)
                for party in driver._study.right:
                    await self._try(RightCalls(driver._node, driver._study).stop_intake(party, order))
            return await look(driver, intake, state)

        async def forged(driver: Any, said: RowDraw) -> bool:
            for change in (_without_a_row, _with_a_mark):
                other = RowDraw.FromString(said.SerializeToString())
                if change(other):
                    await self._try(
                        driver._call(
                            driver._stub(driver._study.right[0]).OpenDraw,
                            row_draw_pb2.OpenDrawRequest(draw=other),
                        )
                    )
            return await judge(driver, said)

        ways: list[tuple[str, Any]] = [("_check", one_by_one), ("look", hasty), ("_judge", forged)]
        return [(DrawDriver, *ways[self.seed // len(ADVERSARIES) % len(ways)])]

    async def _try(self, call: Awaitable[Any]) -> None:
        """A call that must be refused, whoever hears it."""
        try:
            await call
            self.acts["succeeded"] += 1
        except Refused as error:
            self._did(error.reason in (Reason.OUT_OF_STEP, Reason.BAD_SIGNATURE))


def _without_a_row(said: RowDraw) -> bool:
    """R_2's list without one of its rows."""
    rows = said.lists[1]
    rows.submission_ids, rows.checked = rows.submission_ids[16:], rows.checked[1:]
    return bool(rows.checked)


def _with_a_mark(said: RowDraw) -> bool:
    """Verdicts that R_1 to R_3 have not given."""
    pool = len(set.intersection(*(set(split(rows.submission_ids)) for rows in said.lists)))
    said.verdicts.extend(PoolVerdicts(marks=bytes(pool), signature=bytes(64)) for _ in said.lists)
    return True


@dataclass
class HostileOracle(Oracle):
    """Counts once, or reports as not counted, everybody whose device is honest."""

    adversary: Adversary | None = None
    _given_up: dict[bytes, bytes] = field(default_factory=dict)
    _refused: set[bytes] = field(default_factory=set)

    def _may_be_erased(self, name: str, block_id: bytes) -> bool:
        return super()._may_be_erased(name, block_id) or block_id in self._given_up

    def _right(self, name: str, connection: sqlite3.Connection) -> None:
        super()._right(name, connection)
        self._refused |= {
            row[0] for row in connection.execute("SELECT submission_id FROM submissions WHERE verdict = 0")
        }

    def _collector(self, connection: sqlite3.Connection) -> None:
        query = "SELECT block_id, submission_ids, why FROM blocks WHERE state IN ('given_up', 'abandoned')"
        for block_id, joined, why in connection.execute(query):
            require(bool(why), "collector: a block was given up and nobody is told why")
            require(self._stages.get(block_id, 0) == 0, "collector: a pooled block was given up")
            self._given_up[block_id] = joined
        super()._collector(connection)

    def _stage(self, block_id: bytes, joined: bytes, row_count: int, state: str) -> int:
        if state in _ENDS:
            self._block("collector", block_id, joined)
            return 0
        require(block_id not in self._given_up, "collector: a block that was given up came back")
        return super()._stage(block_id, joined, row_count, state)

    def at_the_end(self, folders: Mapping[str, Path], receipts: Mapping[bytes, Receipt]) -> dict[str, int]:
        counts = super().at_the_end(folders, receipts)
        return counts | {
            "blocks given up": len(self._given_up),
            "rows in blocks given up": sum(len(split(joined)) for joined in self._given_up.values()),
            "rows refused by the check": len(self._refused),
        }

    def _all_published(
        self,
        total: list[int],
        in_blocks: set[bytes],
        complete: set[bytes],
        receipts: Mapping[bytes, Receipt],
        note: str,
    ) -> None:
        missing = set(receipts) - complete
        require(not missing, f"{len(missing)} rows with receipts are not with every right provider")
        lost = {submission_id for joined in self._given_up.values() for submission_id in split(joined)}
        if self.adversary is not None and self.adversary.kind == "poisoning devices":
            bad = {name for name, person in self.people.items() if person in self.adversary.people}
            require(not (complete - self._refused) & bad or not sum(total), "a poisoned row was accepted")
            require(self._refused <= bad, "an honest row was refused by the check")
        require(
            self.adversary is None or not self.adversary.acts["succeeded"], "what must be refused was not"
        )
        counted = complete - lost - self._refused
        wanted = Counter(self.people[submission_id] for submission_id in counted)
        if sum(total):
            require(
                total == [wanted[person] for person in range(PEOPLE)],
                "an honest row is neither counted nor reported",
            )
        else:
            short = len(counted) < self.study.release_rows
            require(short, "nothing was published, and there were enough rows")
            require(
                not complete or "nothing was published" in note or bool(lost), "nobody is told of the rows"
            )

    def _once(self, total: list[int]) -> None:
        hostile = frozenset() if self.adversary is None else self.adversary.people
        require(
            all(count <= 1 or person in hostile for person, count in enumerate(total)),
            "an honest person is published twice",
        )
