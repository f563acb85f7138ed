"""The first page of a session: the device is in a respondent's hands, and they are told whose it is."""

from __future__ import annotations

from kivy.properties import BooleanProperty

from trimask_mobile.model.respondents import IDLE_MS
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["HandedScreen"]


class HandedScreen(Page):
    """What the interviewer could see, before anything is asked."""

    sure = BooleanProperty(False)

    def refresh(self) -> None:
        guide, ids, say = self.guide, self.ids, self.guide.words.say
        begun = guide.participation is not None
        ids.idle.text = say("handed.idle", minutes=IDLE_MS // 60_000)
        ids.begin.text = say("handed.continue" if begun else "handed.begin")
        ids.stop.text = say("handed.stop.yes" if self.sure else "handed.stop")
        ids.stop.kind = "danger" if self.sure else "quiet"
        ids.asked.text = say("handed.stop.sure") if self.sure else ""

    def stop(self) -> None:
        """At once where nothing was answered; else it is asked."""
        part = self.guide.participation
        if self.sure or part is None or not (part.responses or part.eligibility or part.name):
            self.sure = False
            self.guide.finish()
        else:
            self.sure = True
            self.refresh()
            self.show_bottom()

    def on_leave(self, *_: object) -> None:
        """Who leaves the page has not said yes."""
        self.sure = False


load_kv(__file__)
