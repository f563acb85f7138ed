"""Removing a study, or everything, from this phone: first what is lost."""

from __future__ import annotations

from typing import Any

from kivy.properties import ObjectProperty, StringProperty

from trimask_mobile.widgets.basics import Note, PushButton
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["RemoveScreen"]


class RemoveScreen(Page):
    """Every loss is named; receipts can be saved before it."""

    saved = StringProperty("")
    tone = StringProperty("success")
    save = ObjectProperty(None, allownone=True)  # as the receipt's page has it
    _shown: Any = None

    def on_pre_enter(self, *_: object) -> None:
        """A note about earlier files does not belong here."""
        self.saved = ""

    def refresh(self) -> None:
        guide, ids, say = self.guide, self.ids, self.guide.words.say
        loss = guide.loss
        if loss is None:
            return
        ids.head.text = say("remove.one.title" if loss.study_id else "remove.all.title")
        ids.titles.text = "\n".join(loss.titles)
        told = loss.sentences(guide.words) or [say("remove.nothing")]
        if self._shown != (told, loss.receipts):
            self._shown = (told, loss.receipts)
            ids.told.clear_widgets()
            for sentence in told:
                ids.told.add_widget(Note(tone="warning", text=sentence))
            ids.ways.clear_widgets()
            if loss.receipts:
                button = PushButton(text=say("remove.save"))
                button.bind(on_release=lambda *_: self.save_all())
                ids.ways.add_widget(button)

    def save_all(self) -> None:
        """Each receipt to a file, one after the other: a phone asks where to for each."""
        say, left = self.guide.words.say, list(self.guide.loss.receipts)
        names: list[str] = []

        def failed(why: str) -> None:
            self.tone, self.saved = "error", say("receipt.unsaved", why=why)

        def saved(where: str = "") -> None:
            names.extend(filter(None, [where]))
            if names:
                self.tone, self.saved = "success", say("remove.saved", names=", ".join(names))
            if left:
                receipt = left.pop(0)
                name = f"trimask-receipt-{receipt.submission_id.hex()[:12]}.json"
                self.save(name, receipt.to_json(), saved, failed)

        saved()


load_kv(__file__)
