"""The tables of each kind of node, as ordered steps: append, never edit.

The name of a first step says for which kind of node it is, so that a node refuses the schema of another kind.
"""

from __future__ import annotations

from trimask_server.store.migration import Migration
from trimask_server.store.migrations import m20261116_initial

__all__ = ["COLLECTOR", "PROVIDER"]

PROVIDER: tuple[Migration, ...] = (m20261116_initial.PROVIDER,)

COLLECTOR: tuple[Migration, ...] = (m20261116_initial.COLLECTOR,)
