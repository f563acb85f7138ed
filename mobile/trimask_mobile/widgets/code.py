"""A QR code on the screen, drawn from its modules: dark on light in every theme, with the quiet border that cameras want."""

from __future__ import annotations

import segno
from kivy.clock import Clock
from kivy.graphics import Color, Rectangle
from kivy.properties import StringProperty
from kivy.uix.widget import Widget

__all__ = ["Code"]

_BORDER = 4


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
        left, top = int(self.center_x - side / 2), int(self.center_y + side / 2)
        with self.canvas:
            Color(1, 1, 1, 1)
            Rectangle(pos=(left, top - side), size=(side, side))
            Color(0, 0, 0, 1)
            for down, row in enumerate(rows, _BORDER):
                for along, dark in enumerate(row, _BORDER):
                    if dark:
                        Rectangle(pos=(left + along * unit, top - (down + 1) * unit), size=(unit, unit))
