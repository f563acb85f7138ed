"""What makes a restored store safe to use; each keeper runs it in the transaction that restores."""

from __future__ import annotations

from trimask_server.settings.config import NodeRole

__all__ = ["renewal"]

_SKIPPED_NUMBERS = 1000


def renewal(role: NodeRole, *, keep_factors: bool) -> list[str]:
    """Statements that make a restored store safe to use, beside a new generation; part of the restoring transaction."""
    if role != "collector" or keep_factors:
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
