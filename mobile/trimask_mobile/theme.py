"""Colours and sizes, without Kivy, so that a test can compute the contrast that people will see."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

Rgba = tuple[float, float, float, float]

COLOURS: Final = MappingProxyType(
    {
        "ground": "#F5F7F6",  # behind everything
        "card": "#FFFFFF",
        "tint": "#E3EFED",  # a selected choice, a quiet highlight
        "ink": "#17262B",
        "muted": "#4C5F66",
        "primary": "#0E5A61",
        "pressed": "#0A444A",
        "on_primary": "#FFFFFF",
        "line": "#CBD5D3",  # decoration only: nothing is understood by it
        "edge": "#6B7F86",  # the edge of a field or a choice
        "ring": "#B4500B",  # keyboard focus
        "error": "#A1261C",
        "error_tint": "#FBECEA",
        "success": "#1B663A",
        "success_tint": "#E5F2EA",
        "warning": "#7A4A00",
        "warning_tint": "#FBF1DF",
    }
)
TOUCH_DP: Final = 48
# In scale-independent pixels at 100 %.
SIZES: Final = MappingProxyType({"title": 24, "heading": 18, "body": 16, "small": 14})
SCALES: Final = (1.0, 1.25, 1.5, 1.75, 2.0)


def rgba(name: str) -> Rgba:
    """A colour as Kivy takes it."""
    text = COLOURS[name]
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue, 1.0
