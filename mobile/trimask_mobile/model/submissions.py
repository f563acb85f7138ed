"""What was sealed: sending it and sending it again, receipts, withdrawal.

Sending is shown as mask, split, and an upload to each institution by name.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from trimask_client import Entry
from trimask_core.basics.errors import TrimaskError
from trimask_core.submit.submission import Receipt, receipt_link
from trimask_mobile.model.answering import Answering
from trimask_mobile.model.device import CallState
from trimask_mobile.model.shown import SETTLED, Shown
from trimask_mobile.model.study_list import Item, item, items
from trimask_mobile.model.words import Catalogue

# "later": not this time, and tried again.
StepState = Literal["waiting", "busy", "done", "later", "failed"]


@dataclass
class Upload:
    """One institution's part."""

    name: str
    address: str
    state: StepState = "waiting"
    # Why it has no part, after an attempt (`trimask_client.queue_entry.cause_of`).
    cause: str = ""


@dataclass
class Sending:
    """How far it has come."""

    mask: StepState = "waiting"
    split: StepState = "waiting"
    uploads: list[Upload] = field(default_factory=list)
    entry: Entry | None = None
    # Whether a call is under way now.
    active: bool = False

    @classmethod
    def of(cls, item: Item) -> Sending:
        """A sealed submission, as it stands on disk."""
        uploads = [Upload(one.name, one.address) for one in item.providers]
        made = cls("done", "done", uploads, item.entry)
        if item.entry is not None and (item.entry.attempts or item.state != "waiting"):
            made.settle(item)
        for one, provider in zip(uploads, item.providers, strict=True):
            one.state = "done" if provider.has_it else one.state
        return made

    @property
    def upload(self) -> StepState:
        """The third step as a whole."""
        states = {one.state for one in self.uploads}
        if self.split != "done":
            return "waiting"
        if states == {"done"}:
            return "done"
        if self.active or "busy" in states:
            return "busy"
        return "failed" if "failed" in states else "later" if "later" in states else "waiting"

    def begin(self) -> None:
        """An attempt begins."""
        self.active = True
        for one in self.uploads:
            one.state = one.state if one.state == "done" else "waiting"
            one.cause = ""

    def called(self, address: str, state: CallState) -> None:
        """The transport says which institution is being called."""
        for one in self.uploads:
            if one.address == address and one.state != "done":
                one.state = "later" if state == "failed" else state

    def settle(self, item: Item) -> None:
        """After an attempt: what counts is the receipts on disk, not that a call was answered."""
        self.active, self.entry = False, item.entry
        left: StepState = "later" if item.state == "waiting" else "failed"
        causes = {} if item.entry is None else dict(item.entry.causes)
        for number, (one, provider) in enumerate(zip(self.uploads, item.providers, strict=True), 1):
            one.state = "done" if provider.has_it else left
            one.cause = causes.get(f"R{number}", "")


def receipt_name(receipt: Receipt, title: str, words: Catalogue) -> str:
    """A file's name that a person recognises, as the page's: the study, and the day it was sent."""
    sent = max(item.receive_time_ms for item in receipt.providers)
    day = dt.datetime.fromtimestamp(sent / 1000, dt.UTC).astimezone().date()
    name = f"{words.say('receipt.file')} {title} {day.isoformat()}"
    return (
        "".join(one for one in name if one in " -" or unicodedata.category(one)[0] in "LMN")[:120] + ".json"
    )


class Submissions:
    """`item` is the submission shown, `sending` how far it has come, `items` everything that was begun or sent."""

    def __init__(self, shown: Shown, answering: Answering) -> None:
        self._shown, self._answering = shown, answering
        # Told when answers are about to be sealed: whose invitation it is, is then decided.
        self.sealing_begins: Callable[[], None] = lambda: None
        self.reset()

    def reset(self) -> None:
        """Nothing is listed, nothing shown."""
        self.items: tuple[Item, ...] = ()
        self.item: Item | None = None
        self.sending: Sending | None = None
        self._uploading = False

    def close(self) -> None:
        """The submission that was shown is not any more."""
        self.item = self.sending = None

    @property
    def entry(self) -> Entry:
        """The submission shown."""
        if self.item is None or self.item.entry is None:
            raise RuntimeError("a page about a submission without one")
        return self.item.entry

    # Sending

    def send(self) -> None:
        """Check what would be refused anyway, mask, split, upload. Once it is sealed, nothing here can change it."""
        shown, answering, part = self._shown, self._answering, self._answering.part
        wrong = part.problems
        if wrong:
            part.edit(next(iter(wrong)))
            answering.moved()
            answering.problems = {part.at: wrong[part.at]}
            shown.changed()
            return
        self.sealing_begins()
        answers, device = part.answers(), shown.device
        answering.seal()
        self.sending = Sending(mask="busy", active=True)
        shown.go("sending")

        def seal() -> Item:
            return item(device, device.queue.seal(part.study_id, answers))

        def sealed(line: Item) -> None:
            answering.participation = None
            self.item, self.sending = line, Sending.of(line)
            shown.changed()
            self.try_now()

        def failed(error: TrimaskError) -> None:
            answering.sealed, self.sending = False, None
            shown.failed(error)

        shown.runner.network(
            lambda: device.check_open(part.study_id),
            lambda _: shown.runner.records(seal, sealed, failed),
            failed,
        )

    def try_now(self) -> None:
        """Upload what waits, without waiting for its time."""
        self._upload(now=True)

    def tick(self) -> None:
        """Now and then, and when the app comes to the front: what is due is sent."""
        shown = self._shown

        def due(next_ms: int | None) -> None:
            if next_ms is not None and next_ms <= shown.device.clock.now_ms():
                self._upload(now=False)
            elif shown.screen in ("studies", "sending", "receipt"):
                shown.changed()  # "in about 3 minutes" becomes 2

        if not self._uploading:
            shown.runner.records(shown.device.queue.next_ms, due, shown.failed)

    def _upload(self, *, now: bool) -> None:
        if self._uploading:
            return
        shown = self._shown
        self._uploading, device = True, shown.device
        if self.sending is not None:
            self.sending.begin()
            shown.changed()

        def watch(address: str, state: CallState) -> None:
            def tell() -> None:
                if self.sending is not None and device is shown.device:
                    self.sending.called(address, state)
                    shown.changed()

            shown.runner.post(tell)

        def run() -> tuple[Item, ...]:
            device.send(now=now, watch=watch)
            return items(device)

        def done(found: tuple[Item, ...]) -> None:
            self._uploading, self.items = False, found
            own = self._own(found)
            if own is not None:
                self.item = own
                if self.sending is not None:
                    self.sending.settle(own)
                if own.state in SETTLED and shown.screen == "sending":
                    shown.go("receipt")
                    return
            shown.changed()

        def failed(error: TrimaskError) -> None:
            self._uploading = False
            if self.sending is not None:
                self.sending.active = False
            shown.failed(error)

        shown.runner.network(run, done, failed)

    def _own(self, found: tuple[Item, ...]) -> Item | None:
        """The submission that is shown, as it stands now."""
        if self.item is None or self.item.entry is None:
            return None
        mine = self.item.entry.submission_id
        return next((one for one in found if one.entry is not None and one.entry.submission_id == mine), None)

    def show(self, line: Item, *, send: bool = False) -> None:
        """The page of a submission; with `send` it is tried at once."""
        self.item, self._answering.participation = line, None
        if line.state not in SETTLED:
            self.sending = Sending.of(line)
            if self._uploading:  # begun before this page was opened
                self.sending.begin()
        self.show_page()
        if send and line.state == "waiting":
            self.try_now()

    def show_page(self) -> None:
        """The receipt's page, or that of sending."""
        settled = self.item is not None and self.item.state in SETTLED
        self._shown.go("receipt" if settled else "sending")

    # Receipts and withdrawing

    @property
    def receipt_json(self) -> str:
        """The receipt as it is saved or shared."""
        receipt = self.entry.receipt
        return "" if receipt is None else receipt.to_json()

    @property
    def receipt_name(self) -> str:
        """What the file of it is called."""
        receipt, title = self.entry.receipt, "" if self.item is None else self.item.title
        return "" if receipt is None else receipt_name(receipt, title, self._shown.words)

    @property
    def shared_json(self) -> str:
        """The same without the key that withdraws: what goes to other apps may go to other people."""
        receipt = self.entry.receipt
        return "" if receipt is None else receipt.shown.to_json()

    @property
    def receipt_link(self) -> str:
        """What the code on the receipt's page holds: another device's camera reads it; empty where it could not withdraw."""
        receipt = self.entry.receipt
        if receipt is None or not receipt.withdrawal_key or self.item is None or self.item.study is None:
            return ""
        return receipt_link(self.item.study, receipt)

    def ask_withdraw(self) -> None:
        """The page that says what withdrawing can and cannot do; of what is sent, or still waits."""
        self._shown.go("withdraw")

    def withdraw(self) -> None:
        """Ask every right provider to erase its part."""
        shown = self._shown
        if shown.busy:
            return
        shown.busy = True
        shown.changed()
        submission_id, device = self.entry.submission_id, shown.device

        def done(line: Item) -> None:
            shown.busy, self.item = False, line
            shown.go("receipt")

        shown.runner.network(lambda: item(device, device.queue.withdraw(submission_id)), done, shown.failed)
