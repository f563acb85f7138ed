"""2026-11-16. When a study closed, so that what is left of it can go a while later; and when it went."""

from __future__ import annotations

from trimask_server.store.migration import portable

__all__ = ["BOTH"]

BOTH = portable(
    "2026-11-16 closures",
    "CREATE TABLE closures (study_id BLOB PRIMARY KEY, closed_ms INTEGER NOT NULL, collected_ms INTEGER);",
)
