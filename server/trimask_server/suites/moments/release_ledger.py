"""The collector's releases of the moments suite: which batches each has, and how many reports were accepted in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_server.collector.publication import count_block, release_of_planned
from trimask_server.runtime.audit import AuditLog
from trimask_server.store.interface import Store, Transaction


@dataclass(frozen=True)
class ReleaseLedger:
    """Beside `collector.ledger`, in the same store: a batch and the release it joins change in one transaction."""

    database: Store
    audit: AuditLog | None = None

    def _record(self, tx: Transaction, kind: str, **details: str | int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, **details)

    async def pool(
        self,
        study_id: bytes,
        batch_id: bytes,
        accepted: bytes,
        release_rows: int,
        refused: Mapping[str, int] | None = None,
    ) -> bool:
        """Count a batch that every right provider has added up into the open release; False if it was before.

        `accepted` has a byte for each of its reports, in ascending order of ids: 1 if it was accepted, or 0.
        """
        count_accepted = sum(accepted)

        def write(tx: Transaction) -> bool:
            release = release_of_planned(tx, study_id, batch_id)
            if release is None:
                return False
            count_block(tx, study_id, release, count_accepted, release_rows)
            tx.run(
                "UPDATE blocks SET state = 'pooled', release_number = ?, accepted_count = ?, accepted = ?"
                " WHERE block_id = ?",
                (release.number, count_accepted, accepted, batch_id),
            )
            for reason, count in (refused or {}).items():
                tx.run(
                    "INSERT INTO refused_reports (study_id, reason, count) VALUES (?, ?, ?)"
                    " ON CONFLICT (study_id, reason) DO UPDATE SET count = refused_reports.count + excluded.count",
                    (study_id, reason, count),
                )
            self._record(
                tx,
                "batch_pooled",
                study=study_id.hex(),
                batch=batch_id.hex(),
                accepted=count_accepted,
                release=release.number,
            )
            return True

        return await self.database.write(write)

    async def batches(self, study_id: bytes, number: int) -> list[bytes]:
        """The batches of a release, in the order they were planned."""
        return await self.database.read(
            lambda tx: [
                bytes(row[0])
                for row in tx.rows(
                    "SELECT block_id FROM blocks WHERE study_id = ? AND release_number = ? ORDER BY sequence",
                    (study_id, number),
                )
            ]
        )

    async def answered_from(self, study_id: bytes) -> tuple[int, list[bytes]]:
        """The number and the batches of the release that a study with a budget answers from."""
        row = await self.database.read(
            lambda tx: tx.row(
                "SELECT release_number FROM releases WHERE study_id = ? AND state IN ('answerable', 'spent')",
                (study_id,),
            )
        )
        if row is None:
            raise Refused(Reason.NOT_ANSWERABLE, "this study has no totals to answer from")
        return int(row[0]), await self.batches(study_id, int(row[0]))

    async def drop(self, study_id: bytes, batch_id: bytes) -> None:
        """Take a batch that a provider has lost out of its release, for ever."""

        def write(tx: Transaction) -> None:
            row = tx.row(
                "SELECT release_number, accepted_count FROM blocks WHERE block_id = ? AND study_id = ?",
                (batch_id, study_id),
            )
            if row is None or row[0] is None:
                return
            tx.run(
                "UPDATE blocks SET release_number = NULL, state = 'abandoned' WHERE block_id = ?", (batch_id,)
            )
            tx.run(
                "UPDATE releases SET row_count = row_count - ?, block_count = block_count - 1"
                " WHERE study_id = ? AND release_number = ?",
                (row[1], study_id, row[0]),
            )
            tx.run(
                "UPDATE releases SET state = 'discarded' WHERE study_id = ? AND release_number = ? AND row_count = 0",
                (study_id, row[0]),
            )
            self._record(tx, "block_abandoned", study=study_id.hex(), block=batch_id.hex())

        await self.database.write(write)

    async def note_refusal(self, study_id: bytes, number: int, reason: str) -> None:
        """A right provider refuses the release for good: its owner may give it up."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE releases SET refused = ? WHERE study_id = ? AND release_number = ?",
                (str(reason), study_id, number),
            )
        )

    async def discard(self, study_id: bytes, number: int) -> None:
        """Give a release up: it is never published."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE releases SET state = 'discarded' WHERE study_id = ? AND release_number = ?",
                (study_id, number),
            )
        )

    async def close(self, study_id: bytes, least: int) -> None:
        """At close a short release joins the last full one that is not published; alone, it is complete as it is, if it
        has at least so many reports."""

        def write(tx: Transaction) -> None:
            last = tx.rows(
                "SELECT release_number, row_count, block_count, state FROM releases WHERE study_id = ?"
                " AND state IN ('open', 'full') ORDER BY release_number DESC LIMIT 2",
                (study_id,),
            )
            if not last or last[0][3] != "open":
                return
            short = last[0]
            if len(last) < 2:
                state = "full" if short[1] >= least else "discarded"
                tx.run(
                    "UPDATE releases SET state = ? WHERE study_id = ? AND release_number = ?",
                    (state, study_id, short[0]),
                )
                return
            full = last[1]
            tx.run(
                "UPDATE releases SET row_count = ?, block_count = ? WHERE study_id = ? AND release_number = ?",
                (full[1] + short[1], full[2] + short[2], study_id, full[0]),
            )
            tx.run("DELETE FROM releases WHERE study_id = ? AND release_number = ?", (study_id, short[0]))
            tx.run(
                "UPDATE blocks SET release_number = ? WHERE study_id = ? AND release_number = ?",
                (full[0], study_id, short[0]),
            )

        await self.database.write(write)

    async def make_answerable(self, study_id: bytes) -> None:
        """At close of a study with a budget: one release of everything, to answer from."""

        def write(tx: Transaction) -> None:
            found = tx.rows(
                "SELECT release_number, row_count, block_count FROM releases WHERE study_id = ?"
                " AND state IN ('open', 'full') ORDER BY release_number",
                (study_id,),
            )
            rows = sum(row[1] for row in found)
            if not rows:
                return
            first = found[0][0]
            tx.run(
                "UPDATE releases SET row_count = ?, block_count = ?, state = 'answerable'"
                " WHERE study_id = ? AND release_number = ?",
                (rows, sum(row[2] for row in found), study_id, first),
            )
            for number, _, _ in found[1:]:
                tx.run("DELETE FROM releases WHERE study_id = ? AND release_number = ?", (study_id, number))
                tx.run(
                    "UPDATE blocks SET release_number = ? WHERE study_id = ? AND release_number = ?",
                    (first, study_id, number),
                )

        await self.database.write(write)

    async def publish(
        self, study_id: bytes, number: int, dataset_id: str, manifest: bytes, signature: bytes
    ) -> None:
        """Record a published dataset."""

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO datasets (dataset_id, study_id, release_number, manifest, signature) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (dataset_id) DO NOTHING",
                (dataset_id, study_id, number, manifest, signature),
            )
            tx.run(
                "UPDATE releases SET state = 'published' WHERE study_id = ? AND release_number = ?",
                (study_id, number),
            )
            self._record(tx, "dataset_published", study=study_id.hex(), dataset=dataset_id)

        await self.database.write(write)
