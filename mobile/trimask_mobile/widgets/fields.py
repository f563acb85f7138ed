"""What a question is answered with."""

from __future__ import annotations

import datetime as dt
from typing import Any

from kivy.properties import (
    BooleanProperty,
    ListProperty,
    NumericProperty,
    ObjectProperty,
    StringProperty,
)
from kivy.uix.behaviors import ButtonBehavior
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.textinput import TextInput
from kivy.uix.widget import Widget

from trimask_mobile.widgets.basics import Card, Focusable
from trimask_mobile.widgets.look import load_kv

__all__ = ["Choice", "ChoiceList", "DateEntry", "Field", "Slide", "Stepper"]


class Field(Focusable, TextInput):
    """One line of text. The frame around it is drawn here; messages stand below it, in the page."""

    focused = BooleanProperty(False)
    invalid = BooleanProperty(False)
    label = StringProperty("")

    def activate(self) -> None:
        """Enter is the page's: see `keys`."""

    @property
    def takes_text(self) -> bool:
        return True

    def on_focused(self, _: object, focused: bool) -> None:
        if self.focus != focused:  # type: ignore[has-type]  # Kivy's own property
            self.focus = focused

    def on_focus(self, _: object, focus: bool) -> None:
        if self.focused != focus:
            self.focused = focus


class Choice(Focusable, ButtonBehavior, BoxLayout):
    """One answer of several, as wide as the page and easy to hit."""

    focused = BooleanProperty(False)
    text = StringProperty("")
    value = ObjectProperty(None, allownone=True)
    selected = BooleanProperty(False)
    several = BooleanProperty(False)
    group = ObjectProperty(None, allownone=True)

    def activate(self) -> None:
        if not self.disabled:
            self.dispatch("on_release")

    def arrow(self, step: int) -> bool:
        return self.group is not None and bool(self.group.move(self, step))


class ChoiceList(BoxLayout):
    """Single choice (arrows choose, as radio buttons do) or several (arrows move, space ticks)."""

    several = BooleanProperty(False)
    options = ListProperty()  # of (value, text)
    chosen = ListProperty()

    def __init__(self, **values: Any) -> None:
        self.register_event_type("on_choose")
        super().__init__(**values)
        self.bind(options=self._fill, several=self._fill, chosen=self._mark)
        self._fill()

    def on_choose(self, *_: object) -> None:
        """The person has chosen; `chosen` is what."""

    def _fill(self, *_: object) -> None:
        self.clear_widgets()
        for value, text in self.options:
            row = Choice(value=value, text=text, several=self.several, group=self)
            row.bind(on_release=self._pressed)
            self.add_widget(row)
        self._mark()

    def _mark(self, *_: object) -> None:
        for row in self.children:
            row.selected = row.value in self.chosen

    def _pressed(self, row: Choice) -> None:
        if self.several:
            picked = set(self.chosen) ^ {row.value}
            self.chosen = [value for value, _ in self.options if value in picked]
        else:
            self.chosen = [row.value]
        self.dispatch("on_choose")

    def move(self, row: Choice, step: int) -> bool:
        """Go to the neighbour; in a single choice that chooses it."""
        rows = self.children[::-1]
        at = rows.index(row) + step
        if not 0 <= at < len(rows):
            return True
        row.focused = False
        rows[at].focused = True
        if not self.several:
            rows[at].activate()
        return True


class Slide(Focusable, Widget):
    """A slider: drag, tap, or arrow keys. Without an answer its thumb is hollow, so that the middle is not one."""

    focused = BooleanProperty(False)
    minimum = NumericProperty(0.0)
    maximum = NumericProperty(1.0)
    step = NumericProperty(0.0)
    value = NumericProperty(None, allownone=True)
    inset = NumericProperty(0)
    at = NumericProperty(0)

    def __init__(self, **values: Any) -> None:
        self.register_event_type("on_slide")
        super().__init__(**values)

    def on_slide(self, *_: object) -> None:
        """The person has moved it."""

    @property
    def share(self) -> float:
        """Where the thumb stands, from 0 to 1."""
        at = (self.minimum + self.maximum) / 2 if self.value is None else self.value
        return float((at - self.minimum) / (self.maximum - self.minimum))

    def activate(self) -> None:
        """Space or Enter on a slider that has not been moved: the middle, deliberately."""
        self._set(self.minimum + self.share * (self.maximum - self.minimum))

    def arrow(self, step: int) -> bool:
        start = (self.minimum + self.maximum) / 2 if self.value is None else self.value
        self._set(start + step * (self.step or (self.maximum - self.minimum) / 100))
        return True

    def _set(self, value: float) -> None:
        steps = round((value - self.minimum) / self.step) if self.step else 0
        value = self.minimum + steps * self.step if self.step else value
        self.value = round(min(self.maximum, max(self.minimum, value)), 10)
        self.dispatch("on_slide")

    def _follow(self, touch: Any) -> None:
        left, width = self.x + self.inset, self.width - 2 * self.inset
        self._set(self.minimum + (touch.x - left) / width * (self.maximum - self.minimum))

    def on_touch_down(self, touch: Any) -> bool:
        if self.disabled or not self.collide_point(*touch.pos):
            return False
        touch.grab(self)  # so that the page does not scroll while the thumb is dragged
        self._follow(touch)
        return True

    def on_touch_move(self, touch: Any) -> bool:
        if touch.grab_current is not self:
            return False
        self._follow(touch)
        return True

    def on_touch_up(self, touch: Any) -> bool:
        if touch.grab_current is not self:
            return False
        touch.ungrab(self)
        return True


class Stepper(BoxLayout):
    """Less, a value, more."""

    label = StringProperty("")
    text = StringProperty("")

    def __init__(self, **values: Any) -> None:
        self.register_event_type("on_step")
        super().__init__(**values)

    def on_step(self, *_: object) -> None:
        """The person asked for one less (-1) or one more (+1)."""


class DateSteps(Card):
    """Day, month and year, each with less and more."""

    entry = ObjectProperty(None)


class DateEntry(BoxLayout):
    """A date, typed as year-month-day or put together with three steppers."""

    text = StringProperty("")
    minimum = ObjectProperty(None, allownone=True)
    maximum = ObjectProperty(None, allownone=True)
    open = BooleanProperty(False)
    invalid = BooleanProperty(False)

    def __init__(self, **values: Any) -> None:
        self.register_event_type("on_date")
        super().__init__(**values)

    def on_date(self, *_: object) -> None:
        """The person has changed it; `text` is what stands there."""

    def on_open(self, *_: object) -> None:
        """The steppers are there only while they are wanted."""
        self.ids.steps.clear_widgets()
        if self.open:
            self.ids.steps.add_widget(DateSteps(entry=self))

    def type(self, text: str) -> None:
        """What stands in the field."""
        if text != self.text:
            self.text = text
            self.dispatch("on_date")

    def move(self, part: str, step: int) -> None:
        """One stepper, one step, kept within the study's dates."""
        day = self.shown
        if part == "day":
            day += dt.timedelta(days=step)
        else:
            months = day.year * 12 + day.month - 1 + step * (12 if part == "year" else 1)
            year, month = divmod(months, 12)
            if not 1 <= year <= 9998:
                return
            last = (dt.date(year + (month == 11), (month + 1) % 12 + 1, 1) - dt.timedelta(days=1)).day
            day = dt.date(year, month + 1, min(day.day, last))
        if self.minimum is not None:
            day = max(day, self.minimum)
        if self.maximum is not None:
            day = min(day, self.maximum)
        self.type(day.isoformat())

    @property
    def shown(self) -> dt.date:
        """The date the steppers stand at."""
        try:
            return dt.date.fromisoformat(self.text)
        except ValueError:
            return self.maximum or dt.date(2000, 1, 1)

    def part(self, name: str, text: str) -> str:  # noqa: ARG002 - named so that kv follows it
        """What a stepper shows."""
        return str(getattr(self.shown, name))


load_kv(__file__)
