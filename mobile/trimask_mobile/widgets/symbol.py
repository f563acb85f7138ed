"""How the signs are drawn: a few lines each, at any size."""

from __future__ import annotations

from typing import Any

from kivy.graphics import Color, Ellipse, Line, RoundedRectangle
from kivy.metrics import dp
from kivy.properties import OptionProperty, StringProperty
from kivy.uix.widget import Widget

from trimask_mobile.theme import rgba

__all__ = ["Symbol"]

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
