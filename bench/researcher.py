"""What a researcher waits for: pulling a published dataset, killed and resumed, and a least-squares fit on it.

The dataset has 20 attributes (21 columns with the ones) and up to a million rows. It is pooled, masked, written and
signed by a collector's own code and served by a collector process; a researcher is a process of its own each time,
so that its peak memory is its own. Only the chain of providers is left out: rows go to the collector as noisy blocks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.published import Published, publishing
from bench.results import Result, Settings, share_of_budget, share_of_limit

__all__ = ["Point", "researcher", "run_child"]

SUITE = "researcher"
MEMORY_MB = 1000.0
_SCAN = "bare Parquet scan + dgemm, the same blocks, by turns in one process"


@dataclass(frozen=True)
class Point:
    """What one size cost: seconds of each part and the researcher's peak memory."""

    rows: int
    pull_seconds: float
    fit_seconds: float
    scan_seconds: float
    peak_mb: float


def researcher(settings: Settings) -> tuple[list[Point], list[Result]]:
    """The growth over rows, and the results at the largest size."""
    sizes = (20_000, 80_000) if settings.quick else (62_500, 125_000, 250_000, 500_000, 1_000_000)
    points, results = [], []
    with publishing(sizes) as served:
        for published in served:
            with tempfile.TemporaryDirectory(prefix="trimask-cache-") as cache:
                point, found = _measure(published, Path(cache), settings.repeats(7))
            points.append(point)
            results = list(found)
    return points, results


def _measure(published: Published, cache: Path, repeats: int) -> tuple[Point, Iterator[Result]]:
    whole = run_child("pull", published, cache / "whole")
    cut = run_child("cut", published, cache / "cut", killed=True)
    resumed = run_child("pull", published, cache / "cut")
    if not 0 < resumed["fetched"] < whole["fetched"] == published.file_bytes:
        raise RuntimeError(
            f"a killed pull was not resumed: {resumed['fetched']:,} bytes came after it, {cut}"
        )
    fit = run_child("fit", published, cache / "whole")
    race = run_child("race", published, cache / "whole", repeats=repeats)
    peak = max(whole["peak_mb"], fit["peak_mb"])
    point = Point(published.rows, whole["seconds"], race["fit"], race["scan"], peak)
    return point, _results(published, whole, resumed, fit, race)


def _results(
    published: Published,
    whole: dict[str, Any],
    resumed: dict[str, Any],
    fit: dict[str, Any],
    race: dict[str, Any],
) -> Iterator[Result]:
    size = f"{published.rows:,} rows x 20 attributes"
    yield share_of_limit(
        SUITE, f"OLS fit, {size}", race["fit"], race["scan"], _SCAN, required=0.5, worst_z=fit["worst_z"]
    )
    yield share_of_limit(
        SUITE, "open (signatures, SHA-256 of the file) and fit", race["open_fit"], race["scan_hash"],
        "the same scan + dgemm, and SHA-256 of the file", required=0.5,
    )  # fmt: skip
    yield share_of_limit(
        SUITE, f"pull, {published.file_bytes / 1e6:.0f} MB over TLS, hash checked", whole["seconds"], race["copy"],
        "writing the bytes to a file, and SHA-256 of it", megabytes_a_second=published.file_bytes / 1e6 / whole["seconds"],
    )  # fmt: skip
    yield share_of_limit(
        SUITE, f"pull killed in the middle, resumed: {resumed['fetched'] / 1e6:.0f} MB to go", resumed["seconds"],
        whole["seconds"], "the whole pull", fetched=resumed["fetched"],
    )  # fmt: skip
    for name, found in (("pull", whole), ("open and fit", fit)):
        yield share_of_budget(
            SUITE, f"peak memory: {name}", found["peak_mb"], MEMORY_MB, "MB", "1 GB, a process of its own"
        )


def run_child(
    action: str, published: Published, cache: Path, *, killed: bool = False, repeats: int = 1
) -> dict[str, Any]:
    """A researcher's process; what it measured about itself."""
    order = {"action": action, "cache": str(cache), "repeats": repeats, **published.to_dict()}
    done = subprocess.run(
        [sys.executable, "-m", "bench.researcher_child"],
        input=json.dumps(order), capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    if killed:
        if done.returncode >= 0:
            raise RuntimeError(
                f"the pull that was to be killed ended with {done.returncode}: {done.stderr[-2000:]}"
            )
        return {}
    if done.returncode:
        raise RuntimeError(f"{action} failed:\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
