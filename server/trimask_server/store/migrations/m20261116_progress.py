"""2026-11-16. How many complete submissions wait, where every worker of a collector can read it."""

from __future__ import annotations

from trimask_server.store.migration import portable

__all__ = ["COLLECTOR"]

COLLECTOR = portable(
    "2026-11-16 progress",
    "CREATE TABLE progress (study_id BLOB PRIMARY KEY, pending_rows INTEGER NOT NULL);",
)
