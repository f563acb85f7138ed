"""What makes a restored store safe to use; each keeper runs it in the transaction that restores."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_server.settings.config import NodeRole

_SKIPPED_NUMBERS = 1000


@dataclass(frozen=True)
class Kept:
    """What the operator says of a restore: a collector's factors may stay; a right provider's ledger is the live one."""

    factors: bool = False
    ledger: bool = False


def renewal(role: NodeRole, kept: Kept) -> list[str]:
    """Statements that make a restored store safe to use, beside a new generation; part of the restoring transaction."""
    if role == "right":
        # What this store holds may have been delivered since: docs/theory/verified-moments.md#noise-once.
        again = "DO NOTHING" if kept.ledger else "(study_id) DO UPDATE SET lost = 1"
        marked = f"SELECT study_id, {int(not kept.ledger)} FROM studies WHERE state <> 'collected'"  # noqa: S608
        return [f"INSERT INTO restored_ledgers (study_id, lost) {marked} ON CONFLICT {again}"]
    if role != "collector" or kept.factors:
        return []
    # Numbers that may have been published since the backup are not given out again.
    skip = f"""
INSERT INTO releases (study_id, release_number, row_count, block_count, state)
SELECT study_id, {_SKIPPED_NUMBERS} + coalesce(
  (SELECT max(release_number) FROM releases WHERE releases.study_id = studies.study_id), 0), 0, 0, 'discarded'
FROM studies"""  # noqa: S608 - a constant
    return [
        skip,
        "UPDATE releases SET factor = NULL, state = 'spent' WHERE state = 'answerable'",
        "UPDATE releases SET factor = NULL, state = 'discarded' WHERE state IN ('open', 'full')",
        "DELETE FROM data_keys",
    ]
