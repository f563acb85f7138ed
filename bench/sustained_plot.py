"""The picture of minutes at full speed: `python -m bench.sustained_plot out/sustained.json out/sustained.png`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

from bench.plot_style import plain, save

__all__ = ["draw"]

_REQUIRED_RATIO, _MOST_MEMORY_MB = 0.5, 300
_OURS, _ECHO, _MEMORY, _LIMIT = "#0072B2", "#888888", "#009E73", "#D55E00"


def draw(found: dict[str, Any], path: Path) -> None:
    """Calls a second on the left, the provider's memory on the right, over the rows that wait in its store."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    turns = found["turns"]
    rows = [turn["rows"] / 1000 for turn in turns]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=(1.25, 1))
    for label, name, colour in (
        ("bare echo over TLS", "echo_per_second", _ECHO),
        ("durable submissions", "per_second", _OURS),
    ):
        rates = [turn[name] for turn in turns]
        left.plot(rows, rates, color=colour, marker="o", markersize=3, linewidth=1.4)
        left.annotate(
            label, (rows[-1], rates[-1]), xytext=(7, -3), textcoords="offset points", fontsize=9, color=colour
        )
    half = _REQUIRED_RATIO * found["echo_per_second"]
    left.axhline(half, color=_LIMIT, linewidth=1.0, linestyle=(0, (5, 3)))
    left.annotate(
        "half the echo's rate",
        (0, half),
        xytext=(2, -13),
        textcoords="offset points",
        fontsize=9,
        color=_LIMIT,
    )
    left.set_ylim(0, None)
    left.set_xlim(0, 1.36 * rows[-1])  # room for the names
    left.set_xticks([tick for tick in left.get_xticks() if tick <= rows[-1]])
    left.set_title("Calls a second", loc="left", fontsize=11, fontweight="bold")
    right.plot(
        rows, [turn["memory_mb"] for turn in turns], color=_MEMORY, marker="o", markersize=3, linewidth=1.4
    )
    right.axhline(_MOST_MEMORY_MB, color=_LIMIT, linewidth=1.0, linestyle=(0, (5, 3)))
    right.annotate(
        "limit", (0, _MOST_MEMORY_MB), xytext=(2, -13), textcoords="offset points", fontsize=9, color=_LIMIT
    )
    right.set_ylim(0, 1.1 * _MOST_MEMORY_MB)
    right.set_xlim(0, None)
    right.set_title("Right provider's memory, MB above its start", loc="left", fontsize=11, fontweight="bold")
    for axis in (left, right):
        axis.set_xlabel("thousands of rows pending")
        plain(axis)
    figure.tight_layout(w_pad=2.0)
    save(figure, path)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
