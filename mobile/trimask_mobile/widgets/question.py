"""A question with what it is answered with, whichever kind it is."""

from __future__ import annotations

from typing import Any

from kivy.properties import StringProperty
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.widget import Widget

from trimask_core.asked import Asked
from trimask_core.writing import show_number
from trimask_mobile.widgets.basics import PushButton, Text
from trimask_mobile.widgets.fields import ChoiceList, DateEntry, Field, Slide
from trimask_mobile.widgets.look import load_kv

__all__ = ["QuestionBox", "SectionHeading"]


class QuestionBox(BoxLayout):
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
        words = guide.words
        hints = [] if asked.required else [words.say("question.optional")]
        low, high = asked.question.minimum, asked.question.maximum
        if asked.kind in ("number", "integer") and low is not None and high is not None:
            shown = [show_number(limit, asked.language) for limit in (low, high)]
            hints.append(f"{words.say('question.range', low=shown[0], high=shown[1])} {asked.unit}".strip())
        if asked.kind == "multiple_choice":
            hints.append(words.say("question.several"))
        self.hint = " · ".join(hints)
        self._answer = getattr(self, f"_{asked.kind}")(value)
        self.ids.answer.add_widget(self._answer)
        self.bind(problem=self._mark)

    def _mark(self, *_: object) -> None:
        for widget in self._answer.walk(restrict=True):
            if hasattr(widget, "invalid"):
                widget.invalid = bool(self.problem)

    def _give(self, value: Any) -> None:
        self._guide.answer(self.asked.name, value)

    # One maker a kind, named after it.

    def _number(self, value: Any) -> Widget:
        row = Row()
        field = Field(text="" if value is None else str(value), label=self.asked.name, input_type="number")
        field.decimal = self.asked.kind == "number"
        field.bind(text=lambda _, text: self._give(text))
        row.add_widget(field)
        if self.asked.unit:
            row.add_widget(Unit(text=self.asked.unit))
        return row

    _integer = _number

    def _slider(self, value: Any) -> Widget:
        return SlideBox(self.asked, value, self._give, self._guide.words)

    def _yes_no(self, value: Any) -> Widget:
        return self._choices(False, [] if value is None else [value])

    def _single_choice(self, value: Any) -> Widget:
        return self._choices(False, [] if value is None else [value])

    def _multiple_choice(self, value: Any) -> Widget:
        return self._choices(True, value or [])

    def _choices(self, several: bool, chosen: list[str]) -> Widget:
        box = BoxLayout(orientation="vertical", size_hint_y=None)
        box.bind(minimum_height=box.setter("height"))
        found = ChoiceList(several=several, options=list(self.asked.choices), chosen=chosen)
        found.toggled = self.asked.question.toggled
        found.bind(on_choose=lambda *_: self._give(list(found.chosen) if several else found.chosen[0]))
        box.add_widget(found)
        if not several and not self.asked.required:
            clear = PushButton(text=self._guide.words.say("question.clear"), kind="quiet")

            def empty(*_: object) -> None:
                found.chosen = []
                self._give(None)

            clear.bind(on_release=empty)
            box.add_widget(clear)
        return box

    def _date(self, value: Any) -> Widget:
        found = DateEntry(self.asked.language, self._guide.words, "" if value is None else str(value))
        found.bind(on_date=lambda *_: self._give(found.text))
        return found

    def _time(self, value: Any) -> Widget:
        field = Field(text="" if value is None else str(value), label=self.asked.name, input_type="datetime")
        field.hint_text = "23:30"
        field.bind(text=lambda _, text: self._give(text))
        return field


class SectionHeading(BoxLayout):
    """A title and a note above a question, or above a grid's rows."""

    text = StringProperty("")
    note = StringProperty("")
    role = StringProperty("heading")


class Row(BoxLayout):
    """A field and its unit."""


class Unit(Text):
    """What a number counts."""


class SlideBox(BoxLayout):
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
