"""The suites there are, by name."""

from __future__ import annotations

from trimask_server.suites.interface import Suite
from trimask_server.suites.moments.suite import MomentsSuite
from trimask_server.suites.rows.suite import RowsSuite

__all__ = ["SUITES"]

SUITES: dict[str, Suite] = {suite.name: suite for suite in (RowsSuite(), MomentsSuite())}
