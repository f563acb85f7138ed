"""The parts of the guide about what was sent (what waits, receipts, withdrawal), known institutions, and removing studies.

Before a study, or all of them, is removed from this phone, what is lost is said, and receipts can be saved.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimask_client import Unreachable
from trimask_core.basics.errors import TrimaskError
from trimask_core.submit.institutions import Directory
from trimask_core.submit.receipt import Receipt, receipt_link
from trimask_mobile.model.device import CallState, Device, Opened
from trimask_mobile.model.participation import Consent
from trimask_mobile.model.problem import DiskError, Problem, explain
from trimask_mobile.model.state import SETTLED, AppState, Sending
from trimask_mobile.model.study_list import Item, item, items
from trimask_mobile.model.words import Catalogue


class Acquaintance(AppState):
    """Directories of institutions, and what becomes of studies with others."""

    pasted_directory: Directory | None = None
    directory_problem = ""

    @property
    def directories(self) -> tuple[Directory, ...]:
        """Those that come with the app and those the person has added."""
        return self.device.directories

    def open_institutions(self) -> None:
        """The page of directories."""
        self.pasted_directory, self.directory_problem = None, ""
        self._go("institutions")

    def choose_unknown(self, refuse: bool) -> None:
        """Refuse studies with institutions that are not known, or show that they are not."""
        self.refuse_unknown, device = refuse, self.device
        self._runner.records(
            lambda: device.know(refuse_unknown=refuse), lambda _: self._keep_settings(), self._failed
        )
        self._changed()

    def paste_directory(self, text: str) -> None:
        """Read and verify a directory; it is added once the person says that its keeper's key is right."""
        self.pasted_directory, self.directory_problem = None, ""
        try:
            self.pasted_directory = Directory.from_json(text)
        except TrimaskError:
            self.directory_problem = self.words.say("institutions.wrong")
        self._changed()

    def add_directory(self) -> None:
        """Keep what was pasted."""
        found, refuse, device = self.pasted_directory, self.refuse_unknown, self.device
        if found is None:
            return

        def done(_: None) -> None:
            self.pasted_directory = None
            self._changed()

        self._runner.records(lambda: device.add_directory(found, refuse_unknown=refuse), done, self._failed)


class Courier(Acquaintance):
    """Seals, sends, sends again, shows receipts, withdraws."""

    def send(self) -> None:
        """Check what would be refused anyway, mask, split, upload. Once it is sealed, nothing here can change it."""
        part = self._part
        wrong = part.problems
        if wrong:
            part.edit(next(iter(wrong)))
            self._moved()
            self.problems = {part.at: wrong[part.at]}
            self._changed()
            return
        answers, device = part.answers(), self.device
        self._sealed, self._dirty = True, False
        self.sending = Sending(mask="busy", active=True)
        self._go("sending")

        def seal() -> Item:
            return item(device, device.seal(part.study_id, answers))

        def sealed(line: Item) -> None:
            self.participation = None
            self.item, self.sending = line, Sending.of(line)
            self._changed()
            self.try_now()

        def failed(error: TrimaskError) -> None:
            self._sealed, self.sending = False, None
            self._failed(error)

        self._runner.network(
            lambda: device.check_open(part.study_id),
            lambda _: self._runner.records(seal, sealed, failed),
            failed,
        )

    def try_now(self) -> None:
        """Upload what waits, without waiting for its time."""
        self._upload(now=True)

    def tick(self) -> None:
        """Now and then, and when the app comes to the front: what is due is sent."""

        def due(next_ms: int | None) -> None:
            if next_ms is not None and next_ms <= self.device.clock.now_ms():
                self._upload(now=False)
            elif self.screen in ("studies", "sending", "receipt"):
                self._changed()  # "in about 3 minutes" becomes 2

        if self.screen != "starting" and not self._uploading:
            self._runner.records(self.device.queue.next_ms, due, self._failed)

    def _upload(self, *, now: bool) -> None:
        if self._uploading:
            return
        self._uploading, device = True, self.device
        if self.sending is not None:
            self.sending.begin()
            self._changed()

        def watch(address: str, state: CallState) -> None:
            def tell() -> None:
                if self.sending is not None and device is self.device:
                    self.sending.called(address, state)
                    self._changed()

            self._runner.post(tell)

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
                if own.state in SETTLED and self.screen == "sending":
                    self._go("receipt")
                    return
            self._changed()

        def failed(error: TrimaskError) -> None:
            self._uploading = False
            if self.sending is not None:
                self.sending.active = False
            self._failed(error)

        self._runner.network(run, done, failed)

    def _own(self, found: tuple[Item, ...]) -> Item | None:
        """The submission that is shown, as it stands now."""
        if self.item is None or self.item.entry is None:
            return None
        mine = self.item.entry.submission_id
        return next((one for one in found if one.entry is not None and one.entry.submission_id == mine), None)

    # My studies

    def show_studies(self) -> None:
        """The list."""

        def done(found: tuple[Item, ...]) -> None:
            self.items = found
            self.participation, self.sending, self.item, self.problem = None, None, None, None
            self.opened, self.link_text, self.link_problem = None, "", ""
            self.words = self._catalogue(self._language)
            self._go("studies")

        self.busy, device = False, self.device
        self._runner.records(lambda: items(device), done, self._failed)

    def _open_entry(self, line: Item) -> None:
        device = self.device

        def done(kept: tuple[Opened, Consent | None]) -> None:
            self.opened, self.consent = kept
            self._show_item(line, send=False)

        self._runner.records(
            lambda: (device.open(line.study_id), device.consent(line.study_id)), done, self._failed
        )

    def _show_item(self, line: Item, *, send: bool) -> None:
        self.item, self.participation = line, None
        if line.state in SETTLED:
            self._go("receipt")
            return
        self.sending = Sending.of(line)
        if self._uploading:  # begun before this page was opened
            self.sending.begin()
        self._go("sending")
        if send and line.state == "waiting":
            self.try_now()

    def discard(self) -> None:
        """Forget a submission that was refused or cannot be read, and the draft it was sealed from."""
        entry, device = self._entry, self.device
        self._runner.records(
            lambda: device.queue.discard(entry.submission_id, forget=True),
            lambda _: self.show_studies(),
            self._failed,
        )

    def answer_again(self) -> None:
        """Take up the draft of a submission that was refused before any institution had accepted it."""
        entry, device = self._entry, self.device
        self._runner.records(
            lambda: device.queue.discard(entry.submission_id),
            lambda _: self.open_study(entry.study_id),
            self._failed,
        )

    def open_study(self, study_id: bytes) -> None:
        """Go on with a study; the guide knows how."""
        raise NotImplementedError

    def delete_draft(self, line: Item) -> None:
        """Forget what was answered so far."""
        device = self.device
        self._runner.records(
            lambda: device.delete_draft(line.study_id), lambda _: self.show_studies(), self._failed
        )

    # Receipts and withdrawing

    @property
    def receipt_json(self) -> str:
        """The receipt as it is saved or shared."""
        receipt = self._entry.receipt
        return "" if receipt is None else receipt.to_json()

    @property
    def shared_json(self) -> str:
        """The same without the key that withdraws: what goes to other apps may go to other people."""
        receipt = self._entry.receipt
        return "" if receipt is None else receipt.shown.to_json()

    @property
    def receipt_link(self) -> str:
        """What the code on the receipt's page holds: another device's camera reads it; empty where it could not withdraw."""
        receipt = self._entry.receipt
        if receipt is None or not receipt.withdrawal_key or self.item is None or self.item.study is None:
            return ""
        return receipt_link(self.item.study, receipt)

    def _import(self, text: str) -> None:
        """A receipt of another device, as its file's text or its link: kept, and shown."""
        self.busy, device = True, self.device
        self._changed()

        def done(line: Item) -> None:
            self.busy, self.link_text = False, ""
            self._open_entry(line)

        def failed(error: TrimaskError) -> None:
            self._stop(
                explain(error)
                if isinstance(error, (Unreachable, DiskError))
                else Problem("receipt", str(error))
            )

        self._runner.network(lambda: item(device, device.import_receipt(text)), done, failed)

    def ask_withdraw(self) -> None:
        """The page that says what withdrawing can and cannot do; of what is sent, or still waits."""
        self._go("withdraw")

    def withdraw(self) -> None:
        """Ask every right provider to erase its part."""
        if self.busy:
            return
        self.busy = True
        self._changed()
        submission_id, device = self._entry.submission_id, self.device

        def done(line: Item) -> None:
            self.busy, self.item = False, line
            self._go("receipt")

        self._runner.network(lambda: item(device, device.withdraw(submission_id)), done, self._failed)


@dataclass(frozen=True)
class Loss:
    """What removing `study_id` (empty: everything) takes away; titles by what they would lose."""

    study_id: bytes
    titles: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    withdrawing: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    withdrawable: tuple[str, ...] = ()

    def sentences(self, words: Catalogue) -> list[str]:
        """One for each kind of thing that goes, what cannot be undone first."""
        told = (
            ("remove.waiting", self.waiting),
            ("remove.withdrawing", self.withdrawing),
            ("remove.receipts", self.withdrawable),
            ("remove.drafts", self.drafts),
            ("remove.refused", self.refused),
        )

        def named(titles: tuple[str, ...]) -> str:
            return ", ".join(words.say("quoted", text=title) for title in titles)

        return [words.say(key, titles=named(titles)) for key, titles in told if titles]


def loss_of(device: Device, study_id: bytes = b"") -> Loss:
    """What removing would take away."""
    lines = [line for line in items(device) if not study_id or line.study_id == study_id]

    def of(*states: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.title for line in lines if line.state in states))

    kept = [line.entry.receipt for line in lines if line.entry is not None]
    return Loss(
        study_id,
        tuple(dict.fromkeys(line.title for line in lines if line.title)),
        of("waiting"),
        of("withdrawing"),
        of("draft"),
        of("refused"),
        tuple(receipt for receipt in kept if receipt is not None),
        of("sent"),
    )


class Removal(Courier):
    """The page that asks, and what follows."""

    loss: Loss | None = None
    _before_remove = ""

    def ask_remove(self, line: Item | None = None) -> None:
        """What one study's removal takes away, or everything's."""
        device, study_id = self.device, b"" if line is None else line.study_id
        self._before_remove = self.screen

        def done(loss: Loss) -> None:
            self.loss = loss
            self._go("remove")

        self._runner.records(lambda: loss_of(device, study_id), done, self._failed)

    def leave_remove(self) -> None:
        """Nothing is removed."""
        self.loss = None
        if self._before_remove == "settings":
            self._go("settings")
        else:
            self.show_studies()

    def remove(self) -> None:
        """Remove what the page has named."""
        if self.loss is None:
            return
        device, study_id = self.device, self.loss.study_id

        def done(_: None) -> None:
            self.loss, self._before_settings = None, "studies"
            self.opened = self.consent = self.item = None
            self.show_studies()

        self._runner.records(
            lambda: device.remove(study_id) if study_id else device.remove_all(), done, self._failed
        )
