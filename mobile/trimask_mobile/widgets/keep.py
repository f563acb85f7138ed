"""A respondent's choice: whether their receipt stays on the interviewer's device until they fetch it."""

from __future__ import annotations

from kivy.properties import BooleanProperty, ObjectProperty, StringProperty
from kivy.uix.boxlayout import BoxLayout

from trimask_mobile.widgets.look import load_kv

__all__ = ["KeepRow", "offer_to_keep"]


class KeepRow(BoxLayout):
    """A tick, and what it means."""

    kept = BooleanProperty(False)
    text = StringProperty("")
    guide = ObjectProperty(None)


def offer_to_keep(box: BoxLayout, guide: object, *, offered: bool, kept: bool, text: str) -> None:
    """The choice in a box of its own, or an empty box where there is none to make."""
    if offered != bool(box.children):
        box.clear_widgets()
        if offered:
            box.add_widget(KeepRow(guide=guide))
    for row in box.children:
        row.kept, row.text = kept, text


load_kv(__file__)
