"""The picture of a researcher's wait and memory over the rows of a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from bench.plot_style import plain, save
from bench.researcher import MEMORY_MB, Point

__all__ = ["draw"]


def draw(points: Sequence[Point], path: Path) -> None:
    """Seconds on the left, peak memory on the right."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = [point.rows for point in points]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=(1.25, 1))
    for label, name, colour, marker in (
        ("pull over TLS, hash checked", "pull_seconds", "#D55E00", "s"),
        ("OLS fit", "fit_seconds", "#0072B2", "o"),
        ("bare Parquet scan + dgemm", "scan_seconds", "#888888", "D"),
    ):
        seconds = [getattr(point, name) for point in points]
        left.plot(rows, seconds, color=colour, marker=marker, markersize=5, linewidth=1.5)
        left.annotate(
            label, (rows[-1], seconds[-1]), xytext=(8, -9 if name == "scan_seconds" else 3),
            textcoords="offset points", fontsize=9, color=colour,
        )  # fmt: skip
    left.set_yscale("log")
    left.set_xlim(rows[0] / 1.2, rows[-1] * (rows[-1] / rows[0]) ** 0.85)  # room for the names
    left.set_title("Seconds", loc="left", fontsize=11, fontweight="bold")
    right.plot(
        rows, [point.peak_mb for point in points], color="#009E73", marker="^", markersize=6, linewidth=1.5
    )
    right.axhline(MEMORY_MB, color="#888888", linewidth=1.0, linestyle=(0, (5, 3)))
    right.annotate(
        "1 GB", (rows[0], MEMORY_MB), xytext=(0, -12), textcoords="offset points", fontsize=9, color="#666666"
    )
    right.set_ylim(0, 1.1 * MEMORY_MB)
    right.set_title("Peak memory of the researcher's process, MB", loc="left", fontsize=11, fontweight="bold")
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        axis.set_xticks(rows, [f"{count:,}" for count in rows], fontsize=8)
        axis.minorticks_off()
        axis.set_xlabel("rows of the release, 20 attributes")
        plain(axis)
    figure.tight_layout(w_pad=2.0)
    save(figure, path)
