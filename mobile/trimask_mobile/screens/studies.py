"""My studies."""

from __future__ import annotations

from typing import Any

from kivy.properties import StringProperty
from kivy.uix.boxlayout import BoxLayout

from trimask_mobile.model.shelf import Item, spent_words
from trimask_mobile.widgets.basics import PushButton
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["StudiesScreen"]

_SIGNS = {
    "new": ("ring", "muted"),
    "draft": ("dot", "primary"),
    "waiting": ("clock", "warning"),
    "refused": ("cross", "error"),
    "damaged": ("cross", "error"),
    "sent": ("check", "success"),
    "withdrawing": ("clock", "warning"),
    "too_late": ("check", "success"),
    "withdrawn": ("check", "muted"),
}
_ACTIONS = {"new": "studies.begin", "draft": "studies.continue", "sent": "studies.receipt"}


class ItemCard(BoxLayout):
    """One study of the list."""

    title = StringProperty("")
    state = StringProperty("")
    text = StringProperty("")
    sign = StringProperty("none")
    colour = StringProperty("muted")


class SpentCard(BoxLayout):
    """What all studies together can tell."""

    text = StringProperty("")


class Welcome(BoxLayout):
    """Where nothing is there yet."""


class StudiesScreen(Page):
    """The list, or a welcome where it is empty."""

    _lines: Any = None

    def refresh(self) -> None:
        guide, words = self.guide, self.guide.words
        shown = self.ids.shown
        now_ms = guide.device.clock.now_ms()
        lines = [(item, item.words(words, now_ms)) for item in guide.items]
        if self._lines == (words.language, lines):
            return  # what has the focus keeps it
        self._lines = (words.language, lines)
        shown.clear_widgets()
        for item, text in lines:
            sign, colour = _SIGNS[item.state]
            card = ItemCard(
                title=item.title,
                state=words.say(f"shelf.{item.state}"),
                text=text,
                sign=sign,
                colour=colour,
            )
            self._add_actions(card, item)
            shown.add_widget(card)
        spent = spent_words(guide.items, words)
        if spent:
            shown.add_widget(SpentCard(text=spent))
        if not guide.items:
            shown.add_widget(Welcome())

    def _add_actions(self, card: ItemCard, item: Item) -> None:
        words = self.guide.words
        buttons = card.ids.buttons
        main = PushButton(text=words.say(_ACTIONS.get(item.state, "studies.details")))
        main.bind(on_release=lambda *_: self.guide.show(item))
        buttons.add_widget(main)
        if item.state == "draft":
            delete = PushButton(text=words.say("studies.delete"), kind="quiet")
            delete.bind(on_release=lambda *_: self.guide.delete_draft(item))
            buttons.add_widget(delete)


load_kv(__file__)
