"""My studies: what was begun, what waits, what was sent, what was taken back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from trimask_client import Entry
from trimask_core.basics.errors import TrimaskError
from trimask_core.explain.sentences import guess_sentence, step_word
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import guess_of_100, step_of
from trimask_core.submit.personal_budget import spending
from trimask_mobile.model.device import Device
from trimask_mobile.model.problem import causes_words
from trimask_mobile.model.study_page_text import form_title, party_name
from trimask_mobile.model.words import Catalogue

State = Literal[
    "waiting", "withdrawing", "draft", "new", "refused", "damaged", "sent", "too_late", "withdrawn"
]  # fmt: skip
ORDER: tuple[State, ...] = get_args(State)
_TOLD: tuple[State, ...] = ("waiting", "withdrawing", "sent", "too_late")
"""What has left the device, in part at least, and was not taken back."""


@dataclass(frozen=True)
class Provider:
    """A right provider and whether its receipt is here."""

    name: str
    address: str
    has_it: bool


@dataclass(frozen=True)
class Item:
    """One line of the list; `entry` once something was sealed."""

    study_id: bytes
    title: str
    state: State
    entry: Entry | None = None
    providers: tuple[Provider, ...] = ()
    study: Study | None = None

    def words(self, catalogue: Catalogue, now_ms: int) -> str:
        """What a person is told about it."""
        if self.state == "withdrawn" and self.entry is not None and not self.entry.withdrawn_by:
            return catalogue.say("receipt.unsent.text")
        if self.entry is None or self.state in ("sent", "too_late", "withdrawn"):
            return catalogue.say(f"shelf.{self.state}.text", count=len(self.providers))
        got = sum(provider.has_it for provider in self.providers)
        if self.state == "withdrawing":
            when = catalogue.span((self.entry.next_ms or now_ms) - now_ms)
            gone = len(self.entry.withdrawn_by)
            return catalogue.say("shelf.withdrawing.text", gone=gone, of=self.entry.providers, when=when)
        if self.state == "waiting":
            if self.entry.next_ms is None:
                return catalogue.say("shelf.sealed.text")
            when = catalogue.span(self.entry.next_ms - now_ms)
            return catalogue.say("shelf.waiting.text", got=got, of=len(self.providers), when=when)
        return catalogue.say(
            f"shelf.{self.state}.text", got=got, of=len(self.providers), why=self.why(catalogue)
        )

    def why(self, catalogue: Catalogue) -> str:
        """Why not every institution has its part, in the person's language."""
        if self.entry is None:
            return ""
        if self.state == "damaged":
            return catalogue.say("cause.damaged")
        names = {f"R{number}": provider.name for number, provider in enumerate(self.providers, 1)}
        return causes_words(self.entry.causes, names, catalogue)


def item(device: Device, entry: Entry) -> Item:
    """The line of one submission."""
    providers: tuple[Provider, ...] = ()
    title, study = entry.title, None
    if entry.study_id:
        opened = device.open(entry.study_id)
        study = opened.study
        title = form_title(study, opened.form)
        providers = tuple(
            Provider(party_name(study, role), study.party(role).address, role in entry.received_by)
            for role in (f"R{k}" for k in range(1, len(study.right) + 1))
        )
    return Item(entry.study_id, title, entry.state, entry, providers, study)


def spent_words(lines: Iterable[Item], catalogue: Catalogue) -> str:
    """What everything this person sent can tell together; nothing where nothing was sent."""
    sent = [line.study for line in lines if line.state in _TOLD and line.study is not None]
    if not sent:
        return ""
    found = spending(sent)
    said = []
    if found.counted:
        step = step_word(step_of(found.guess), catalogue.language)
        guess = guess_sentence(guess_of_100(found.guess), catalogue.language)
        said.append(f"{catalogue.count('studies.spent', found.counted, step=step)} {guess}")
    if found.uncounted:
        said.append(catalogue.say("studies.unlimited", titles=", ".join(found.uncounted)))
    return " ".join(said)


def items(device: Device) -> tuple[Item, ...]:
    """Everything, what needs the person first."""
    found = [item(device, entry) for entry in device.queue.entries()]
    answered = {line.study_id for line in found if line.state != "withdrawn"}
    withdrawn = {line.study_id for line in found} - answered
    for study_id in device.queue.studies():
        if study_id in answered or (study_id in withdrawn and device.queue.draft(study_id) is None):
            continue
        try:
            opened = device.open(study_id)
        except TrimaskError:
            continue  # a study this device can no longer trust is not offered
        title = form_title(opened.study, opened.form)
        found.append(Item(study_id, title, "new" if opened.draft is None else "draft"))
    return tuple(sorted(found, key=lambda one: ORDER.index(one.state)))
