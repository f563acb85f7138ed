"""One question a page."""

from __future__ import annotations

from typing import Any

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page
from trimask_mobile.widgets.question import QuestionBox

__all__ = ["QuestionScreen"]


class QuestionScreen(Page):
    """The question, its help, its answer, and what is wrong with it."""

    _part: Any = None

    def forget(self) -> None:
        """No answer stays in a field."""
        self._part = None
        self.ids.question.clear_widgets()

    def refresh(self) -> None:
        part, words = self.guide.participation, self.guide.words
        if part is None or part.step != "question":
            return
        asked, box = part.question, self.ids.question
        if not box.children or box.children[0].asked != asked or self._part is not part:
            self._part = part
            box.clear_widgets()
            box.add_widget(QuestionBox(asked, part.responses.get(asked.name), self.guide, heading="title"))
            self.to_top()
        box.children[0].problem = self.guide.problems.get(asked.name, "")
        self.title = words.say("question.title", number=part.number, of=len(part.questions))
        self.progress = part.progress


load_kv(__file__)
