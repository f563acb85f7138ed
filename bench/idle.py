"""What studies cost that nobody answers: processor time a second of every node, with studies open and at rest."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.cluster import Live, live_cluster, tree_usage
from bench.results import Result, Settings, share_of_budget

__all__ = ["idle", "idle_many"]

_BLOCK = 256
_SETTLE_SECONDS = 12.0  # until the pace of questions has backed off
_FEW, _MANY = 20, 1000
_WANTED_MS = {_FEW: 15.0, _MANY: 100.0}
"""Of processor time a second: twenty studies on all seven nodes, a thousand at the collector."""


def idle(settings: Settings) -> Iterator[Result]:
    """Twenty studies at rest on seven nodes."""
    yield from _idle(_FEW, 20.0 if settings.quick else 40.0)


def idle_many(settings: Settings) -> Iterator[Result]:
    """A thousand, of which the collector's share is looked at. They take minutes to open."""
    yield from _idle(_MANY, 20.0 if settings.quick else 60.0)


def _idle(studies: int, seconds: float) -> Iterator[Result]:
    with live_cluster("rows") as live:
        for _ in range(studies):
            live.open(_BLOCK, _BLOCK)
        spent = _at_rest(live, seconds)
    value = sum(spent.values()) if studies == _FEW else spent["collector"]
    where = f"{len(spent)} nodes" if studies == _FEW else "the collector"
    yield share_of_budget(
        "at rest", f"{studies:,} studies, rows, 4 + 2: {where}", value, _WANTED_MS[studies], "ms CPU a second",
        "wanted", nodes=spent,
    )  # fmt: skip


def _at_rest(live: Live, seconds: float) -> dict[str, float]:
    """Milliseconds of processor time that each node takes a second."""
    time.sleep(_SETTLE_SECONDS)
    start = time.monotonic()
    before = {name: tree_usage(marker).seconds for name, marker in live.markers.items()}
    time.sleep(seconds)
    spent = time.monotonic() - start
    return {
        name: 1e3 * (tree_usage(marker).seconds - before[name]) / spent
        for name, marker in live.markers.items()
    }
