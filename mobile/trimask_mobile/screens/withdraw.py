"""Withdrawing: what it can do, and what nobody can."""

from __future__ import annotations

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["WithdrawScreen"]


class WithdrawScreen(Page):
    """Asked once, with the truth."""

    def refresh(self) -> None:
        guide = self.guide
        self.ids.busy.text = guide.words.say("withdraw.busy") if guide.busy else ""
        self.ids.confirm.disabled = guide.busy


load_kv(__file__)
