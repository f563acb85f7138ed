"""Removing a study, or all of them, from this phone: what is lost is said first, and receipts can be saved."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.receipt import Receipt
from trimask_mobile.model.catalogue import Catalogue
from trimask_mobile.model.courier import Courier
from trimask_mobile.model.device import Device
from trimask_mobile.model.shelf import Item, items

__all__ = ["Loss", "Removal", "loss_of"]


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
