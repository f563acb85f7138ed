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
    _sure = b""  # the study whose draft a person has asked to delete, and is asked about

    def refresh(self) -> None:
        guide, words = self.guide, self.guide.words
        shown = self.ids.shown
        now_ms = guide.device.clock.now_ms()
        lines = [(item, item.words(words, now_ms)) for item in guide.items]
        if self._lines == (words.language, lines, self._sure):
            return  # what has the focus keeps it
        self._lines = (words.language, lines, self._sure)
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
        if item.state == "draft" and item.study_id == self._sure:
            card.text = words.say("studies.delete.sure")
            keep, sure = (
                PushButton(text=words.say("studies.keep")),
                PushButton(text=words.say("studies.delete"), kind="danger"),
            )
            keep.bind(on_release=lambda *_: self._ask(b""))
            sure.bind(on_release=lambda *_: self._delete(item))
            buttons.add_widget(keep)
            buttons.add_widget(sure)
            return
        main = PushButton(text=words.say(_ACTIONS.get(item.state, "studies.details")))
        main.bind(on_release=lambda *_: self.guide.show(item))
        buttons.add_widget(main)
        if item.study_id and item.state != "draft":
            remove = PushButton(text=words.say("remove.one"), kind="quiet")
            remove.bind(on_release=lambda *_: self.guide.ask_remove(item))
            buttons.add_widget(remove)
        if item.state == "draft":
            delete = PushButton(text=words.say("studies.delete"), kind="quiet")
            delete.bind(on_release=lambda *_: self._ask(item.study_id))
            buttons.add_widget(delete)

    def _ask(self, study_id: bytes) -> None:
        self._sure = study_id
        self.refresh()

    def _delete(self, item: Item) -> None:
        self._sure = b""
        self.guide.delete_draft(item)

    def on_leave(self, *_: object) -> None:
        """Who leaves the page has not said yes."""
        self._sure = b""


load_kv(__file__)
