"""Text size and language."""

from __future__ import annotations

from trimask_mobile.model.catalogue import LANGUAGES
from trimask_mobile.theme import SCALES
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["SettingsScreen"]


class SettingsScreen(Page):
    """Both work at once, on this page too."""

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        ids.sizes.options = [(scale, f"{scale:.0%}".replace("%", " %")) for scale in SCALES]
        ids.sizes.chosen = [guide.scale]
        ids.languages.options = [(tag, LANGUAGES.get(tag, tag)) for tag in guide.languages]
        ids.languages.chosen = [guide.language if guide.language in guide.languages else guide.words.language]


load_kv(__file__)
