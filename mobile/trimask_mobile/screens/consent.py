"""Consent: the text, its version, a tick and a name."""

from __future__ import annotations

from trimask_mobile.model.device import short_hash
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["ConsentScreen"]


class ConsentScreen(Page):
    """Signed with a typed name, which stays on the device."""

    def forget(self) -> None:
        """No name stays in the field."""
        self.ids.person.wipe()

    def refresh(self) -> None:
        part, ids, words = self.guide.participation, self.ids, self.guide.words
        if part is None:
            return
        consent = part.consent
        self.title = self.guide.study_title
        ids.words.text = consent.text
        ids.version.text = words.say(
            "consent.version", version=consent.version, hash=short_hash(consent.text)
        )
        ids.agree.selected = part.agreed
        if ids.person.text != part.name:
            ids.person.text = part.name
        ids.sign.disabled = not part.ready_to_sign
        self.progress = part.progress


load_kv(__file__)
