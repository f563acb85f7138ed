"""The receipt to keep, and the way to withdraw."""

from __future__ import annotations

from kivy.properties import BooleanProperty, ObjectProperty, StringProperty

from trimask_mobile.model.catalogue import local_time
from trimask_mobile.widgets.basics import StepRow
from trimask_mobile.widgets.code import Code
from trimask_mobile.widgets.keep import offer_to_keep
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["Code", "ReceiptScreen"]


class ReceiptScreen(Page):
    """Sent; being withdrawn; withdrawn; or too late for that."""

    state = StringProperty("sent")
    saved = StringProperty("")
    tone = StringProperty("success")
    link = StringProperty("")
    has_receipt = BooleanProperty(True)
    # On a device of somebody else's: another app of theirs is no place to share to.
    in_session = BooleanProperty(False)
    # (name, text, saved, failed): told where it is, or why it is nowhere; (title, text): the system's share sheet, or None.
    save = ObjectProperty(None, allownone=True)
    share = ObjectProperty(None, allownone=True)

    def on_pre_enter(self, *_: object) -> None:
        """A note about an earlier receipt does not belong here. A respondent takes theirs along: its code is shown."""
        self.saved = ""
        self.ids.code.text = self.link if self.in_session else ""

    def forget(self) -> None:
        """Nothing of a receipt that is not shown stays on the page, the key in its code least of all."""
        ids = self.ids
        self.saved = self.link = ids.code.text = ""
        for one in (ids.head, ids.words, ids.study, ids.number, ids.consent):
            one.text = ""
        ids.signers.clear_widgets()
        ids.keep.clear_widgets()

    def refresh(self) -> None:
        guide, words, ids = self.guide, self.guide.words, self.ids
        item = guide.item
        if item is None or item.entry is None:
            return
        entry, now_ms = item.entry, guide.device.clock.now_ms()
        self.in_session = guide.mode == "session"
        self.back = not self.in_session  # from a session the way leads over the button that ends it
        self.state, self.has_receipt = item.state, entry.receipt is not None
        self.link = guide.receipt_link if item.state == "sent" else ""
        unsent = item.state == "withdrawn" and not entry.withdrawn_by
        ids.head.text = words.say(f"receipt.{item.state}")
        ids.words.text = words.say(
            "receipt.unsent.text" if unsent else f"receipt.{item.state}.text",
            gone=len(entry.withdrawn_by),
            of=entry.providers,
            when=words.span((entry.next_ms or now_ms) - now_ms),
        )
        ids.study.text = item.title
        digits = item.entry.submission_id.hex()
        ids.number.text = " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))
        ids.signers.clear_widgets()
        receipts = () if item.entry.receipt is None else item.entry.receipt.providers
        for provider, receipt in zip(item.providers, receipts, strict=False):
            when = words.say("receipt.signed", when=local_time(receipt.receive_time_ms, words.language))
            state = "done" if item.state in ("sent", "too_late") else "later"
            if receipt.role in entry.withdrawn_by:
                when, state = words.say("receipt.erased"), "done"
            ids.signers.add_widget(StepRow(text=provider.name, detail=when, state=state))
        digits = digits[:8].upper()
        offer_to_keep(
            ids.keep,
            guide,
            offered=self.in_session and item.state == "sent",
            kept=guide.keep_receipt,
            text=words.say("session.keep.text", number=f"{digits[:4]} {digits[4:]}"),
        )
        ids.consent.text = ""
        if guide.consent is not None:
            given = guide.consent
            ids.consent.text = words.say(
                "receipt.consent",
                version=given.version,
                name=given.name,
                when=local_time(given.signed_ms, words.language),
            )

    def save_it(self) -> None:
        """To a file."""
        name = f"trimask-receipt-{self.guide.item.entry.submission_id.hex()[:12]}.json"
        self.save(name, self.guide.receipt_json, self._saved, self._unsaved)

    def _saved(self, where: str) -> None:
        self.tone, self.saved = "success", self.guide.words.say("receipt.saved", where=where)

    def _unsaved(self, why: str) -> None:
        self.tone, self.saved = "error", self.guide.words.say("receipt.unsaved", why=why)

    def show_code(self) -> None:
        """For another device's camera; or no longer."""
        self.ids.code.text = "" if self.ids.code.text else self.link

    def share_it(self) -> None:
        """To another app, without the key that withdraws."""
        self.share(self.guide.item.title, self.guide.shared_json)


load_kv(__file__)
