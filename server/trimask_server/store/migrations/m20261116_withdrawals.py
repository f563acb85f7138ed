"""2026-11-16. Withdrawal: a withdrawn row keeps its id alone, and a plan that another provider declined is cancelled.

Never a plan whose masking has begun here (`started`); of plans from before this was written down, that is assumed.
"""

from __future__ import annotations

from trimask_server.store.migration import portable

__all__ = ["PROVIDER"]

PROVIDER = portable(
    "2026-11-16 withdrawals",
    """
ALTER TABLE submissions ADD COLUMN withdrawn_ms INTEGER;
ALTER TABLE blocks ADD COLUMN started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE blocks ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
UPDATE blocks SET started = 1;
""",
)
