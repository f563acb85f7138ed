"""What makes a restored store safe to use; each keeper runs it in the transaction that restores."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_server.settings.config import NodeRole
from trimask_server.store import release_table


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
    return [*release_table.after_restore(), "DELETE FROM data_keys"]
