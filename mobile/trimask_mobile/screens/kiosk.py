"""The screens of interviewer mode: its page, its PIN begun or changed, the page between respondents, a session's first.

The interviewer's page says who is next, and what waits to be sent. On the first page of a session the device is in a
respondent's hands, and they are told whose it is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kivy.core.clipboard import Clipboard
from kivy.properties import BooleanProperty, ObjectProperty, StringProperty

from trimask_mobile.kiosk.respondents import IDLE_MS, Respondent
from trimask_mobile.model.problem import causes_words
from trimask_mobile.widgets.basics import Card, StateCard, add_button
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

_SIGNS = {"waiting": ("clock", "warning"), "refused": ("cross", "error"), "sent": ("lock", "primary")}


class StockCard(Card):
    """A study, how many invitations are left, and the next respondent."""

    title = StringProperty("")
    text = StringProperty("")
    begin = ObjectProperty(None)


class InterviewingScreen(Page):
    """Nothing a respondent answered can be shown here."""

    scan = ObjectProperty(None, allownone=True)
    _shown: Any = None
    _sure = ""  # a session's rest, or "leave": what is asked about

    def refresh(self) -> None:
        guide, ids, say = self.guide, self.ids, self.guide.shown.words.say
        now_ms = guide.shown.device.clock.now_ms()
        ids.said.text = guide.kiosk.said
        ids.sent.text = say("interviewing.sent", number=guide.kiosk.sent)
        lines = [(line, self._text(line, now_ms)) for line in guide.kiosk.lines]
        shown = (guide.shown.words.language, guide.kiosk.stock, lines, self._sure, guide.shown.busy)
        if shown == self._shown:
            return  # what has the focus keeps it
        self._shown = shown
        ids.stock.clear_widgets()
        for study_id, title, left in guide.kiosk.stock:
            text = say("interviewing.left", number=left) if left else say("interviewing.open")
            ids.stock.add_widget(
                StockCard(
                    title=title,
                    text=text,
                    begin=partial(guide.kiosk.interview, study_id),
                    disabled=guide.shown.busy,
                )
            )
        ids.lines.clear_widgets()
        for line, text in lines:
            ids.lines.add_widget(self._card(line, text))
        self._ways()

    def _text(self, line: Respondent, now_ms: int) -> str:
        words = self.guide.shown.words
        why = causes_words(line.causes, {}, words)
        why = f"{why}. " if why else ""
        when = words.span((line.next_ms or now_ms) - now_ms)
        key = "kept" if line.state == "sent" else line.state
        return words.say(f"interviewing.{key}.text", number=line.number, why=why, when=when)

    def _card(self, line: Respondent, text: str) -> StateCard:
        words = self.guide.shown.words
        sign, colour = _SIGNS[line.state]
        key = "kept" if line.state == "sent" else line.state
        card = StateCard(
            title=line.title, state=words.say(f"interviewing.{key}"), text=text, sign=sign, colour=colour
        )
        if self._sure == line.id:
            card.text = words.say("interviewing.remove.sure")
            self._ask(card.ids.buttons, partial(self.guide.kiosk.remove_line, line.id), "interviewing.remove")
            return card
        if line.state == "sent":
            self._button(
                card.ids.buttons, "interviewing.show", partial(self.guide.kiosk.fetch_receipt, line.id)
            )
        if line.state != "waiting":
            self._button(card.ids.buttons, "interviewing.remove", partial(self._be_sure, line.id))
        return card

    def _ways(self) -> None:
        guide, ids = self.guide, self.ids
        ids.ways.clear_widgets()
        if self.scan is not None:
            self._button(ids.ways, "interviewing.scan", lambda: self.scan(guide.open_link))
        self._button(ids.ways, "interviewing.add", self.paste)
        ids.again.clear_widgets()
        if any(line.state == "waiting" for line in guide.kiosk.lines):
            self._button(ids.again, "interviewing.try", guide.kiosk.try_sessions)
        ids.end.clear_widgets()
        ids.leave.text = ""
        if self._sure == "leave":
            waiting, left = len(guide.kiosk.lines), sum(count for _, _, count in guide.kiosk.stock)
            lost = guide.shown.words.say("interviewing.leave.lost", waiting=waiting, left=left)
            sure = guide.shown.words.say("interviewing.leave.sure")
            ids.leave.text = f"{sure} {lost}" if waiting or left else sure
            self._ask(ids.end, guide.kiosk.leave_interviewer, "interviewing.leave")
        else:
            self._button(ids.end, "interviewer.change", guide.kiosk.open_interviewer)
            self._button(ids.end, "interviewing.leave", partial(self._be_sure, "leave"))

    def _button(self, box: Any, key: str, does: Any, kind: str = "secondary") -> None:
        shown = self.guide.shown
        add_button(box, shown.words.say(key), does, kind=kind).disabled = shown.busy

    def _ask(self, box: Any, does: Any, key: str) -> None:
        self._button(box, "remove.keep", partial(self._be_sure, ""))

        def yes() -> None:
            self._sure = ""
            does()

        self._button(box, key, yes, "danger")

    def _be_sure(self, what: str) -> None:
        self._sure = what
        self.refresh()

    def paste(self) -> None:
        """What was copied last."""
        self.guide.kiosk.add_invitations(Clipboard.paste())


class InterviewerScreen(Page):
    """What it is for, and the PIN, twice."""

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        ids.message.text = guide.kiosk.pin_problem
        ids.pin.invalid = ids.again.invalid = bool(guide.kiosk.pin_problem)
        ids.begin.disabled = guide.shown.busy
        ids.begin.text = guide.shown.words.say(
            "interviewer.change" if guide.shown.mode == "unlocked" else "interviewer.begin"
        )

    def begin(self) -> None:
        """Set what was typed; where it will not do it stays, to be changed."""
        self.guide.kiosk.set_pin(self.ids.pin.text, self.ids.again.text)


class PinScreen(Page):
    """Nothing of anybody is on it."""

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        say, wait = guide.shown.words.say, guide.kiosk.wait_until_ms - guide.shown.device.clock.now_ms()
        ids.message.text = guide.kiosk.pin_problem
        ids.pin.invalid = bool(guide.kiosk.pin_problem)
        ids.wait.text = say("pin.wait", when=guide.shown.words.span(wait)) if wait > 0 else ""
        ids.link.text = say("pin.link") if guide.kiosk.link_waits else ""
        ids.unlock.disabled = guide.shown.busy or wait > 0

    def unlock(self) -> None:
        """Try what was typed, which does not stay in the field."""
        pin = self.ids.pin.text
        self.ids.pin.wipe()
        self.guide.kiosk.unlock(pin)


class HandedScreen(Page):
    """What the interviewer could see, before anything is asked."""

    sure = BooleanProperty(False)

    def refresh(self) -> None:
        guide, ids, say = self.guide, self.ids, self.guide.shown.words.say
        begun = guide.answering.participation is not None
        ids.idle.text = say("handed.idle", minutes=IDLE_MS // 60_000)
        ids.begin.text = say("handed.continue" if begun else "handed.begin")
        ids.stop.text = say("handed.stop.yes" if self.sure else "handed.stop")
        ids.stop.kind = "danger" if self.sure else "quiet"
        ids.asked.text = say("handed.stop.sure") if self.sure else ""

    def stop(self) -> None:
        """At once where nothing was answered; else it is asked."""
        part = self.guide.answering.participation
        if self.sure or part is None or not (part.responses or part.eligibility or part.name):
            self.sure = False
            self.guide.kiosk.finish()
        else:
            self.sure = True
            self.refresh()
            self.show_bottom()


load_kv(__file__)
