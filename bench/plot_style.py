"""How the benchmarks' pictures look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["plain", "save"]


def plain(axis: Any) -> None:
    """A light grid behind what is drawn, and no frame where nothing is read off."""
    axis.grid(visible=True, which="major", color="#ECECEC", linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def save(figure: Any, path: Path) -> None:
    """Write the picture and forget it."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
