"""Text, buttons, cards, progress: the small parts."""

from __future__ import annotations

from typing import Any

from kivy.properties import BooleanProperty, NumericProperty, OptionProperty, StringProperty
from kivy.uix.behaviors import ButtonBehavior
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.label import Label
from kivy.uix.widget import Widget

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.symbol import Symbol

__all__ = [
    "Bar",
    "Buttons",
    "Card",
    "Column",
    "Focusable",
    "Footer",
    "IconButton",
    "Note",
    "PushButton",
    "StepRow",
    "Symbol",
    "Text",
]  # fmt: skip


class Focusable:
    """Something the keyboard can reach. `focused` draws the ring; the keyboard itself is in `keys`."""

    focused = BooleanProperty(False)

    def activate(self) -> None:
        """Enter or space."""
        raise NotImplementedError

    def arrow(self, step: int) -> bool:  # noqa: ARG002 - for those that have a use for it
        """An arrow key: -1 left or up, +1 right or down. True if it meant something here."""
        return False

    @property
    def takes_text(self) -> bool:
        """Whether keys belong to it as text."""
        return False


class Text(Label):
    """Text that wraps at the width it is given and takes the height it needs."""

    role = OptionProperty("body", options=["title", "heading", "body", "small"])
    colour = StringProperty("ink")


class Column(BoxLayout):
    """What a page scrolls."""


class Footer(BoxLayout):
    """A page's main actions, below what scrolls."""


class Buttons(BoxLayout):
    """Buttons side by side, or below each other where there is no room."""


class Card(BoxLayout):
    """A white panel."""


class Note(BoxLayout):
    """A coloured panel with a sign: something went well, wrong, or is worth knowing."""

    tone = OptionProperty("info", options=["info", "error", "success", "warning"])
    text = StringProperty("")


class Bar(Widget):
    """How far one has come, from 0 to 1."""

    value = NumericProperty(0.0)


class PushButton(Focusable, ButtonBehavior, Label):
    """A button with words on it."""

    focused = BooleanProperty(False)
    kind = OptionProperty("secondary", options=["primary", "secondary", "quiet", "danger"])

    def activate(self) -> None:
        if not self.disabled:
            self.dispatch("on_release")


class IconButton(Focusable, ButtonBehavior, BoxLayout):
    """A button with a sign or a letter or two; `label` says what it does, for tests and whoever reads screens aloud."""

    focused = BooleanProperty(False)
    framed = BooleanProperty(False)
    symbol = StringProperty("none")
    text = StringProperty("")
    label = StringProperty("")

    def activate(self) -> None:
        if not self.disabled:
            self.dispatch("on_release")


class StepRow(BoxLayout):
    """One step of sending: waiting, under way, done or failed."""

    state = OptionProperty("waiting", options=["waiting", "busy", "done", "later", "failed"])
    text = StringProperty("")
    detail = StringProperty("")
    inset = NumericProperty(0)

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


load_kv(__file__)
