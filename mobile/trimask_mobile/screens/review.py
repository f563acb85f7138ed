"""Everything that was answered, to be checked and changed."""

from __future__ import annotations

from functools import partial
from typing import Any

from kivy.properties import ObjectProperty, StringProperty
from kivy.uix.boxlayout import BoxLayout

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["ReviewScreen"]


class AnswerRow(BoxLayout):
    """A question, its answer, and a way back to it."""

    question = StringProperty("")
    answer = StringProperty("")
    problem = StringProperty("")
    edit = ObjectProperty(None)


class ReviewScreen(Page):
    """The last page before anything leaves the device."""

    _shown: Any = None

    def forget(self) -> None:
        """No answer stays on the page."""
        self._shown = None
        self.ids.answers.clear_widgets()

    def refresh(self) -> None:
        part, words = self.guide.participation, self.guide.words
        if part is None or part.step != "review":
            return
        self.title = self.guide.study_title
        rows = [
            (asked.name, asked.label, part.shown(asked) or words.say("review.none"), part.problem(asked))
            for asked in part.questions
        ]
        if rows != self._shown:
            self._shown = rows
            self.ids.answers.clear_widgets()
            for name, label, answer, problem in rows:
                row = AnswerRow(
                    question=label, answer=answer, problem=problem, edit=partial(self.guide.edit, name)
                )
                self.ids.answers.add_widget(row)
        self.progress = part.progress


load_kv(__file__)
