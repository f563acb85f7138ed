"""Opening an invitation."""

from __future__ import annotations

from typing import Any

from kivy.core.clipboard import Clipboard
from kivy.properties import ObjectProperty

from trimask_mobile.widgets.basics import PushButton
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["InvitationScreen"]


class ScanButton(PushButton):
    """Opens the system's scanner."""


class InvitationScreen(Page):
    """A field for the link; a scanner where the system has one."""

    # A callable that scans and hands over what it read, or None where there is no scanner.
    scan = ObjectProperty(None, allownone=True)

    def forget(self) -> None:
        """No invitation stays in the field: it may be another's."""
        if not self.guide.link_text:  # else it may be tried again
            self.ids.link.wipe()

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        if ids.link.text != guide.link_text:
            ids.link.text = guide.link_text
        ids.link.invalid = bool(guide.link_problem)
        ids.message.text = guide.link_problem
        ids.busy.text = guide.words.say("invitation.busy") if guide.busy else ""
        ids.open.disabled = guide.busy or not guide.link_text.strip()

    def paste(self) -> None:
        """What was copied last."""
        self.guide.type_link(Clipboard.paste().strip())

    def on_scan(self, _: object, scan: Any) -> None:
        """A button for the system's scanner, where there is one."""
        if scan is not None:
            button = ScanButton()
            button.bind(on_release=lambda *_: scan(self.guide.open_link))
            self.ids.ways.add_widget(button)


load_kv(__file__)
