"""A question with what it is answered with, whichever kind it is."""

from __future__ import annotations

from typing import Any

from kivy.properties import BooleanProperty, ListProperty, NumericProperty, ObjectProperty, StringProperty
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.textinput import TextInput
from kivy.uix.widget import Widget

from trimask_core.form.form import Asked
from trimask_core.form.parse_input import date_order, show_number
from trimask_mobile.model.words import listed_months
from trimask_mobile.platforms import decimal_keypad
from trimask_mobile.widgets.basics import Focusable, Panel, Pressable, PushButton, Stack, Text, add_button
from trimask_mobile.widgets.look import load_kv


class Field(Focusable, TextInput):
    """One line of text. The frame around it is drawn here; messages stand below it, in the page."""

    invalid = BooleanProperty(False)
    label = StringProperty("")
    decimal = BooleanProperty(False)

    def activate(self) -> None:
        """Enter is the page's: see `keys`."""

    @property
    def takes_text(self) -> bool:
        return True

    def wipe(self) -> None:
        """Nothing is in it, nor in what Ctrl-Z would bring back."""
        if self.text:  # type: ignore[has-type]  # Kivy's own property
            self.text = ""
        self.reset_undo()

    def on_focused(self, _: object, focused: bool) -> None:
        if self.focus != focused:  # type: ignore[has-type]  # Kivy's own property
            self.focus = focused

    def on_focus(self, _: object, focus: bool) -> None:
        if self.focused != focus:
            self.focused = focus
        if focus and self.decimal:
            decimal_keypad()


class Choice(Pressable, Panel, BoxLayout):
    """One answer of several, as wide as the page and easy to hit."""

    text = StringProperty("")
    value = ObjectProperty(None, allownone=True)
    selected = BooleanProperty(False)
    several = BooleanProperty(False)
    group = ObjectProperty(None, allownone=True)

    def arrow(self, step: int) -> bool:
        return self.group is not None and bool(self.group.move(self, step))


class ChoiceList(Stack):
    """Single choice (arrows choose, as radio buttons do) or several (arrows move, space ticks)."""

    several = BooleanProperty(False)
    options = ListProperty()  # of (value, text)
    chosen = ListProperty()
    # (chosen, pressed) -> chosen, for several: the question knows which answers put each other out.
    toggled = ObjectProperty(None, allownone=True)

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
            self.chosen = list(self.toggled(tuple(self.chosen), row.value))
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


class DateEntry(Stack):
    """A date in the language's order: a typed day, a month from a list, a typed year."""

    text = StringProperty("")
    month = StringProperty("")
    open = BooleanProperty(False)
    invalid = BooleanProperty(False)

    def __init__(self, language: str, words: Any, text: str, **values: Any) -> None:
        self.register_event_type("on_date")
        super().__init__(**values)
        self._names = listed_months(language)
        self._words = words
        given = dict(zip(("year", "month", "day"), text.split("-"), strict=False))
        self.text, self.month = text, given.get("month", "").lstrip("0")
        self._fields: dict[str, Field] = {}
        for part in date_order(language):
            if part == "month":
                self._button = PushButton(kind="secondary")
                self._button.bind(on_release=lambda *_: setattr(self, "open", not self.open))
                self.ids.parts.add_widget(self._button)
                continue
            field = Field(
                text=given.get(part, ""), label=part, input_type="number", hint_text=words.say(f"date.{part}")
            )
            field.bind(text=self._typed)
            self._fields[part] = field
            self.ids.parts.add_widget(field)
        self.ids.parts.bind(orientation=self._share_width)
        self._share_width()
        self._show_month()

    def _share_width(self, *_: object) -> None:
        """Beside the day and the year a month's name needs more than its third; above each other all have the whole."""
        self._button.size_hint_x = 1.4 if self.ids.parts.orientation == "horizontal" else 1

    def on_date(self, *_: object) -> None:
        """The person has changed it; `text` is what stands there, year-month-day."""

    def on_open(self, *_: object) -> None:
        """The list of months is there only while it is wanted."""
        self.ids.months.clear_widgets()
        if self.open:
            options = [(str(number), name) for number, name in enumerate(self._names, 1)]
            months = ChoiceList(options=options, chosen=[self.month])
            months.bind(on_choose=lambda *_: self._chosen(months.chosen[0]))
            self.ids.months.add_widget(months)

    def _chosen(self, month: str) -> None:
        self.month, self.open = month, False
        self._show_month()
        self._button.focused = True
        self._typed()

    def _show_month(self) -> None:
        known = self.month.isdigit() and 1 <= int(self.month) <= 12
        self._button.text = self._names[int(self.month) - 1] if known else self._words.say("date.month")

    def _typed(self, *_: object) -> None:
        year, day = (self._fields[part].text.strip() for part in ("year", "day"))
        text = f"{year}-{self.month}-{day}"
        self.text = "" if text == "--" else text
        self.dispatch("on_date")


class QuestionBox(Stack):
    """Label, help, the answer, and a message below it. What is given goes to the guide at once."""

    problem = StringProperty("")
    label = StringProperty("")
    help = StringProperty("")
    hint = StringProperty("")
    heading = StringProperty("heading")

    def __init__(self, asked: Asked, value: Any, guide: Any, **values: Any) -> None:
        super().__init__(**values)
        self.asked, self._guide = asked, guide
        self.label, self.help = asked.label, asked.help
        words = guide.shown.words
        hints = [] if asked.required else [words.say("question.optional")]
        low, high = asked.question.minimum, asked.question.maximum
        if asked.control == "number" and low is not None and high is not None:
            shown = [show_number(limit, asked.language) for limit in (low, high)]
            hints.append(f"{words.say('question.range', low=shown[0], high=shown[1])} {asked.unit}".strip())
        if asked.question.rules.several:
            hints.append(words.say("question.several"))
        self.hint = " · ".join(hints)
        self._answer = getattr(self, f"_{asked.control}")(value)
        self.ids.answer.add_widget(self._answer)
        self.bind(problem=self._mark)

    def _mark(self, *_: object) -> None:
        for widget in self._answer.walk(restrict=True):
            if hasattr(widget, "invalid"):
                widget.invalid = bool(self.problem)

    def _give(self, value: Any) -> None:
        self._guide.answering.answer(self.asked.name, value)

    # One maker a control, named after it.

    def _number(self, value: Any) -> Widget:
        row = Row()
        field = Field(text="" if value is None else str(value), label=self.asked.name, input_type="number")
        field.decimal = not self.asked.question.rules.whole
        field.bind(text=lambda _, text: self._give(text))
        row.add_widget(field)
        if self.asked.unit:
            row.add_widget(Unit(text=self.asked.unit))
        return row

    def _slider(self, value: Any) -> Widget:
        return SlideBox(self.asked, value, self._give, self._guide.shown.words)

    def _choices(self, value: Any) -> Widget:
        several = self.asked.question.rules.several
        chosen = (value or []) if several else [] if value is None else [value]
        box = BoxLayout(orientation="vertical", size_hint_y=None)
        box.bind(minimum_height=box.setter("height"))
        found = ChoiceList(several=several, options=list(self.asked.choices), chosen=chosen)
        found.toggled = self.asked.question.toggled
        found.bind(on_choose=lambda *_: self._give(list(found.chosen) if several else found.chosen[0]))
        box.add_widget(found)
        if not several and not self.asked.required:

            def empty() -> None:
                found.chosen = []
                self._give(None)

            add_button(box, self._guide.shown.words.say("question.clear"), empty, kind="quiet")
        return box

    def _date(self, value: Any) -> Widget:
        found = DateEntry(self.asked.language, self._guide.shown.words, "" if value is None else str(value))
        found.bind(on_date=lambda *_: self._give(found.text))
        return found

    def _time(self, value: Any) -> Widget:
        field = Field(text="" if value is None else str(value), label=self.asked.name, input_type="datetime")
        field.hint_text = "23:30"
        field.bind(text=lambda _, text: self._give(text))
        return field


class SectionHeading(Stack):
    """A title and a note above a question, or above a grid's rows."""

    text = StringProperty("")
    note = StringProperty("")
    role = StringProperty("heading")


class Row(BoxLayout):
    """A field and its unit."""


class Unit(Text):
    """What a number counts."""


class SlideBox(Stack):
    """A slider with its value in large type, and its ends named."""

    shown = StringProperty("")
    low = StringProperty("")
    high = StringProperty("")

    def __init__(self, asked: Asked, value: Any, give: Any, words: Any, **values: Any) -> None:
        super().__init__(**values)
        self._asked, self._give, self._words = asked, give, words
        question = asked.question
        self.low, self.high = (
            show_number(end or 0.0, asked.language) for end in (question.minimum, question.maximum)
        )
        slide: Slide = self.ids.slide
        slide.minimum, slide.maximum = question.minimum, question.maximum
        slide.step = question.step or 0.0
        slide.value = None if value is None else float(value)
        slide.bind(on_slide=self._moved)
        self._show()

    def _moved(self, slide: Slide) -> None:
        self._give(slide.value)
        self._show()

    def _show(self) -> None:
        value = self.ids.slide.value
        if value is None:
            self.shown = self._words.say("question.unanswered")
        else:
            self.shown = f"{show_number(value, self._asked.language)} {self._asked.unit}".strip()


load_kv(__file__)
