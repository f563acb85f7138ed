"""Colours and sizes, without Kivy, so that a test can compute what people will see.

Ratios are WCAG 2.2's: text needs 4.5 : 1 against what it stands on (1.4.3), the edge of a control and the focus ring
3 : 1 (1.4.11).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

__all__ = ["COLOURS", "PAIRS", "SCALES", "SIZES", "TOUCH_DP", "Rgba", "contrast", "rgba"]

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
# What is drawn on what, and the least ratio it must have.
PAIRS: Final = (
    *(
        (ink, ground, 4.5)
        for ink in ("ink", "muted", "primary", "error")
        for ground in ("ground", "card", "tint")
    ),
    ("ink", "error_tint", 4.5),
    ("ink", "success_tint", 4.5),
    ("ink", "warning_tint", 4.5),
    ("error", "error_tint", 4.5),
    ("success", "success_tint", 4.5),
    ("success", "card", 4.5),
    ("success", "ground", 4.5),
    ("warning", "warning_tint", 4.5),
    ("warning", "card", 4.5),
    ("on_primary", "primary", 4.5),
    ("on_primary", "pressed", 4.5),
    ("on_primary", "error", 4.5),
    ("edge", "card", 3.0),
    ("edge", "ground", 3.0),
    ("edge", "tint", 3.0),
    ("ring", "ground", 3.0),
    ("ring", "card", 3.0),
    ("ring", "tint", 3.0),
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


def _luminance(name: str) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue, _ = rgba(name)
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def contrast(one: str, other: str) -> float:
    """The ratio of two colours, from 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
