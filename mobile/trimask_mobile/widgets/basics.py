"""Text, buttons, cards, progress: the small parts. Signs are a few lines each, drawn at any size.

A QR code is drawn from its modules: dark on light in every theme, with the quiet border that cameras want.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import segno
from kivy.clock import Clock
from kivy.graphics import Color, Ellipse, Line, Rectangle, RoundedRectangle
from kivy.graphics.texture import Texture
from kivy.metrics import dp
from kivy.properties import BooleanProperty, ColorProperty, NumericProperty, OptionProperty, StringProperty
from kivy.uix.behaviors import ButtonBehavior
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.label import Label
from kivy.uix.widget import Widget

from trimask_mobile.theme import rgba
from trimask_mobile.widgets.look import load_kv

# Strokes in a square of side 1, from the lower left corner.
_STROKES: dict[str, list[tuple[float, ...]]] = {
    "back": [(0.62, 0.85, 0.3, 0.5, 0.62, 0.15)],
    "check": [(0.16, 0.5, 0.4, 0.24, 0.86, 0.78)],
    "cross": [(0.22, 0.22, 0.78, 0.78), (0.22, 0.78, 0.78, 0.22)],
    "lock": [(0.34, 0.5, 0.34, 0.7, 0.42, 0.84, 0.58, 0.84, 0.66, 0.7, 0.66, 0.5)],
    "clock": [(0.5, 0.74, 0.5, 0.5, 0.66, 0.4)],
}


class Symbol(Widget):
    """A small drawn sign: no icon font, so nothing can be missing from it."""

    kind = OptionProperty(
        "none",
        options=["none", "back", "check", "cross", "clock", "dot", "ring", "radio", "box", "ticked", "lock"],
    )
    colour = StringProperty("primary")

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.bind(pos=self._draw, size=self._draw, kind=self._draw, colour=self._draw)
        self._draw()

    def _draw(self, *_: object) -> None:
        self.canvas.clear()
        x, y, side = self.x, self.y, min(self.size)
        if self.kind == "none" or side <= 0:
            return

        def at(*points: float) -> list[float]:
            return [(x if i % 2 == 0 else y) + value * side for i, value in enumerate(points)]

        box = (*at(0.08, 0.08), 0.84 * side, 0.84 * side)
        with self.canvas:
            Color(*rgba(self.colour))
            for points in _STROKES.get(self.kind, []):
                Line(points=at(*points), width=dp(1.4), cap="round", joint="round")
            if self.kind in ("ring", "radio", "clock"):
                Line(ellipse=box, width=dp(1.2))
            elif self.kind == "dot":
                Line(ellipse=box, width=dp(1.2))
                Ellipse(pos=at(0.3, 0.3), size=(0.4 * side, 0.4 * side))
            elif self.kind == "lock":
                RoundedRectangle(pos=at(0.22, 0.12), size=(0.56 * side, 0.42 * side), radius=[0.08 * side])
            elif self.kind == "box":
                Line(rounded_rectangle=(*box, 0.16 * side), width=dp(1.2))
            elif self.kind == "ticked":
                RoundedRectangle(pos=box[:2], size=box[2:], radius=[0.16 * side])
                Color(*rgba("on_primary"))
                Line(points=at(0.24, 0.52, 0.43, 0.32, 0.76, 0.7), width=dp(1.4), cap="round", joint="round")


class Focusable:
    """Something the keyboard can reach. `focused` draws the ring; the keyboard itself is in `keys`."""

    focused = BooleanProperty(False)
    ring = NumericProperty(0)
    ring_corner = NumericProperty(0)

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


class Pressable(Focusable, ButtonBehavior):
    """Enter and space do what a touch does."""

    def activate(self) -> None:
        if not self.disabled:
            self.dispatch("on_release")


class Panel:
    """A rounded ground with an edge, each seen where it has a colour."""

    fill = ColorProperty((0, 0, 0, 0))
    edge = ColorProperty((0, 0, 0, 0))
    edge_width = NumericProperty(1)


class Text(Label):
    """Text that wraps at the width it is given and takes the height it needs."""

    role = OptionProperty("body", options=["title", "heading", "body", "small"])
    colour = StringProperty("ink")


class Stack(BoxLayout):
    """Widgets below each other, as high as they are together."""


class Column(Stack):
    """What a page scrolls."""


class Footer(Stack):
    """A page's main actions, below what scrolls."""


class Buttons(BoxLayout):
    """Buttons side by side, or below each other where there is no room."""


class Card(Panel, Stack):
    """A white panel."""


class StateCard(Card):
    """A study, or a respondent's number: its state with a sign, a sentence, and what can be done (`ids.buttons`)."""

    title = StringProperty("")
    state = StringProperty("")
    text = StringProperty("")
    sign = StringProperty("none")
    colour = StringProperty("muted")


class Note(Panel, BoxLayout):
    """A coloured panel with a sign: something went well, wrong, or is worth knowing."""

    tone = OptionProperty("info", options=["info", "error", "success", "warning"])
    text = StringProperty("")


class Bar(Widget):
    """How far one has come, from 0 to 1."""

    value = NumericProperty(0.0)


class PushButton(Pressable, Panel, Label):
    """A button with words on it; one that is not `there` takes no room."""

    kind = OptionProperty("secondary", options=["primary", "secondary", "quiet", "danger"])
    there = BooleanProperty(True)


def add_button(box: Widget, text: str, does: Callable[[], object], **values: Any) -> PushButton:
    """A button below, or beside, what is in the box."""
    button = PushButton(text=text, **values)
    button.bind(on_release=lambda *_: does())
    box.add_widget(button)
    return button


class IconButton(Pressable, Panel, BoxLayout):
    """A button with a sign or a letter or two; `label` says what it does, for tests and whoever reads screens aloud."""

    symbol = StringProperty("none")
    text = StringProperty("")
    label = StringProperty("")


class StepRow(BoxLayout):
    """One step of sending: waiting, under way, done or failed."""

    state = OptionProperty("waiting", options=["waiting", "busy", "done", "later", "failed"])
    text = StringProperty("")
    detail = StringProperty("")
    inset = NumericProperty(0)


_BORDER = 4
_DARK = bytes([255, *[0] * 255])  # a module's byte as a grey


class Code(Widget):
    """`text` as a code; nothing where it is empty. Level L: a screen gets no dirt, and fewer modules are coarser."""

    text = StringProperty("")

    def __init__(self, **values: object) -> None:
        super().__init__(**values)
        again = Clock.create_trigger(lambda _: self._draw())  # once a frame, when the place is settled
        self.bind(text=again, pos=again, size=again)

    def _draw(self) -> None:
        self.canvas.clear()
        if not self.text:
            return
        rows = [bytes(row) for row in segno.make_qr(self.text, error="l", boost_error=False).matrix]
        across = len(rows) + 2 * _BORDER
        unit = max(1, int(min(self.width, self.height)) // across)  # whole pixels: edges stay sharp
        side = unit * across
        left, low = int(self.center_x - side / 2), int(self.center_y - side / 2)
        empty, edge = [b"\0" * across] * _BORDER, b"\0" * _BORDER
        modules = b"".join(
            [*empty, *(edge + row + edge for row in reversed(rows)), *empty]
        )  # from the lowest up
        picture = Texture.create(size=(across, across), colorfmt="luminance")
        picture.mag_filter = "nearest"
        picture.blit_buffer(modules.translate(_DARK), colorfmt="luminance", bufferfmt="ubyte")
        with self.canvas:
            Color(1, 1, 1, 1)
            Rectangle(pos=(left, low), size=(side, side), texture=picture)


load_kv(__file__)
