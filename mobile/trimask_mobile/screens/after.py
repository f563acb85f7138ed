"""The screens after answering: three steps that can be watched (mask, split, upload), the receipt to keep, withdrawing.

Each says what happens when it cannot be finished; withdrawing, what it can do, and what nobody can.
"""

from __future__ import annotations

from kivy.properties import BooleanProperty, ObjectProperty, StringProperty

from trimask_mobile.model.problem import cause_words
from trimask_mobile.model.submissions import Upload
from trimask_mobile.model.words import Catalogue, local_time
from trimask_mobile.widgets.basics import StepRow
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page, offer_to_keep


def _detail(one: Upload, words: Catalogue) -> str:
    """What an institution that has no part is said to be: not reached, or what its answer was."""
    if one.cause not in ("", "offline"):
        why = cause_words(one.cause, words)
        return why[:1].upper() + why[1:]
    return words.say("sending.later") if one.state == "later" else ""


class SendingScreen(Page):
    """Leaving it stops nothing."""

    sure = BooleanProperty(False)  # whether discarding is asked about

    def refresh(self) -> None:
        guide, words, ids = self.guide, self.guide.shown.words, self.ids
        sending = guide.submissions.sending
        if sending is None:
            return
        self.title = guide.studies.study_title
        self.back = guide.shown.mode != "session"  # there the way leads over the button that ends it
        ids.mask.state, ids.split.state, ids.upload.state = sending.mask, sending.split, sending.upload
        if [row.text for row in ids.uploads.children[::-1]] != [one.name for one in sending.uploads]:
            ids.uploads.clear_widgets()
            for _ in sending.uploads:
                ids.uploads.add_widget(StepRow())
        for row, one in zip(ids.uploads.children[::-1], sending.uploads, strict=True):
            row.text, row.state = one.name, one.state
            row.detail = _detail(one, words)
        entry = sending.entry
        state = "busy" if entry is None or sending.active else entry.state
        ids.note.tone = {"busy": "info", "waiting": "warning"}.get(state, "error")
        ids.note.text, ids.why.text = "", ""
        why = "" if guide.submissions.item is None else guide.submissions.item.why(words)
        service = ".service" if guide.shown.sends_when_closed else ""
        if state == "busy":
            ids.note.text = words.say(f"sending.busy{service}")
        elif state == "waiting":
            when = words.span((entry.next_ms or 0) - guide.shown.device.clock.now_ms())
            got = len(entry.received_by)
            ids.note.text = words.say(f"sending.waiting{service}", got=got, of=entry.providers, when=when)
            ids.why.text = words.say("sending.why", why=why) if why else ""
        elif state in ("refused", "damaged"):
            ids.note.text = words.say(f"sending.{state}", why=why)
            if entry.held:
                ids.note.text += " " + words.say("sending.held")
            opened = guide.studies.opened
            if opened is not None:
                ids.why.text = words.say("study.contact", contact=opened.study.contact)
            if self.sure:
                ids.note.text = words.say("sending.discard.sure")
        over = state in ("refused", "damaged")
        held = over and entry.held
        ids.withdraw.there, ids.discard.there = state == "waiting", held and not self.sure
        ids.leave.text = words.say("sending.keep" if self.sure else "sending.leave")
        ids.leave.disabled = guide.shown.mode == "session" and guide.kiosk.sealing
        ids.retry.disabled = state == "busy"
        asks = over and (self.sure or not held)
        ids.retry.text = words.say(
            "sending.discard" if asks else "sending.again" if held else "sending.retry"
        )
        ids.retry.kind = "danger" if self.sure else "secondary" if over else "primary"
        offer_to_keep(ids.keep, guide, entry if state == "waiting" else None)

    def leave(self) -> None:
        """To the list; or, where it was asked whether to discard, no."""
        if self.sure:
            self.ask(False)
        else:
            self.guide.home()

    def ask(self, sure: bool) -> None:
        """Whether to discard is asked once more, or no longer."""
        self.sure = sure
        self.refresh()

    def retry(self) -> None:
        """Try again; or, where nothing is to be tried any more, answer again if the draft is there, else discard it."""
        entry = self.guide.submissions.sending.entry
        if entry is None or entry.state not in ("refused", "damaged"):
            self.guide.submissions.try_now()
        elif self.sure:
            self.sure = False
            self.guide.studies.discard()
        elif entry.held:
            self.guide.studies.answer_again()
        else:
            self.ask(True)


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

    def refresh(self) -> None:
        guide, words, ids = self.guide, self.guide.shown.words, self.ids
        item = guide.submissions.item
        if item is None or item.entry is None:
            return
        entry, now_ms = item.entry, guide.shown.device.clock.now_ms()
        self.in_session = guide.shown.mode == "session"
        self.back = not self.in_session  # from a session the way leads over the button that ends it
        self.state, self.has_receipt = item.state, entry.receipt is not None
        before, self.link = self.link, guide.submissions.receipt_link if item.state == "sent" else ""
        if self.in_session and self.link != before:
            ids.code.text = self.link  # a respondent takes theirs along: its code is shown
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
        offer_to_keep(ids.keep, guide, entry if item.state == "sent" else None)
        ids.consent.text = ""
        if guide.answering.consent is not None:
            given = guide.answering.consent
            ids.consent.text = words.say(
                "receipt.consent",
                version=given.version,
                name=given.name,
                when=local_time(given.signed_ms, words.language),
            )

    def save_it(self) -> None:
        """To a file."""
        submissions = self.guide.submissions
        self.save(submissions.receipt_name, submissions.receipt_json, self._saved, self._unsaved)

    def _saved(self, where: str) -> None:
        self.tone, self.saved = "success", self.guide.shown.words.say("receipt.saved", where=where)

    def _unsaved(self, why: str) -> None:
        self.tone, self.saved = "error", self.guide.shown.words.say("receipt.unsaved", why=why)

    def show_code(self) -> None:
        """For another device's camera; or no longer."""
        self.ids.code.text = "" if self.ids.code.text else self.link

    def share_it(self) -> None:
        """To another app, without the key that withdraws."""
        self.share(self.guide.submissions.item.title, self.guide.submissions.shared_json)


class WithdrawScreen(Page):
    """Asked once, with the truth."""

    def refresh(self) -> None:
        guide = self.guide
        self.ids.busy.text = guide.shown.words.say("withdraw.busy") if guide.shown.busy else ""
        self.ids.confirm.disabled = guide.shown.busy


load_kv(__file__)
