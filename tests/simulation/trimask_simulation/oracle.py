"""What must hold: after every commit of every node, and at the end."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from trimask_core.study.definition import Study
from trimask_core.study.progress import Closing, closing_of
from trimask_core.submit.release_files import COUNTED_FILE, Counted
from trimask_core.submit.submission import Receipt
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.row_draw_pb2 import RowDraw
from trimask_server.collector.publication import dataset_folder
from trimask_server.store.data_keys import Vault
from trimask_server.store.sqlite import _SqliteTransaction
from trimask_server.suites.rows.draw import Draw
from trimask_server.suites.rows.suite import FactorLedger
from trimask_simulation.parties import storage_ring
from trimask_simulation.people import PEOPLE, multiplicities

__all__ = ["Oracle", "Violation", "require", "split"]

_ID = 16
_KEYS = "SELECT wrapped FROM data_keys WHERE scope <> ?"
_STAGES = ("planned", "pooled", "erased")
_CANCELLED = ("cancelled", "released")
_SAMPLE = 24  # bytes of a ciphertext, enough to be nobody else's


class Violation(AssertionError):
    """Something that must never happen did."""


def split(joined: bytes) -> list[bytes]:
    """The ids in a plan."""
    return [joined[i : i + _ID] for i in range(0, len(joined), _ID)]


def require(condition: bool, message: str) -> None:
    """`Violation` unless it is so."""
    if not condition:
        raise Violation(message)


@dataclass
class Oracle:
    """Remembers what it has seen of every store; nothing may be unsaid. Of a study of the rows suite; others inherit."""

    study: Study
    # Submission id -> who answered; the sealed components, by id and provider. Filled when a device seals.
    people: dict[bytes, int] = field(default_factory=dict)
    sealed: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    _block_of: dict[bytes, bytes] = field(default_factory=dict)
    _hashes: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    _erased: set[tuple[str, bytes]] = field(default_factory=set)
    _stages: dict[bytes, int] = field(default_factory=dict)
    _released: set[bytes] = field(default_factory=set)  # plans that were given up before anything was masked
    _published: dict[str, bytes] = field(default_factory=dict)
    # What each right provider holds, or has in a block, by its last commit; and what was ever withdrawn.
    _held: dict[str, set[bytes]] = field(default_factory=dict)
    _payloads: dict[str, set[bytes]] = field(default_factory=dict)  # what of that it could still open
    _withdrawn: set[bytes] = field(default_factory=set)
    orders: set[tuple[int, int]] = field(default_factory=set)
    """What its owner announced, and ordered."""
    # The collector's state of the study; when it was last to close: what was announced, what was there, published before.
    _state: str = "open"
    _close: tuple[int, int, Closing, int] | None = None
    _stayed_open: int = 0
    # Every data key ever seen on a disk, wrapped as it is there.
    _wrapped: dict[str, set[bytes]] = field(default_factory=dict)
    _draws: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)  # the blocks of each draw
    checks: int = 0

    def __post_init__(self) -> None:
        self._factors = FactorLedger(None, Vault(storage_ring("collector")))
        self.kept_scope = ""  # the data keys that outlive the study

    def after_commit(self, name: str, connection: sqlite3.Connection) -> None:
        """Look at a node's whole store."""
        self.checks += 1
        keys = {row[0] for row in connection.execute(_KEYS, (self.kept_scope,))}
        self._wrapped.setdefault(name, set()).update(keys)
        if name == "collector":
            self._collector(connection)
            self._closes(connection)
        elif name.startswith("R"):
            self._right(name, connection)

    def _bind(self, who: str, submission_id: bytes, block_id: bytes) -> None:
        if block_id in self._released:
            return  # a provider may still have to hear of it; nothing of it is masked any more
        if self._block_of.get(submission_id) in self._released:
            del self._block_of[submission_id]
        known = self._block_of.setdefault(submission_id, block_id)
        require(
            known == block_id,
            f"{who}: row {submission_id.hex()[:8]} is in blocks {known.hex()[:8]} and {block_id.hex()[:8]}",
        )

    def _block(self, who: str, block_id: bytes, joined: bytes) -> None:
        ids = split(joined)
        require(len(set(ids)) == len(ids), f"{who}: a row twice in block {block_id.hex()[:8]}")
        require(self._right_size(len(ids)), f"{who}: block {block_id.hex()[:8]} has {len(ids)} rows")
        for submission_id in ids:
            self._bind(who, submission_id, block_id)

    def _right_size(self, rows: int) -> bool:
        return self.study.rows.block_rows <= rows <= self.study.rows.max_block_rows

    def _may_be_erased(self, name: str, block_id: bytes) -> bool:
        """Whether a row of this block is needed no more."""
        return self._stages.get(block_id, 0) >= 1

    def _right(self, name: str, connection: sqlite3.Connection) -> None:
        for block_id, joined in connection.execute(
            "SELECT block_id, submission_ids FROM blocks WHERE state <> 'cancelled'"
        ):
            self._block(name, block_id, joined)
        rows = connection.execute(
            "SELECT submission_id, payload IS NULL, payload_hash, block_id, withdrawn_ms FROM submissions"
        )
        held = self._held[name] = set()
        payloads = self._payloads[name] = set()
        for submission_id, erased, digest, block_id, withdrawn_ms in rows:
            key = (name, submission_id)
            if block_id is not None or not erased:
                held.add(submission_id)
            if not erased:
                payloads.add(submission_id)
            if withdrawn_ms is not None:
                self._withdrawn.add(submission_id)
            require(self._hashes.setdefault(key, digest) == digest, f"{name}: a submission's bytes changed")
            require(bool(erased) or key not in self._erased, f"{name}: an erased row came back")
            if erased:
                self._erased.add(key)
                if block_id is not None:
                    require(
                        self._may_be_erased(name, block_id), f"{name}: a row was erased before it was pooled"
                    )
            if block_id is not None:
                self._bind(name, submission_id, block_id)

    def _collector(self, connection: sqlite3.Connection) -> None:
        pooled: dict[int, list[bytes]] = {}
        query = "SELECT block_id, submission_ids, row_count, state, release_number FROM blocks"
        for block_id, joined, row_count, state, release in connection.execute(query):
            if self._stage(block_id, joined, row_count, state):
                pooled.setdefault(release, []).extend(split(joined))
        for number, row_count, factor, state in connection.execute(
            "SELECT release_number, row_count, factor, state FROM releases"
        ):
            rows = pooled.pop(number, [])
            require(
                row_count == len(rows), f"collector: release {number} counts {row_count} of {len(rows)} rows"
            )
            if factor is not None:
                matrix = self._factors.load(_SqliteTransaction(connection), self.study.id, number)
                assert matrix is not None
                self._same(multiplicities(matrix.T @ matrix), rows, f"the factor of release {number}")
            if state in ("published", "discarded"):
                require(factor is None, f"collector: the factor of a {state} release is still there")
        require(not pooled, "collector: pooled blocks belong to a release that is not there")
        self._drawn(connection)
        self._published_once(connection)

    def _drawn(self, connection: sqlite3.Connection) -> None:
        """Every block is out of a draw that all right providers have signed, of rows enough."""
        drawn: dict[bytes, bytes] = {}
        for (content,) in connection.execute("SELECT content FROM draws ORDER BY number"):
            said = RowDraw.FromString(content)
            if said.coins and content not in self._draws:
                draw = Draw.verified(self.study, said)
                n, rows = self.study.rows.block_rows, len(draw.accepted)
                require(rows >= (n if draw.closing else 2 * n), f"collector: a draw of {rows} rows")
                self._draws[content] = {block.block_id: block.submission_ids for block in draw.blocks()}
            drawn |= self._draws.get(content, {})
        if self.study.suite.name == "rows":
            for block_id, joined in connection.execute("SELECT block_id, submission_ids FROM blocks"):
                require(drawn.get(block_id) == joined, "collector: a block that was not drawn")

    def _closes(self, connection: sqlite3.Connection) -> None:
        """Whenever the study pauses, goes on or closes: that this is right by what right providers hold at that moment."""
        (state,) = connection.execute("SELECT state FROM studies").fetchone() or ("open",)
        before, self._state = self._state, state
        if state not in ("open", "closing") or before == state:
            return
        (content,) = connection.execute("SELECT content FROM close_orders").fetchone() or (b"",)
        order = CloseOrder.FromString(content)
        published, erased = order.published_rows, order.erased_rows
        require((published, erased) in self.orders, f"collector: nobody announced {published} and {erased}")
        there = self._there(connection)
        broken = there.published < published and there.erased > erased
        said = f"{published} and {erased} were announced, {there.published} and {there.erased} are there"
        if state == "open":
            require(broken, f"collector: it stays open, and need not: {said}")
            self._stayed_open += 1
        else:
            require(not broken, f"collector: it closes, and that was not agreed to: {said}")
            rows = connection.execute(
                "SELECT sum(row_count) FROM releases WHERE state = 'published'"
            ).fetchone()
            self._close = (published, erased, there, rows[0] or 0)

    def _there(self, connection: sqlite3.Connection) -> Closing:
        """What closing does to what is there."""
        pending, masking, pooled = self._progress(connection)
        counting = self._counting
        return closing_of(self.study, pending=counting(pending), masking=counting(masking), pooled=pooled)

    def _progress(self, connection: sqlite3.Connection) -> tuple[set[bytes], list[bytes], int]:
        """Who waits by the right providers' own stores, who is in a block, and how many are in no published release."""
        blocks = connection.execute(
            "SELECT submission_ids, state FROM blocks WHERE state NOT IN ('cancelled', 'released')"
        ).fetchall()
        planned = {name for joined, _ in blocks for name in split(joined)}
        masking = [name for joined, state in blocks if state == "planned" for name in split(joined)]
        releases = connection.execute("SELECT row_count, state FROM releases").fetchall()
        complete = (
            set.intersection(*self._held.values()) if len(self._held) == len(self.study.right) else set()
        )
        pooled = sum(rows for rows, state in releases if state in ("open", "full", "answerable"))
        return complete - planned, masking, pooled

    def require_told(self, path: Path, *told: int) -> None:
        """Nothing has changed for a while: what the status says is what is there."""
        with contextlib.closing(sqlite3.connect(path)) as connection:
            pending, masking, pooled = self._progress(connection)
        there = (len(pending), len(masking), pooled)
        require(
            told == there, f"the status says that {told} wait, are in a block and are pooled, and {there} are"
        )

    def _counting(self, ids: Iterable[bytes]) -> int:
        """How many of these submissions will be counted."""
        return len(list(ids))

    def _stage(self, block_id: bytes, joined: bytes, row_count: int, state: str) -> int:
        """How far a block of the collector's has come: 0 for planned."""
        self._block("collector", block_id, joined)
        require(row_count * _ID == len(joined), "collector: a block's count is not that of its rows")
        if state in _CANCELLED:
            require(self._stages.get(block_id, 0) == 0, "collector: a pooled block was cancelled")
            if state == "released":  # only now may its rows be in another plan
                self._released.add(block_id)
            return 0
        require(block_id not in self._released, "collector: a cancelled plan came back")
        require(state in _STAGES, f"collector: a block is {state}")
        stage = _STAGES.index(state)
        require(stage >= self._stages.get(block_id, 0), "collector: a block went back a step")
        self._stages[block_id] = stage
        if state == "erased":
            for name, payloads in self._payloads.items():
                left = len(payloads.intersection(split(joined)))
                require(not left, f"collector: a block is erased, and {name} still holds {left} of its rows")
        return stage

    def _published_once(self, connection: sqlite3.Connection) -> None:
        for dataset_id, manifest in connection.execute("SELECT dataset_id, manifest FROM datasets"):
            require(
                self._published.setdefault(dataset_id, manifest) == manifest,
                f"collector: {dataset_id} was published twice, differently",
            )

    def _same(self, found: list[int], rows: Iterable[bytes], what: str) -> None:
        wanted = Counter(self.people[submission_id] for submission_id in rows)
        for person, count in enumerate(found):
            require(
                count == wanted[person],
                f"{what} has person {person} {count} times, its blocks {wanted[person]} times",
            )

    # The end

    def at_the_end(self, folders: Mapping[str, Path], receipts: Mapping[bytes, Receipt]) -> dict[str, int]:
        """Everything is over: what was published, what was accepted, what is left on disks."""
        self._nothing_left(folders)  # first: opening a database would tidy it up
        collector = sqlite3.connect(folders["collector"] / "collector.sqlite3")
        self.after_commit("collector", collector)
        total = self._datasets(collector, folders["collector"])
        blocks = [
            split(row[0])
            for row in collector.execute("SELECT submission_ids FROM blocks WHERE state <> 'released'")
        ]
        in_blocks = {submission_id for block in blocks for submission_id in block}
        note = "".join(row[0] for row in collector.execute("SELECT note FROM notes"))
        (state,) = collector.execute("SELECT state FROM studies").fetchone()
        require(state == "closed", f"the study is {state}")
        collector.close()
        for receipt in receipts.values():
            receipt.verify(self.study)
        complete = self._complete(folders)
        self._all_published(total, in_blocks, complete, receipts, note)
        self._once(total)
        return {
            "accepted": len(receipts),
            "complete": len(complete),
            "published": sum(total),
            "withdrawn": len(self._withdrawn),
            **self._as_announced(sum(total)),
        }

    def _as_announced(self, published: int) -> dict[str, int]:
        """What was there when it closed is published, and is what was announced, or the owner agreed to it."""
        require(self._close is not None, "the study is closed, and was never closing")
        assert self._close is not None
        told, _, there, before = self._close
        if not told:  # it closed at once, and people went on withdrawing until every right provider had heard
            return {"closed: nothing was announced": 1, "stayed open": self._stayed_open}
        require(
            published - before == there.published,
            f"{told} were announced, {there.published} were there, {published - before} are published",
        )
        kind = "as" if told == there.published else "more than" if told < there.published else "less than"
        return {f"closed: {kind} announced": 1, "stayed open": self._stayed_open}

    def _once(self, total: list[int]) -> None:
        require(max(total) <= 1, "a person is published twice")

    def _all_published(
        self,
        total: list[int],
        in_blocks: set[bytes],
        complete: set[bytes],
        receipts: Mapping[bytes, Receipt],
        note: str,
    ) -> None:
        if len(complete) >= self.study.release_rows:
            # Where somebody has withdrawn, those who wait may be too few for a block.
            few = self.study.rows.block_rows if self._withdrawn else 1
            left = complete - in_blocks
            require(in_blocks <= complete and len(left) < few, "complete rows and rows in blocks differ")
            self._same(total, in_blocks, "what was published")
            lost = set(receipts) - complete - self._withdrawn
            require(not lost, f"{len(lost)} accepted rows are in no block")
        else:
            require(sum(total) == 0, "fewer rows than the guarantee needs were published")
            require(
                not complete or "nothing was published" in note,
                "the owner is not told that nothing was published",
            )

    def _complete(self, folders: Mapping[str, Path]) -> set[bytes]:
        """Submissions every right provider took in, and let nobody withdraw."""
        held: list[set[bytes]] = []
        for name in sorted(folders):
            if name.startswith("R"):
                connection = sqlite3.connect(folders[name] / "right.sqlite3")
                self.after_commit(name, connection)
                kept = "SELECT submission_id FROM submissions WHERE withdrawn_ms IS NULL"
                held.append({row[0] for row in connection.execute(kept)})
                (left,) = connection.execute(
                    "SELECT count(*) FROM submissions WHERE payload IS NOT NULL"
                ).fetchone()
                require(left == 0, f"{name} still holds {left} payloads")
                (state,) = connection.execute("SELECT state FROM studies").fetchone()
                require(state == "closed", f"{name} has the study {state}")
                connection.close()
        return set.intersection(*held)

    def _datasets(self, collector: sqlite3.Connection, folder: Path) -> list[int]:
        """How often each person is in everything published, from the files a researcher would read."""
        total = [0] * PEOPLE
        for dataset_id, manifest in collector.execute("SELECT dataset_id, manifest FROM datasets"):
            file = json.loads(manifest)["files"][0]
            place = dataset_folder(folder, dataset_id, file["sha256"])
            table = pq.read_table(place / file["name"])
            matrix = np.column_stack([column.to_numpy() for column in table.columns])
            found = multiplicities(matrix.T @ matrix)
            self._listed(dataset_id, place, found)
            total = [a + b for a, b in zip(total, found, strict=True)]
        return total

    def _listed(self, dataset_id: str, place: Path, found: list[int]) -> None:
        """The release's list of submissions names those that are in it, so that no receipt is told anything else."""
        counted = Counted.from_bytes((place / COUNTED_FILE).read_bytes())
        if self.study.suite.name == "rows":
            for block in counted.blocks:
                block.verify(self.study)  # as every researcher does
        named = Counter(
            self.people[submission_id]
            for block in counted.blocks
            for submission_id, mark in zip(block, block.accepted, strict=True)
            if mark
        )
        require(found == [named[person] for person in range(PEOPLE)], f"{dataset_id} lists other submissions")

    def _nothing_left(self, folders: Mapping[str, Path]) -> None:
        """No component as a device sealed it, and no key of what was erased, in no file of any node."""
        samples = {part[-_SAMPLE:] for sealed in self.sealed.values() for part in sealed}
        for name, folder in sorted(folders.items()):
            destroyed = self._wrapped.get(name, set())  # the study is closed: all of them are
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    data = path.read_bytes()
                    for sample in samples:
                        require(sample not in data, f"{name}: {path.name} still holds a sealed component")
                    for wrapped in destroyed:
                        require(wrapped not in data, f"{name}: {path.name} still holds a destroyed data key")
