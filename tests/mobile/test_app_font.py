"""The characters that `trimask_core.form.font_coverage` counts as shown are those of the font that the app draws with."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from trimask_core.form import font_coverage


@pytest.mark.parametrize("style", ["Regular", "Bold"])
def test_the_table_is_the_fonts(style: str) -> None:
    ttlib = pytest.importorskip("fontTools.ttLib")
    kivy = find_spec("kivy")  # not imported: it would take over the logging of all tests in this process
    assert kivy is not None
    assert kivy.origin is not None
    with ttlib.TTFont(Path(kivy.origin).parent / "data" / "fonts" / f"Roboto-{style}.ttf") as font:
        drawn = set(font.getBestCmap())
    # Control characters, private use and specials are nobody's text.
    text = {code for code in drawn if code >= 0x20 and not 0xE000 <= code <= 0xF8FF and code < 0xFEFF}
    assert font_coverage._APP_LETTERS - {9, 10, 13} == text
