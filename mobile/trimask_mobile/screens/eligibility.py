"""Whether a person belongs to those the study asks; the answers stay on the device."""

from __future__ import annotations

from typing import Any

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page
from trimask_mobile.widgets.question import QuestionBox

__all__ = ["EligibilityScreen"]


class EligibilityScreen(Page):
    """All of these questions on one page: they are short."""

    _part: Any = None

    def forget(self) -> None:
        """No answer stays in a field."""
        self._part = None
        self.ids.questions.clear_widgets()

    def refresh(self) -> None:
        part = self.guide.participation
        if part is None:
            return
        asked = part.eligibility_questions
        self.title = self.guide.study_title
        box = self.ids.questions
        if self._part is not part or [one.asked for one in box.children[::-1]] != list(asked):
            self._part = part
            box.clear_widgets()
            for question in asked:
                box.add_widget(
                    QuestionBox(question, part.eligibility.get(question.name), self.guide, heading="heading")
                )
        for one in box.children:
            one.problem = self.guide.problems.get(one.asked.name, "")
        self.progress = part.progress


load_kv(__file__)
