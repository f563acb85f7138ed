"""The studies of this device: opening one by its invitation or from the list, removing it, and institutions that are known.

Before a study, or all of them, is removed from this phone, what is lost is said, and receipts can be saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimask_client import Unreachable
from trimask_core.basics.errors import InvitationError, TrimaskError
from trimask_core.form.font_coverage import app_languages
from trimask_core.submit.institutions import Directory
from trimask_core.submit.invitation import Link
from trimask_core.submit.submission import Receipt, is_receipt
from trimask_mobile.model.answering import Answering
from trimask_mobile.model.device import Device, Opened
from trimask_mobile.model.participation import Consent, sentence
from trimask_mobile.model.problem import DiskError, Problem, explain
from trimask_mobile.model.shown import Shown
from trimask_mobile.model.study_list import Item, item, items
from trimask_mobile.model.study_page_text import Story, form_title, tell
from trimask_mobile.model.submissions import Submissions
from trimask_mobile.model.words import Catalogue


class Institutions:
    """Directories of institutions, and what becomes of studies with others."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self.pasted_directory: Directory | None = None
        self.directory_problem = ""

    @property
    def directories(self) -> tuple[Directory, ...]:
        """Those that come with the app and those the person has added."""
        return self._shown.device.directories

    def open_institutions(self) -> None:
        """The page of directories."""
        self.pasted_directory, self.directory_problem = None, ""
        self._shown.go("institutions")

    def choose_unknown(self, refuse: bool) -> None:
        """Refuse studies with institutions that are not known, or show that they are not."""
        shown = self._shown
        shown.refuse_unknown, device = refuse, shown.device
        shown.read(lambda: device.know(refuse_unknown=refuse), lambda _: shown.keep_settings())
        shown.changed()

    def paste_directory(self, text: str) -> None:
        """Read and verify a directory; it is added once the person says that its keeper's key is right."""
        self.pasted_directory, self.directory_problem = None, ""
        try:
            self.pasted_directory = Directory.from_json(text)
        except TrimaskError:
            self.directory_problem = self._shown.words.say("institutions.wrong")
        self._shown.changed()

    def add_directory(self) -> None:
        """Keep what was pasted."""
        shown, found = self._shown, self.pasted_directory
        refuse, device = shown.refuse_unknown, shown.device
        if found is None:
            return

        def done(_: None) -> None:
            self.pasted_directory = None
            shown.changed()

        shown.read(lambda: device.add_directory(found, refuse_unknown=refuse), done)


# By the states of submissions and drafts: what their removal takes away, what cannot be undone first.
_LOSSES = {
    "waiting": "remove.waiting", "withdrawing": "remove.withdrawing", "sent": "remove.receipts",
    "draft": "remove.drafts", "refused": "remove.refused",
}  # fmt: skip


@dataclass(frozen=True)
class Loss:
    """What removing `study_id` (empty: everything) takes away: titles, those of each state, and receipts with theirs."""

    study_id: bytes
    titles: tuple[str, ...]
    by_state: Mapping[str, tuple[str, ...]]
    receipts: tuple[tuple[str, Receipt], ...]

    def sentences(self, words: Catalogue) -> list[str]:
        """One for each kind of thing that goes."""

        def named(titles: tuple[str, ...]) -> str:
            return ", ".join(words.say("quoted", text=title) for title in titles)

        told = ((key, self.by_state.get(state, ())) for state, key in _LOSSES.items())
        return [words.say(key, titles=named(titles)) for key, titles in told if titles]


def loss_of(device: Device, study_id: bytes = b"") -> Loss:
    """What removing would take away."""
    lines = [line for line in items(device) if not study_id or line.study_id == study_id]
    by_state: dict[str, dict[str, None]] = {}
    for line in lines:
        by_state.setdefault(line.state, {})[line.title] = None
    kept = [(line.title, line.entry.receipt) for line in lines if line.entry is not None]
    return Loss(
        study_id,
        tuple(dict.fromkeys(line.title for line in lines if line.title)),
        {state: tuple(titles) for state, titles in by_state.items()},
        tuple((title, receipt) for title, receipt in kept if receipt is not None),
    )


class Studies:
    """`opened` is the study that is open and `story` what its page says; `loss` what is about to be removed."""

    def __init__(self, shown: Shown, answering: Answering, submissions: Submissions) -> None:
        self._shown, self._answering, self._submissions = shown, answering, submissions
        self._before_remove = ""
        self.reset()

    def reset(self) -> None:
        """No study is open."""
        self.opened: Opened | None = None
        self.story: Story | None = None
        self.whole_story = self.link_text = self.link_problem = ""
        self.loss: Loss | None = None

    @property
    def study_title(self) -> str:
        """The study's title, in the language shown."""
        if self.opened is None:
            item = self._submissions.item
            return "" if item is None else item.title
        form = self.opened.form
        return form_title(self.opened.study, form, form.language(self._answering.language))

    # The list

    def show_studies(self) -> None:
        """The list, and nothing open."""
        shown = self._shown
        shown.busy, device = False, shown.device

        def done(found: tuple[Item, ...]) -> None:
            self._submissions.items = found
            self._submissions.close()
            self._answering.participation, shown.problem = None, None
            self.opened, self.link_text, self.link_problem = None, "", ""
            shown.speak(shown.language)
            shown.go("studies")

        shown.read(lambda: items(device), done)

    def show(self, line: Item) -> None:
        """One of the list."""
        if line.state in ("new", "draft"):
            self.open_study(line.study_id)
        elif line.study_id:
            self._open_entry(line)
        else:
            self._submissions.show(line)

    def _open_entry(self, line: Item) -> None:
        device, shown = self._shown.device, self._shown

        def done(kept: tuple[Opened, Consent | None]) -> None:
            self.opened, self._answering.consent = kept
            self._submissions.show(line)

        shown.read(lambda: (device.open(line.study_id), device.consent(line.study_id)), done)

    def delete_draft(self, line: Item) -> None:
        """Forget what was answered so far."""
        shown, device = self._shown, self._shown.device
        shown.read(lambda: device.queue.delete_draft(line.study_id), lambda _: shown.home())

    def discard(self) -> None:
        """Forget a submission that was refused or cannot be read, and the draft it was sealed from."""
        entry, shown, device = self._submissions.entry, self._shown, self._shown.device
        shown.read(lambda: device.queue.discard(entry.submission_id, forget=True), lambda _: shown.home())

    def answer_again(self) -> None:
        """Take up the draft of a submission that was refused before any institution had accepted it."""
        entry, shown, device = self._submissions.entry, self._shown, self._shown.device
        shown.read(
            lambda: device.queue.discard(entry.submission_id), lambda _: self.open_study(entry.study_id)
        )

    # Invitations, and receipts of other devices

    def open_link(self, text: str) -> None:
        """An invitation came from outside: the command line, another app, a scanner."""
        self.link_text = text
        self._shown.go("invitation")
        self.submit_link()

    def open_invitation(self) -> None:
        """The page for pasting one."""
        self.link_problem = ""
        self._shown.go("invitation")

    def type_link(self, text: str) -> None:
        """What stands in the field."""
        if text != self.link_text:
            self.link_text, self.link_problem = text, ""
            self._shown.keep_where()
            self._shown.changed()

    def submit_link(self) -> None:
        """Fetch the study the link names."""
        shown = self._shown
        if shown.busy:
            return
        if is_receipt(self.link_text):
            self._import(self.link_text)
            return
        try:
            link = Link.parse(self.link_text)
        except InvitationError as error:
            # Why exactly is said by the client, in English.
            known = shown.words.language == "en"
            self.link_problem = sentence(str(error)) if known else shown.words.say("invitation.wrong")
            shown.changed()
            return
        if link.invitation is not None and link.invitation.expires_ms <= shown.device.clock.now_ms():
            shown.stop(Problem("expired"))
            return
        if link.on_web and self._in_browser(str(link)):
            return
        shown.busy, device = True, shown.device
        shown.changed()

        def failed(error: TrimaskError) -> None:
            def told(contact: str) -> None:
                shown.stop(replace(explain(error), contact=contact))

            shown.read(lambda: device.contact(link.study_id), told)

        shown.runner.network(lambda: device.open_link(link), self.open_study, failed)

    def _in_browser(self, page: str) -> bool:
        """For whom the phone reads the screen aloud, the study's page is opened instead; whether it was."""
        shown = self._shown
        if not page or shown.mode != "own" or not shown.reads_aloud():
            return False
        self.link_text = ""
        shown.browse(page)
        shown.stop(Problem("aloud", page=page))
        return True

    def _import(self, text: str) -> None:
        """A receipt of another device, as its file's text or its link: kept, and shown."""
        shown = self._shown
        shown.busy, device = True, shown.device
        shown.changed()

        def done(line: Item) -> None:
            shown.busy, self.link_text = False, ""
            self._open_entry(line)

        def failed(error: TrimaskError) -> None:
            told = isinstance(error, (Unreachable, DiskError))
            shown.stop(explain(error) if told else Problem("receipt", str(error)))

        shown.runner.network(lambda: item(device, device.import_receipt(text)), done, failed)

    # A study

    def open_study(self, study_id: bytes, *, resume: bool = False) -> None:
        """Go on with a study; with `resume` where the app ended."""
        shown, device = self._shown, self._shown.device

        def read() -> tuple[Opened, str, Item | None, Consent | None]:
            opened = device.open(study_id)
            line = None if opened.entry is None else item(device, opened.entry)
            return opened, device.queue.client(study_id).explain(), line, device.consent(study_id)

        def done(kept: tuple[Opened, str, Item | None, Consent | None]) -> None:
            shown.busy = False
            self.opened, self.whole_story, line, self._answering.consent = kept
            self.link_text = ""
            shown.speak(shown.language)
            if line is not None:
                self._submissions.show(line, send=resume)
            else:
                self._take_part(self.opened)

        def failed(error: TrimaskError) -> None:
            if resume:  # a study that was removed or damaged must not keep the app from starting
                shown.busy = False
                shown.go("studies")
            else:
                shown.failed(error)

        shown.runner.records(read, done, failed)

    def _take_part(self, opened: Opened) -> None:
        form = opened.form
        begun = opened.draft is not None and opened.draft.get("step") != "study"
        if not begun and self._in_browser(opened.page):
            return
        if not app_languages(form):
            page = opened.page if self._shown.mode == "own" else ""
            self._shown.stop(Problem("unshowable", ", ".join(form.languages), page=page))
            return
        self._answering.begin(opened.study.id, form, opened.draft)
        self.tell()
        self._answering.show()

    def tell(self) -> None:
        """What the study's page says, in the language shown."""
        if self.opened is not None:
            language = self._answering.language
            self._shown.speak(language)
            self.story = tell(
                self.opened.study, self.opened.form, self._shown.words, language, self.opened.parties
            )

    # Removing

    def ask_remove(self, line: Item | None = None) -> None:
        """What one study's removal takes away, or everything's."""
        shown, study_id = self._shown, b"" if line is None else line.study_id
        self._before_remove, device = shown.screen, shown.device

        def done(loss: Loss) -> None:
            self.loss = loss
            shown.go("remove")

        shown.read(lambda: loss_of(device, study_id), done)

    def leave_remove(self) -> None:
        """Nothing is removed."""
        self.loss = None
        if self._before_remove == "settings":
            self._shown.go("settings")
        else:
            self._shown.home()

    def remove(self) -> None:
        """Remove what the page has named."""
        if self.loss is None:
            return
        shown, study_id = self._shown, self.loss.study_id
        device = shown.device

        def done(_: None) -> None:
            self.loss, shown.before_settings = None, "studies"
            self.opened = self._answering.consent = self._submissions.item = None
            shown.home()

        shown.read(lambda: device.remove(study_id) if study_id else device.remove_all(), done)
