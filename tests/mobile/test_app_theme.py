"""Contrast of what is drawn on what, computed; and that every colour the screens use is in the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trimask_mobile.theme import COLOURS, PAIRS, SCALES, TOUCH_DP, contrast

SOURCES = Path(__file__).parents[2] / "mobile" / "trimask_mobile"


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

    from trimask_mobile.model.catalogue import LANGUAGES, catalogue

    kivy = find_spec("kivy")
    assert kivy is not None
    assert kivy.origin is not None
    for style in ("Regular", "Bold"):
        font = TTFont(Path(kivy.origin).parent / "data" / "fonts" / f"Roboto-{style}.ttf")
        letters = {letter for tag in LANGUAGES for text in catalogue(tag).words.values() for letter in text}
        assert not {letter for letter in letters if ord(letter) not in font.getBestCmap()} - {"\n"}
