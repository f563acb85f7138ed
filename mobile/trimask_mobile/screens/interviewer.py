"""Beginning interviewer mode, or changing its PIN."""

from __future__ import annotations

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["InterviewerScreen"]


class InterviewerScreen(Page):
    """What it is for, and the PIN, twice."""

    def forget(self) -> None:
        """No PIN stays in a field."""
        self.ids.pin.wipe()
        self.ids.again.wipe()

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        ids.message.text = guide.pin_problem
        ids.pin.invalid = ids.again.invalid = bool(guide.pin_problem)
        ids.begin.disabled = guide.busy
        ids.begin.text = guide.words.say(
            "interviewer.change" if guide.mode == "unlocked" else "interviewer.begin"
        )

    def begin(self) -> None:
        """Set what was typed; where it will not do it stays, to be changed."""
        self.guide.set_pin(self.ids.pin.text, self.ids.again.text)


load_kv(__file__)
