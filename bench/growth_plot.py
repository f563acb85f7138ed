"""The picture of growth: one panel a size, both axes logarithmic, each curve named where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from bench.growth import Axis, Curve
from bench.plot_style import plain, save

__all__ = ["draw"]

# Okabe and Ito's colours: told apart by colour-blind readers, and in grey by their order.
_COLOURS = {
    "right masking": "#0072B2",
    "left masking": "#D55E00",
    "unmasking": "#009E73",
    "a device": "#444444",
    "whole study": "#CC79A7",
}
_MARKERS = {"right masking": "o", "left masking": "s", "unmasking": "D", "a device": "^", "whole study": "o"}
_PANELS: dict[Axis, tuple[str, str]] = {
    "n": ("Rows of a block, p = 4n + 20", "block rows n"),
    "p": ("Columns, n = 256", "columns p"),
    "participants": ("Participants, blocks of 64", "participants"),
}
_GUIDE = "#B8B8B8"


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Write the picture."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13.5, 4.8), width_ratios=(1.0, 1.0, 0.8))
    for axis, (name, (title, label)) in zip(axes, _PANELS.items(), strict=True):
        found = [curve for curve in curves if curve.axis == name]
        for curve in found:
            _curve(axis, curve)
        _label_ends(axis, found)
        _guide(axis, found)
        _dress(axis, title, label, found)
    axes[0].set_ylabel("seconds")
    figure.text(
        0.005, 0.005,
        "Processor seconds of one core (first two panels), wall seconds of six processes on this machine (third). "
        "Best of several. Exponents are fitted over the larger half of each curve; grey: the leading term's.",
        fontsize=8, color="#555555",
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0.035, 1, 1), w_pad=2.0)
    save(figure, path)


def _curve(axis: Any, curve: Curve) -> None:
    axis.plot(
        curve.sizes, curve.seconds, color=_COLOURS[curve.name], marker=_MARKERS[curve.name],
        markersize=5, linewidth=1.6, markeredgecolor="white", markeredgewidth=0.6,
    )  # fmt: skip


def _label_ends(axis: Any, curves: list[Curve]) -> None:
    """Names beside the last points, pushed apart (in decades) where they would overlap."""
    logs = [np.log10(second) for curve in curves for second in curve.seconds]
    apart = 0.062 * (max(logs) - min(logs) + 0.6)
    height = -np.inf
    for curve in sorted(curves, key=lambda curve: curve.seconds[-1]):
        height = max(np.log10(curve.seconds[-1]), height + apart)
        axis.annotate(
            f"{curve.name}  $x^{{{curve.exponent:.2f}}}$",
            (curve.sizes[-1], 10**height), xytext=(8, 0), textcoords="offset points",
            va="center", fontsize=9, color=_COLOURS[curve.name],
        )  # fmt: skip


def _guide(axis: Any, curves: list[Curve]) -> None:
    """A line of the expected exponent above the dearest curve."""
    top = max(curves, key=lambda curve: curve.seconds[-1])
    x = np.array(top.sizes, dtype=float)
    y = 1.8 * top.seconds[-1] * (x / x[-1]) ** top.expected
    axis.plot(x, y, color=_GUIDE, linewidth=1.0, linestyle=(0, (5, 3)), zorder=0)
    middle = len(x) // 2
    axis.annotate(
        f"$x^{top.expected:g}$", (x[middle], y[middle]), xytext=(-4, 7), textcoords="offset points",
        fontsize=9, color="#8A8A8A", ha="right",
    )  # fmt: skip


def _dress(axis: Any, title: str, label: str, curves: list[Curve]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    sizes = sorted({size for curve in curves for size in curve.sizes})
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.minorticks_off()
    axis.set_xlim(sizes[0] / 1.2, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.55)  # room for the names
    seconds = [second for curve in curves for second in curve.seconds]
    # Whole decades, so that every panel has labelled ticks to read a value from.
    axis.set_ylim(10 ** np.floor(np.log10(min(seconds))), 10 ** np.ceil(np.log10(2 * max(seconds))))
    axis.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axis.set_xlabel(label)
    plain(axis)
    axis.tick_params(labelsize=8.5, length=3)
