"""The submissions that every right provider holds and no block has, in the order in which they were complete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from trimask_core.study import Party, Study
from trimask_server.collector.ledger import IN_A_BLOCK, Ledger
from trimask_server.collector.right_calls import RightCalls
from trimask_server.protocol.plans import split_ids

__all__ = ["Intake"]

_GONE = 3  # the mark of a submission that a provider held and holds no more


class Intake:
    """One study's submissions on their way to a block, counted page by page."""

    def __init__(self, study: Study, ledger: Ledger, calls: RightCalls) -> None:
        self._study = study
        self._ledger = ledger
        self._calls = calls
        self._held: dict[bytes, int] = {}  # submission id -> which right providers hold it, a bit each
        # Those that all providers hold, in the order in which they became complete. (Incomplete ones may be very many.)
        self._ready: dict[bytes, None] = {}
        self._tokens = [""] * len(study.right)
        self._accepted: dict[bytes, int] = {}  # which right providers' check has accepted it, a bit each
        self._begun: set[bytes] = set()  # those in a check that is not decided everywhere
        self.draw_number = 0
        """The highest of a draw that a right provider says it has begun."""
        self._whole = False  # everything was counted after intake had stopped everywhere
        self.stale = False
        """Whether something was planned since everything was counted."""

    def count_anew(self) -> None:
        """Discard the counts: ask every provider again what it holds."""
        self._held.clear()
        self._ready.clear()
        self._accepted.clear()
        self._begun.clear()
        self._tokens = [""] * len(self._study.right)
        self._whole = self.stale = False

    def remove(self, ids: Iterable[bytes]) -> None:
        """Remove submissions that are now in a block."""
        self.stale = True
        for submission_id in ids:
            self._let_go(submission_id)

    def _let_go(self, submission_id: bytes) -> None:
        for counted in (self._held, self._ready, self._accepted):
            counted.pop(submission_id, None)

    @property
    def accepted(self) -> list[bytes]:
        """The complete submissions that the check of every right provider has accepted, oldest first."""
        whole = (1 << len(self._study.right)) - 1
        return [name for name in self._ready if self._accepted.get(name) == whole]

    @property
    def unchecked(self) -> list[bytes]:
        """The complete submissions that no right provider has in a check, oldest first."""
        return [name for name in self._ready if name not in self._accepted and name not in self._begun]

    @property
    def usable(self) -> int:
        """How many complete submissions are accepted, or in no check yet; the others' check was never decided."""
        return len(self.accepted) + len(self.unchecked)

    @property
    def half_checked(self) -> set[bytes]:
        """The complete submissions accepted by some right providers and not by others, where they arrived a second time."""
        whole = (1 << len(self._study.right)) - 1
        return {name for name in self._ready if 0 < self._accepted.get(name, 0) < whole}

    async def complete(
        self, known: dict[str, bytes], *, closing: bool, paused: bool = False
    ) -> list[bytes] | None:
        """The complete submissions, oldest first.

        `known` are the stores of the right providers, by role, that have been told of every block. None if a provider
        has another store by now: what it lists may have been in a block before. While the study closes, or intake is
        paused, nothing comes or goes, so that everything is counted once, and anew only after `count_anew`.
        """
        last = closing or paused
        if last and self._whole:
            return list(self._ready)
        whole = (1 << len(self._study.right)) - 1
        planned: set[bytes] = set()
        if last:
            # Intake has stopped, and everything is counted again, so that the last count is the whole one.
            self.count_anew()
        # A block that waits may be bound at some right providers only: the others list its rows.
        for block in await self._ledger.blocks(
            self._study.id, *(IN_A_BLOCK if last else ("planned", "given_up", "cancelled"))
        ):
            planned.update(split_ids(block.submission_ids))

        order = await self._ledger.close_order(self._study.id) if closing else None

        async def one(index: int, party: Party) -> bool:
            if closing:
                await self._calls.stop_intake(party, order)
            while True:
                page = await self._calls.list_pending(party, self._tokens[index])
                if known.get(f"R{index + 1}") != page.store_generation:
                    return False
                for submission_id, mark in zip(
                    page.ids, page.checked.ljust(len(page.ids), b"\0"), strict=False
                ):
                    if mark == _GONE:
                        self._let_go(submission_id)
                        continue
                    if submission_id in planned:
                        continue
                    if mark == 1:
                        self._accepted[submission_id] = self._accepted.get(submission_id, 0) | (1 << index)
                    elif mark:
                        self._begun.add(submission_id)
                    held = self._held[submission_id] = self._held.get(submission_id, 0) | (1 << index)
                    if held == whole:
                        self._ready[submission_id] = None
                self.draw_number = max(self.draw_number, page.draw_number)
                if not page.next_token:
                    return True
                self._tokens[index] = page.next_token

        # All of them end: one that went on reading would move the place where the next count goes on.
        asked = [one(index, party) for index, party in enumerate(self._study.right)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        trusted = list(answers)
        self._whole = last and all(trusted)
        return list(self._ready) if all(trusted) else None
