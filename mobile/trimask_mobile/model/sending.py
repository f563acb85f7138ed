"""Sending as a person sees it: mask, split, and an upload to each institution by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trimask_client import Entry
from trimask_mobile.model.device import CallState
from trimask_mobile.model.shelf import Item

__all__ = ["Sending", "StepState", "Upload"]

# "later": not this time, and tried again.
StepState = Literal["waiting", "busy", "done", "later", "failed"]


@dataclass
class Upload:
    """One institution's part."""

    name: str
    address: str
    state: StepState = "waiting"
    # Why it has no part, after an attempt (`trimask_client.entry.cause_of`).
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
