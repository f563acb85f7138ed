"""Mask, split, upload: three steps that can be watched, and what happens when one of them cannot be finished."""

from __future__ import annotations

from trimask_mobile.widgets.basics import PushButton, StepRow
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["SendingScreen"]


def _show(button: PushButton, shown: bool) -> None:
    button.opacity, button.disabled = int(shown), not shown


class SendingScreen(Page):
    """Leaving it stops nothing."""

    def refresh(self) -> None:
        guide, words, ids = self.guide, self.guide.words, self.ids
        sending = guide.sending
        if sending is None:
            return
        self.title = guide.study_title
        ids.mask.state, ids.split.state, ids.upload.state = sending.mask, sending.split, sending.upload
        if [row.text for row in ids.uploads.children[::-1]] != [one.name for one in sending.uploads]:
            ids.uploads.clear_widgets()
            for _ in sending.uploads:
                ids.uploads.add_widget(StepRow())
        for row, one in zip(ids.uploads.children[::-1], sending.uploads, strict=True):
            row.text, row.state = one.name, one.state
            row.detail = words.say("sending.later") if one.state == "later" else ""
        entry = sending.entry
        state = "busy" if entry is None or sending.active else entry.state
        ids.note.tone = {"busy": "info", "waiting": "warning"}.get(state, "error")
        ids.note.text, ids.why.text = "", ""
        service = ".service" if guide.sends_when_closed else ""
        if state == "busy":
            ids.note.text = words.say(f"sending.busy{service}")
        elif state == "waiting":
            when = words.span((entry.next_ms or 0) - guide.device.clock.now_ms())
            got = len(entry.received_by)
            ids.note.text = words.say(f"sending.waiting{service}", got=got, of=entry.providers, when=when)
            ids.why.text = words.say("sending.why", why=entry.why) if entry.why else ""
        elif state in ("refused", "damaged"):
            ids.note.text = words.say(f"sending.{state}", why=entry.why)
            if entry.held:
                ids.note.text += " " + words.say("sending.held")
        over = state in ("refused", "damaged")
        held = over and entry.held
        _show(ids.withdraw, state == "waiting")
        _show(ids.discard, held)
        ids.retry.disabled = state == "busy"
        ids.retry.text = words.say(
            "sending.again" if held else "sending.discard" if over else "sending.retry"
        )
        ids.retry.kind = "secondary" if over else "primary"

    def retry(self) -> None:
        """Try again; or, where nothing is to be tried any more, answer again if the draft is there, else forget it."""
        entry = self.guide.sending.entry
        if entry is not None and entry.state in ("refused", "damaged"):
            (self.guide.answer_again if entry.held else self.guide.discard)()
        else:
            self.guide.try_now()


load_kv(__file__)
