"""One question a page, or a grid; with the headings before it."""

from __future__ import annotations

from typing import Any

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page
from trimask_mobile.widgets.question import QuestionBox, SectionHeading

__all__ = ["QuestionScreen"]


class QuestionScreen(Page):
    """The question, its help, its answer, and what is wrong with it."""

    _part: Any = None
    _shown: Any = None

    def forget(self) -> None:
        """No answer stays in a field."""
        self._part = self._shown = None
        self.ids.question.clear_widgets()

    def refresh(self) -> None:
        part, words = self.guide.participation, self.guide.words
        if part is None or part.step != "question":
            return
        page, box = part.page, self.ids.question
        if self._shown != page or self._part is not part:
            self._part, self._shown = part, page
            box.clear_widgets()
            for heading in page.headings:
                box.add_widget(SectionHeading(text=heading.label, note=heading.help))
            if page.grid is not None:
                box.add_widget(SectionHeading(text=page.grid.label, note=page.grid.help, role="title"))
            role = "title" if page.grid is None else "heading"
            for asked in page.questions:
                value = part.responses.get(asked.name)
                box.add_widget(QuestionBox(asked, value, self.guide, heading=role))
            self.to_top()
        for one in box.children:
            if isinstance(one, QuestionBox):
                one.problem = self.guide.problems.get(one.asked.name, "")
        self.title = words.say("question.title", number=part.number, of=len(part.pages))
        self.progress = part.progress


load_kv(__file__)
