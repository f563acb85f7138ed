"""The screens of answering: one question a page, or a grid, with the headings before it; then everything, to be checked."""

from __future__ import annotations

from functools import partial
from typing import Any

from kivy.properties import ObjectProperty, StringProperty

from trimask_mobile.widgets.basics import Card
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page
from trimask_mobile.widgets.question import QuestionBox, SectionHeading


class QuestionScreen(Page):
    """The question, its help, its answer, and what is wrong with it."""

    _part: Any = None
    _shown: Any = None

    def refresh(self) -> None:
        part, words = self.guide.answering.participation, self.guide.shown.words
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
                one.problem = self.guide.answering.problems.get(one.asked.name, "")
        self.title = words.say("question.title", number=part.number, of=len(part.pages))
        self.progress = part.progress


class AnswerRow(Card):
    """A question, its answer, and a way back to it."""

    question = StringProperty("")
    answer = StringProperty("")
    problem = StringProperty("")
    edit = ObjectProperty(None)


class ReviewScreen(Page):
    """The last page before anything leaves the device."""

    _shown: Any = None

    def refresh(self) -> None:
        part, words = self.guide.answering.participation, self.guide.shown.words
        if part is None or part.step != "review":
            return
        self.title = self.guide.studies.study_title
        rows = [
            (asked.name, asked.label, part.shown(asked) or words.say("review.none"), part.problem(asked))
            for asked in part.questions
        ]
        if rows != self._shown:
            self._shown = rows
            self.ids.answers.clear_widgets()
            for name, label, answer, problem in rows:
                row = AnswerRow(
                    question=label,
                    answer=answer,
                    problem=problem,
                    edit=partial(self.guide.answering.edit, name),
                )
                self.ids.answers.add_widget(row)
        self.progress = part.progress


load_kv(__file__)
