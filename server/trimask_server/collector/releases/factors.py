"""The one factor a study with a budget answers from: all its rows pooled, kept at the collector, erased at the end."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.rows.rotation import Matrix
from trimask_server.collector.stored_factors import StoredFactors
from trimask_server.protocol.pool import fold
from trimask_server.store.data_keys import Vault
from trimask_server.store.interface import Store, Transaction

__all__ = ["Factors", "erase_factor"]


def erase_factor(tx: Transaction, study_id: bytes) -> bool:
    """Forget the factor, inside a transaction; whether there was one. `Store.scrub` finishes it on disk."""
    return bool(StoredFactors.forget(tx, study_id, ["answerable"], "spent"))


@dataclass(frozen=True)
class Factors:
    """Factors by study, in the collector's releases table under the states answerable and spent."""

    database: Store
    vault: Vault

    async def make_answerable(self, study_id: bytes, release_rows: int) -> int:
        """At close: pool everything into one factor if it has enough rows; the rows behind it, or 0.

        One transaction, and done again it changes nothing. Fewer rows than `release_rows` are left as they are, for
        the driver to discard.
        """

        stored = StoredFactors(self.vault)

        def write(tx: Transaction) -> int:
            done = tx.row(
                "SELECT row_count FROM releases WHERE study_id = ? AND state IN ('answerable', 'spent')",
                (study_id,),
            )
            if done is not None:
                return int(done[0])
            parts = tx.rows(
                "SELECT release_number, row_count, block_count FROM releases WHERE study_id = ?"
                " AND state IN ('open', 'full') ORDER BY release_number",
                (study_id,),
            )
            rows = sum(part[1] for part in parts)
            if not parts or rows < release_rows:
                return 0
            factor = None
            for part in parts:
                found = stored.load(tx, study_id, part[0])
                if found is None:
                    raise Refused(Reason.NOT_ANSWERABLE, "a part of this study's rows has lost its factor")
                factor = fold(factor, found)
            assert factor is not None  # noqa: S101 - for the type checker
            first = parts[0][0]
            tx.run(
                "UPDATE releases SET row_count = ?, block_count = ?, state = 'answerable'"
                " WHERE study_id = ? AND release_number = ?",
                (rows, sum(part[2] for part in parts), study_id, first),
            )
            stored.save(tx, study_id, first, factor)
            stored.drop(tx, study_id, [part[0] for part in parts[1:]])
            tx.run("UPDATE blocks SET release_number = ? WHERE study_id = ?", (first, study_id))
            return int(rows)

        rows = await self.database.write(write)
        await self.database.scrub()
        return rows

    async def state(self, study_id: bytes) -> tuple[str, int]:
        """(answerable, rows), (spent, rows), or (none, 0)."""
        row = await self.database.read(
            lambda tx: tx.row(
                "SELECT state, row_count FROM releases WHERE study_id = ? AND state IN ('answerable', 'spent')",
                (study_id,),
            )
        )
        return ("none", 0) if row is None else (str(row[0]), int(row[1]))

    async def load(self, study_id: bytes) -> Matrix:
        """The factor."""

        def read(tx: Transaction) -> Matrix | None:
            row = tx.row(
                "SELECT release_number FROM releases WHERE study_id = ? AND state = 'answerable'", (study_id,)
            )
            return None if row is None else StoredFactors(self.vault).load(tx, study_id, row[0])

        factor = await self.database.read(read)
        if factor is None:
            raise Refused(Reason.NOT_ANSWERABLE, "this study has no factor to answer from any more")
        return factor
