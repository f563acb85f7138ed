"""The tables of each kind of node, as ordered steps: append, never edit."""

from __future__ import annotations

from trimask_server.store.migration import Migration
from trimask_server.store.migrations import (
    m20261116_budget_ledger,
    m20261116_governance,
    m20261116_old_rows,
    m20261116_progress,
    m20261116_shared_store,
    m20261116_tables,
    m20261116_withdrawals,
)

__all__ = ["COLLECTOR", "PROVIDER"]

PROVIDER: tuple[Migration, ...] = (
    m20261116_tables.PROVIDER,
    m20261116_shared_store.PROVIDER,
    m20261116_old_rows.PROVIDER,
    m20261116_withdrawals.PROVIDER,
    m20261116_governance.PROVIDER,
)

COLLECTOR: tuple[Migration, ...] = (
    m20261116_tables.COLLECTOR,
    m20261116_budget_ledger.COLLECTOR,
    m20261116_shared_store.COLLECTOR,
    m20261116_progress.COLLECTOR,
    m20261116_governance.COLLECTOR,
)
