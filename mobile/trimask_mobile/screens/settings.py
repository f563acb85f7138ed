"""Text size and language; and, for whom the device is, what else it can be told."""

from __future__ import annotations

from typing import Any

from trimask_mobile.model.catalogue import LANGUAGES
from trimask_mobile.theme import SCALES
from trimask_mobile.widgets.basics import PushButton
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["SettingsScreen"]


class SettingsScreen(Page):
    """Both work at once, on this page too."""

    _shown: Any = None

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        ids.sizes.options = [(scale, f"{scale:.0%}".replace("%", " %")) for scale in SCALES]
        ids.sizes.chosen = [guide.scale]
        ids.languages.options = [(tag, LANGUAGES.get(tag, tag)) for tag in guide.languages]
        ids.languages.chosen = [guide.language if guide.language in guide.languages else guide.words.language]
        # A respondent may choose how they read, and nothing that is the device's; nor may one who answers just now.
        own = guide.mode == "own"
        ways = ([("institutions.title", guide.open_institutions)] if own else []) + (
            [("interviewer.title", guide.open_interviewer), ("remove.all", guide.ask_remove)]
            if own and guide.participation is None
            else []
        )
        if self._shown != (guide.words.language, [key for key, _ in ways]):
            self._shown = (guide.words.language, [key for key, _ in ways])
            ids.ways.clear_widgets()
            for key, does in ways:
                button = PushButton(text=guide.words.say(key))
                button.bind(on_release=lambda *_, does=does: does())
                ids.ways.add_widget(button)


load_kv(__file__)
