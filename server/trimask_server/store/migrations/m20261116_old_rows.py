"""2026-11-16. Rows that are not encrypted yet are found without reading all the others."""

from __future__ import annotations

from trimask_server.store.migration import portable

__all__ = ["PROVIDER"]

PROVIDER = portable(
    "2026-11-16 old rows",
    "CREATE INDEX submissions_old ON submissions (sequence) WHERE encrypted = 0 AND payload IS NOT NULL;",
)
