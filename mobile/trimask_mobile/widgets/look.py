"""`look` in every kv file: colours, type sizes at the person's scale, and the words of the language shown."""

from __future__ import annotations

from pathlib import Path

from kivy.event import EventDispatcher
from kivy.lang import Builder
from kivy.lang.parser import global_idmap
from kivy.metrics import dp, sp
from kivy.properties import DictProperty, NumericProperty

from trimask_mobile.theme import COLOURS, SIZES, TOUCH_DP, rgba


class Look(EventDispatcher):
    """What changes while the app runs are properties, so that kv rules follow; colours stay."""

    scale = NumericProperty(1.0)
    words = DictProperty()
    title = NumericProperty(0)
    heading = NumericProperty(0)
    body = NumericProperty(0)
    small = NumericProperty(0)

    def __init__(self) -> None:
        super().__init__()
        self.touch = dp(TOUCH_DP)
        self.gap = dp(16)
        self.corner = dp(12)
        for name in COLOURS:
            setattr(self, name, rgba(name))
        self.bind(scale=self._resize)
        self._resize()

    def _resize(self, *_: object) -> None:
        for name, size in SIZES.items():
            setattr(self, name, sp(size) * self.scale)

    def colour(self, name: str) -> tuple[float, float, float, float]:
        """A colour by its name, for rules that choose one."""
        return rgba(name)


look = Look()
global_idmap["look"] = look


def load_kv(module: str) -> None:
    """The kv file beside a module: one screen, one .py and one .kv."""
    path = str(Path(module).with_suffix(".kv"))
    if path not in Builder.files:
        Builder.load_file(path)
