"""On paper: what a study on 32 cores a provider, and one of 10^8 people, would take, from what a run has measured.

The formulas stand in docs/performance.md, above the tables that are written here.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.results import Result
from bench.roles import BYTES, CALLS, TOGETHER

__all__ = ["on_paper"]

_CORES, _PEOPLE = 32, 10**8
_DATABASE_US, _DATABASE_BYTES = 330.0, 6430.0
"""D and d of the page: PostgreSQL's processor time and disk for a person of `moments`, by `python -m bench.million`."""


def on_paper(results: list[Result]) -> str:
    """Two tables; nothing if the run has not measured what they rest on."""
    found = {result.name: result.value for result in results if result.suite == "a person"}
    ways = [(suite, way) for suite in ("moments", "rows") for way in (CALLS, TOGETHER)]
    if not all(f"{suite}: {way}: all nodes" in found for suite, way in ways):
        return ""
    head = f"{_CORES} cores a provider, one study of `moments`"
    lines = [f"| {head} | reports a second | collector's cores | collector's share | database's share |"]
    lines += ["|---|---:|---:|---:|---:|", *(_row(found, way) for way in (CALLS, TOGETHER)), ""]
    lines += ["| 10⁸ people | core-hours | sent | database |", "|---|---:|---:|---:|"]
    return "\n".join([*lines, *(_large(found, suite, way) for suite, way in ways)])


def _row(found: Mapping[str, float], way: str) -> str:
    parts = ("the busiest right provider", "the collector", "all nodes")
    provider, collector, nodes = (found[f"moments: {way}: {part}"] for part in parts)
    bound = 1e6 / collector if collector else float("inf")
    rate = min(_CORES * 1e6 / (provider + _DATABASE_US / 2), bound)
    limited = " (the collector's bound)" if rate == bound else ""
    whole = nodes + _DATABASE_US
    shares = f"{collector / whole:.0%} | {_DATABASE_US / whole:.0%}"
    return f"| {way} | {rate:,.0f}{limited} | {rate * collector / 1e6:.1f} | {shares} |"


def _large(found: Mapping[str, float], suite: str, way: str) -> str:
    database = _DATABASE_US if suite == "moments" else 0.0
    hours = _PEOPLE * (found[f"{suite}: {way}: all nodes"] + database) / 3.6e9
    sent = _PEOPLE * found[f"{suite}: {BYTES}"] / 1e12
    disk = f"{_PEOPLE * _DATABASE_BYTES / 1e9:,.0f} GB" if database else ""
    return f"| `{suite}`, {way} | {hours:,.0f} | {sent:.2f} TB | {disk} |"
