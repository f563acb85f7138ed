"""What must hold in a study of the moments suite: the same promises, from other tables.

Every honest report that all right providers hold is in one release, false ones are in none and counted, right providers
decide the same about every batch and never otherwise, and totals are those of exactly the reports accepted.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trimask_core.moments.field import P, unpack
from trimask_core.moments.totals import accepted_hash
from trimask_core.submit.submission import Receipt
from trimask_server.collector.publication import dataset_folder
from trimask_server.store.data_keys import Vault
from trimask_server.store.sqlite import _SqliteTransaction
from trimask_server.suites.moments.batch_store import add_up
from trimask_simulation.moments_people import exact_totals, honest, people_in
from trimask_simulation.oracle import Oracle, require, split
from trimask_simulation.parties import storage_ring
from trimask_simulation.people import PEOPLE

__all__ = ["MomentsOracle"]

_SCOPE = "moments"
_STATES = ("decided", "added")
_FILE = "moments.json"


@dataclass
class MomentsOracle(Oracle):
    """`false` are the people whose device sends a report that is not valid."""

    false: frozenset[int] = frozenset()
    _plans: dict[bytes, list[bytes]] = field(default_factory=dict)
    # (provider, batch) -> its state so far, and the release it was delivered in.
    _decided: dict[tuple[str, bytes], tuple[int, int | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kept_scope = _SCOPE  # a provider's totals stay until the study is forgotten
        self._roles = [f"R{k}" for k in range(1, len(self.study.right) + 1)]

    def _right_size(self, rows: int) -> bool:
        return 1 <= rows <= self.study.release_rows

    def _may_be_erased(self, name: str, block_id: bytes) -> bool:
        return self._stage_at(name, block_id) == 1

    def _stage_at(self, name: str, batch_id: bytes) -> int:
        return self._decided.get((name, batch_id), (-1, None))[0]

    def _counting(self, ids: Iterable[bytes]) -> int:
        return len(honest(self.people, ids, self.false))

    def _expected(self, batch_id: bytes) -> tuple[bytes, list[int]]:
        """The hash of what must be accepted of a batch, and the people it is of."""
        ids = self._plans[batch_id]
        accepted = [self.people[submission_id] not in self.false for submission_id in ids]
        digest = accepted_hash(self.study.id, batch_id, ids, accepted)
        return digest, honest(self.people, ids, self.false)

    def _right(self, name: str, connection: sqlite3.Connection) -> None:
        for batch_id, joined in connection.execute("SELECT block_id, submission_ids FROM blocks"):
            self._plans.setdefault(batch_id, split(joined))
        batches = connection.execute(
            "SELECT batch_id, state, accepted_hash, accepted_count, refused, release_number FROM moments_batches"
        )
        for batch_id, state, digest, count, refused, release in batches:
            label = f"{name}: batch {batch_id.hex()[:8]}"
            require(state in _STATES, f"{label} is {state}")
            expected, people = self._expected(batch_id)
            require(digest == expected, f"{label}: a false report was accepted, or an honest one refused")
            require(count == len(people), f"{label}: accepted {count} of {len(people)} reports")
            bad = sum(json.loads(refused).values())
            require(bad == len(self._plans[batch_id]) - count, f"{label}: counts {bad} refused reports")
            before, released = self._decided.get((name, batch_id), (0, None))
            require(_STATES.index(state) >= before, f"{label} went back a step")
            require(
                released in (None, release), f"{label} was delivered in releases {released} and {release}"
            )
            self._decided[name, batch_id] = (_STATES.index(state), release)
            if state == "added":
                missing = [role for role in self._roles if self._stage_at(role, batch_id) < 0]
                require(not missing, f"{label} was added before {missing} had decided")
        super()._right(name, connection)
        counts = Counter(_refusals(connection))
        stored: Counter[str] = Counter()
        for (refused,) in connection.execute("SELECT refused FROM moments_batches WHERE state = 'added'"):
            stored.update(json.loads(refused))
        require(
            all(counts[reason] == count for reason, count in stored.items()),
            f"{name}: counted {dict(counts)}, its batches have {dict(stored)}",
        )

    def _collector(self, connection: sqlite3.Connection) -> None:
        pooled: dict[int, int] = {}
        query = (
            "SELECT block_id, submission_ids, row_count, state, release_number, accepted_count FROM blocks"
        )
        for batch_id, joined, row_count, state, release, accepted in connection.execute(query):
            self._plans.setdefault(batch_id, split(joined))
            if self._stage(batch_id, joined, row_count, state):
                _, people = self._expected(batch_id)
                require(accepted == len(people), f"collector: {accepted} of {len(people)} reports accepted")
                missing = [role for role in self._roles if self._stage_at(role, batch_id) < 1]
                require(not missing, f"collector: a batch was pooled before {missing} had added it")
                pooled[release] = pooled.get(release, 0) + accepted
        for number, row_count in connection.execute("SELECT release_number, row_count FROM releases"):
            counted = pooled.pop(number, 0)
            require(
                counted == row_count, f"collector: release {number} counts {row_count} of {counted} reports"
            )
        require(not pooled, "collector: pooled batches belong to a release that is not there")
        self._published_once(connection)

    # The end

    def at_the_end(self, folders: Mapping[str, Path], receipts: Mapping[bytes, Receipt]) -> dict[str, int]:
        """As for rows; and what providers hold in shares is the sum of what they accepted."""
        counts = super().at_the_end(folders, receipts)
        self._shares_add_up(folders)
        refused = {submission_id for submission_id in receipts if self.people[submission_id] in self.false}
        return counts | {"refused": len(refused)}

    def _datasets(self, collector: sqlite3.Connection, folder: Path) -> list[int]:
        total = [0] * PEOPLE
        for dataset_id, manifest in collector.execute("SELECT dataset_id, manifest FROM datasets"):
            body = json.loads(manifest)
            file = body["files"][0]
            place = dataset_folder(folder, dataset_id, file["sha256"])
            path = place / file["name"]
            require(file["name"] == _FILE, f"{dataset_id} is {file['name']}")
            release = json.loads(path.read_bytes())
            people = [
                person for name in body["batch_ids"] for person in self._expected(bytes.fromhex(name))[1]
            ]
            require(
                (release["first"], release["products"]) == exact_totals(people),
                f"{dataset_id} is not the sum of the reports accepted in its batches",
            )
            require(release["accepted"] == len(people), f"{dataset_id} counts {release['accepted']} reports")
            found = people_in(release["first"], release["products"])
            self._listed(dataset_id, place, found)
            total = [a + b for a, b in zip(total, found, strict=True)]
        return total

    def _all_published(
        self,
        total: list[int],
        in_blocks: set[bytes],
        complete: set[bytes],
        receipts: Mapping[bytes, Receipt],
        note: str,
    ) -> None:
        require(in_blocks == complete, "complete reports and reports in batches differ")
        wanted = Counter(honest(self.people, complete, self.false))
        if wanted.total() < self.study.release_rows:  # an exact study opens no sum of fewer
            wanted.clear()
        for person, count in enumerate(total):
            require(count == wanted[person], f"person {person} is published {count} times")
        lost = set(receipts) - complete - self._withdrawn
        require(not lost, f"{len(lost)} accepted reports are in no batch")
        require(bool(wanted) or not complete or "nothing was published" in note, "the owner is not told")

    def _shares_add_up(self, folders: Mapping[str, Path]) -> None:
        layout = self.study.moments.layout
        sums: dict[bytes, list[int]] = {}
        for role in self._roles:
            connection = sqlite3.connect(folders[role] / "right.sqlite3")
            key = Vault(storage_ring(role)).find(_SqliteTransaction(connection), self.study.id, _SCOPE)
            rows = connection.execute("SELECT batch_id, total, accepted_count FROM moments_batches")
            for batch_id, stored, count in rows:
                assert key is not None
                share = unpack(key.decrypt(stored, batch_id))
                own = add_up(layout, [share], count, first=role == "R1")
                before = sums.get(batch_id, [0] * len(own))
                sums[batch_id] = [(a + b) % P for a, b in zip(before, own, strict=True)]
            connection.close()
        for batch_id, found in sums.items():
            first, products = exact_totals(self._expected(batch_id)[1])
            wanted = [value % P for value in (*first, *products)]
            require(found == wanted, f"the shares of batch {batch_id.hex()[:8]} are not of its reports")


def _refusals(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT reason, count FROM refusals").fetchall())
