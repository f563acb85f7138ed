"""What the pictures have in common: colours that are safe for colour blindness, quiet axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PURPLE", "quiet"]

INK, GREY = "#222222", "#555555"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#aa4499"


def quiet(
    ax: Axes, *, hide: tuple[str, ...] = ("top", "right"), grid: Literal["both", "x", "y"] = "y"
) -> None:
    """Light spines and grid, small ticks."""
    for side in hide:
        ax.spines[side].set_visible(False)
    for side in {"bottom", "left"} - set(hide):
        ax.spines[side].set_color("#bbbbbb")
    ax.grid(axis=grid, color="#e3e6ea", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=8.5, colors=GREY)
