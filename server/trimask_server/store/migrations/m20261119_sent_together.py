"""2026-11-19. How many of a study's people came together, from who has many people's answers: told with what is published.

A count, in parts, and no mark on each row: which of them came together is nobody's business.
"""

from __future__ import annotations

from trimask_server.store.interface import portable

PROVIDER = portable(
    "2026-11-19 people who came together",
    "CREATE TABLE sent_together (study_id BLOB NOT NULL, part INTEGER NOT NULL, count INTEGER NOT NULL,"
    " PRIMARY KEY (study_id, part));",
)
