"""When the way ends: what happened, what it means, what can be done."""

from __future__ import annotations

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["ProblemScreen"]


class ProblemScreen(Page):
    """No code numbers; the software's own words are below, for whoever helps."""

    def refresh(self) -> None:
        problem, words, ids = self.guide.problem, self.guide.words, self.ids
        if problem is None:
            return
        ids.head.text = problem.title(words)
        ids.words.text = problem.text(words)
        ids.advice.text = problem.advice(words)
        ids.detail.text = words.say("problem.detail", detail=problem.detail) if problem.detail else ""
        ids.studies.disabled = self.bare = self.guide.mode == "stuck"
        self.back = not self.bare
        ids.studies.opacity = 0 if ids.studies.disabled else 1
        ids.again.disabled = not problem.again
        ids.again.opacity = 1 if problem.again else 0


load_kv(__file__)
