"""A picture of where answers go: one row, cut into parts that look like noise, mixed, added up."""

from __future__ import annotations

from typing import Any

from kivy.graphics import Color, RoundedRectangle
from kivy.metrics import dp
from kivy.properties import ListProperty, StringProperty
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.widget import Widget

from trimask_mobile.model.study_page_text import Story
from trimask_mobile.model.words import Catalogue
from trimask_mobile.theme import rgba
from trimask_mobile.widgets.basics import Stack
from trimask_mobile.widgets.look import load_kv

# Heights of bars, from 0 to 1. The parts are drawn so that they look like nothing; they are a picture, not data.
YOURS = [0.3, 0.75, 0.5, 0.95, 0.4, 0.65]
PARTS = (
    [0.9, 0.2, 0.7, 0.35, 1.0, 0.15],
    [0.15, 0.85, 0.3, 0.6, 0.25, 0.95],
    [0.6, 0.4, 1.0, 0.1, 0.75, 0.45],
)
TOGETHER = [0.55, 0.6, 0.58, 0.63, 0.57, 0.6]


class Bars(Widget):
    """A few bars."""

    heights = ListProperty()
    colour = StringProperty("primary")

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.bind(pos=self._draw, size=self._draw, heights=self._draw)

    def _draw(self, *_: object) -> None:
        self.canvas.clear()
        if not self.heights:
            return
        step = self.width / len(self.heights)
        with self.canvas:
            Color(*rgba(self.colour))
            for i, height in enumerate(self.heights):
                RoundedRectangle(
                    pos=(self.x + i * step, self.y),
                    size=(step * 0.6, max(dp(2), self.height * height)),
                    radius=[dp(1)],
                )


class PictureRow(BoxLayout):
    """Bars and what they are."""

    heights = ListProperty()
    colour = StringProperty("primary")
    text = StringProperty("")
    detail = StringProperty("")


class Arrow(Widget):
    """Down."""


class SplitPicture(Stack):
    """You, the parts and who gets each, who mixes them, and what is left."""

    def __init__(self, story: Story, words: Catalogue, **values: Any) -> None:
        super().__init__(**values)
        self.add_widget(PictureRow(heights=YOURS, colour="primary", text=words.say("study.picture.you")))
        self.add_widget(Arrow())
        for number, name in enumerate(story.receivers, 1):
            part = words.say("study.picture.part", number=number)
            heights = PARTS[(number - 1) % len(PARTS)]
            self.add_widget(PictureRow(heights=heights, colour="edge", text=name, detail=part))
        self.add_widget(Arrow())
        self.add_widget(PictureRow(heights=TOGETHER, colour="success", text=story.result, detail=story.mixed))


load_kv(__file__)
