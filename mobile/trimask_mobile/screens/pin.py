"""The page between respondents: the device asks for the interviewer's PIN."""

from __future__ import annotations

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["PinScreen"]


class PinScreen(Page):
    """Nothing of anybody is on it."""

    def forget(self) -> None:
        """No PIN stays in a field."""
        self.ids.pin.wipe()

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        say, wait = guide.words.say, guide.wait_until_ms - guide.device.clock.now_ms()
        ids.message.text = guide.pin_problem
        ids.pin.invalid = bool(guide.pin_problem)
        ids.wait.text = say("pin.wait", when=guide.words.span(wait)) if wait > 0 else ""
        ids.link.text = say("pin.link") if guide.link_waits else ""
        ids.unlock.disabled = guide.busy or wait > 0

    def unlock(self) -> None:
        """Try what was typed, which does not stay in the field."""
        pin = self.ids.pin.text
        self.ids.pin.wipe()
        self.guide.unlock(pin)


load_kv(__file__)
