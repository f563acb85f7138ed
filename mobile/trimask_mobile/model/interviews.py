"""The interviewer's page: invitations, the next respondent, and what sessions have left to send."""

from __future__ import annotations

import re
from typing import Any

from trimask_core.errors import InvitationError
from trimask_core.invitation import Link
from trimask_mobile.model.device import Device
from trimask_mobile.model.modes import Moded
from trimask_mobile.model.respondents import Respondent

__all__ = ["Interviews", "links_in"]

_LINK = re.compile(r"(?:https?|trimask)://[^\s,;\"'<>]+", re.IGNORECASE)


def links_in(text: str) -> list[str]:
    """Every invitation in a text: a list of links, a table, a message."""
    return list(dict.fromkeys(_LINK.findall(text)))


class Interviews(Moded):
    """What an interviewer does between respondents. Nothing here can show what one of them answered."""

    def _show_interviewing(self) -> None:
        if self.mode == "unlocked":
            self.busy, self.problem = False, None
            self._go("interviewing")
            self._reload()

    def _reload(self) -> None:
        """What the page shows, from the disk."""
        respondents, unlocked = self._need(), self._unlocked

        def read() -> tuple[tuple[Respondent, ...], int, tuple[tuple[bytes, str, int], ...]]:
            links = [] if unlocked is None else [Link.parse(link) for link in unlocked.invitations]
            counts: dict[bytes, int] = {}
            for link in links:
                counts[link.study_id] = counts.get(link.study_id, 0) + (link.invitation is not None)
            titles = respondents.studies()
            stock = tuple((one, titles.get(one, ""), count) for one, count in counts.items())
            return respondents.lines(), respondents.sent(), stock

        def done(found: tuple[Any, ...]) -> None:
            self.lines, self.sent, self.stock = found
            self._changed()

        self._raw.records(read, done, self._failed)

    def add_invitations(self, text: str) -> None:
        """Take every invitation of a text into the list; studies are fetched now, so that interviews need no network."""
        unlocked, respondents, lock, device = self._unlocked, self._need(), self._lock, self._main
        if unlocked is None or self.busy:
            return
        good, wrong = [], 0
        for one in links_in(text):
            try:
                link = Link.parse(one)
            except InvitationError:
                wrong += 1
                continue
            over = link.invitation is not None and link.invitation.expires_ms <= device.clock.now_ms()
            wrong += over
            good += [] if over else [link]
        if not good:
            self.said = self.words.say("interviewing.nothing")
            self._changed()
            return
        self.busy, self.said = True, self.words.say("interviewing.fetching")
        self._changed()

        def fetch() -> int:
            for link in {link.study_id: link for link in good}.values():
                if respondents.study(link.study_id) is None:
                    respondents.keep_study(device.fetch(link))
            fresh = [str(link) for link in good if str(link) not in unlocked.invitations]
            unlocked.invitations += fresh
            lock.keep(unlocked)
            return len(fresh)

        def done(added: int) -> None:
            self.busy = False
            key = "interviewing.added.some" if wrong else "interviewing.added"
            self.said = self.words.say(key, added=added, wrong=wrong)
            self._reload()

        self._raw.network(fetch, done, self._failed)

    def interview(self, study_id: bytes) -> None:
        """The next respondent, with the next invitation of the list."""
        unlocked = self._unlocked
        if unlocked is not None:
            links = (link for link in unlocked.invitations if Link.parse(link).study_id == study_id)
            self.interview_with(next(links, ""))

    def interview_with(self, text: str) -> None:
        """The next respondent, with an invitation from the list or one that was scanned."""
        unlocked, respondents, lock = self._unlocked, self._need(), self._lock
        if unlocked is None or self.busy:
            return
        try:
            link = Link.parse(text)
        except InvitationError:
            self.said = self.words.say("interviewing.nothing")
            self._changed()
            return
        self.busy, self.said = True, self.words.say("invitation.busy")
        self._changed()

        def begin() -> tuple[str, Device]:
            staged = ""
            if link.invitation is not None and text in unlocked.invitations:
                staged = respondents.stage(text)
                unlocked.invitations.remove(text)
                lock.keep(unlocked)
            found = respondents.begin(link)  # where it fails, an invitation that is still good is given back
            if staged:
                respondents.unstage(staged)
            return found

        def done(found: tuple[str, Device]) -> None:
            self._enter(*found)
            self._go("handed")

        self._raw.network(begin, done, self._failed)

    def remove_line(self, one: str) -> None:
        """Remove what is left of a session: an upload that was refused, or a receipt that nobody fetched."""
        respondents = self._need()
        self._raw.records(lambda: respondents.erase(one), lambda _: self._reload(), self._failed)

    def fetch_receipt(self, one: str) -> None:
        """Somebody has come back for their receipt: a session that shows it, and nothing else."""
        if self.mode != "unlocked":
            return
        respondents = self._need()

        def done(found: tuple[Device, bytes]) -> None:
            device, study_id = found
            self._enter(one, device)
            self.keep_receipt = True
            self._open(study_id)

        def read() -> tuple[Device, bytes]:
            device = respondents.fetch(one)
            return device, device.queue.studies()[0]

        self._raw.records(read, done, self._failed)

    # Sending

    def _send_sessions(self, *, now: bool) -> None:
        """Send what sessions have left, whoever has the device now."""
        if self._sending_sessions or self._respondents is None:
            return
        respondents, clock = self._respondents, self._main.clock

        def due(next_ms: int | None) -> None:
            if next_ms is None or (not now and next_ms > clock.now_ms()):
                return
            self._sending_sessions = True
            self._raw.network(lambda: respondents.send(now=now), over, over)

        def over(_: object) -> None:
            self._sending_sessions = False
            if self.mode == "unlocked":
                self._reload()

        self._raw.records(respondents.next_ms, due, over)

    def something_waits(self) -> bool:
        """Whether anything is to be sent, of whoever has the device or had it."""
        found = self._respondents
        return any(
            next_ms is not None
            for next_ms in (
                self.device.queue.next_ms(),
                self._main.queue.next_ms(),
                None if found is None else found.next_ms(),
            )
        )

    def try_sessions(self) -> None:
        """The interviewer asks to try now."""
        self._send_sessions(now=True)
