"""Contrast of what is drawn on what, computed; and that every colour the screens use is in the table.

Ratios are WCAG 2.2's: text needs 4.5 : 1 against what it stands on (1.4.3), the edge of a control and the focus ring
3 : 1 (1.4.11).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trimask_mobile.theme import COLOURS, SCALES, TOUCH_DP, rgba

SOURCES = Path(__file__).parents[2] / "mobile" / "trimask_mobile"


# What is drawn on what, and the least ratio it must have.
PAIRS = (
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


def luminance(name: str) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue, _ = rgba(name)
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def contrast(one: str, other: str) -> float:
    """The ratio of two colours, from 1 to 21."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("one", "other", "least"), PAIRS)
def test_contrast(one: str, other: str, least: float) -> None:
    assert contrast(one, other) >= least


def test_contrast_is_the_formula_of_wcag() -> None:
    """Black on white is 21 : 1 by definition; #767676 on white is the well-known grey that just passes 4.5."""
    from trimask_mobile import theme

    grey = {**COLOURS, "white": "#FFFFFF", "black": "#000000", "grey": "#767676", "lighter": "#777777"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theme, "COLOURS", grey)
        assert contrast("black", "white") == pytest.approx(21)
        assert contrast("grey", "white") >= 4.5 > contrast("lighter", "white")


def test_every_colour_of_text_is_in_the_table() -> None:
    """A colour named in a rule and not paired with a ground would be one nobody has looked at."""
    texts = {pair[0] for pair in PAIRS}
    for path in sorted(SOURCES.rglob("*.kv")):
        for name in re.findall(r"colour: '(\w+)'", path.read_text()):
            assert name in texts, f"{path.name}: {name}"


def test_no_colour_outside_the_theme() -> None:
    for path in sorted((*SOURCES.rglob("*.kv"), *SOURCES.rglob("*.py"))):
        if path.name != "theme.py":
            assert not re.search(r"#[0-9A-Fa-f]{6}\b", path.read_text()), path.name


def test_scales_and_touch() -> None:
    assert SCALES[0] == 1.0
    assert SCALES[-1] == 2.0
    assert TOUCH_DP >= 48


def test_the_font_has_every_letter_of_the_app() -> None:
    from importlib.util import find_spec

    from fontTools.ttLib import TTFont

    from trimask_mobile.model.words import LANGUAGES, catalogue

    kivy = find_spec("kivy")
    assert kivy is not None
    assert kivy.origin is not None
    for style in ("Regular", "Bold"):
        font = TTFont(Path(kivy.origin).parent / "data" / "fonts" / f"Roboto-{style}.ttf")
        letters = {letter for tag in LANGUAGES for text in catalogue(tag).words.values() for letter in text}
        assert not {letter for letter in letters if ord(letter) not in font.getBestCmap()} - {"\n"}
