"""Interviewer mode: several respondents on one device, and a PIN between them and everything else.

A session begins on the interviewer's page (invitations, the next respondent, what is left to send) and ends on the
page for the PIN, whatever happens in between (`model.navigation`).
"""

from __future__ import annotations

import re
from typing import Any

from trimask_core.basics.errors import InvitationError, TrimaskError
from trimask_core.submit.invitation import Link
from trimask_mobile.kiosk.pin import Unlocked, WrongPin, pin_problem
from trimask_mobile.kiosk.respondents import IDLE_MS, Respondent, Respondents
from trimask_mobile.model.device import Device
from trimask_mobile.model.navigation import FIELD, Moded
from trimask_mobile.model.state import KEPT

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


_TOUCH_EVERY_MS = 30_000


class Interviewer(Interviews):
    """The guide of a device that may go from hand to hand."""

    def start(self, link: str = "") -> None:
        """With a PIN set: its page, or the session that was under way; else as always."""
        device, lock = self._main, self._lock

        def read() -> tuple[Respondents, int, tuple[str, Device, dict[str, Any], dict[str, Any]] | None]:
            found = Respondents(device)
            if not lock.is_set:
                return found, -1, None
            session = found.resume()
            if session is None:
                return found, lock.wait_ms(), None
            one, own = session
            return found, lock.wait_ms(), (one, own, own.settings(), own.where())

        def done(found: tuple[Respondents, int, Any]) -> None:
            self._respondents, wait_ms, session = found
            if wait_ms < 0:
                super(Interviewer, self).start(link)
                return
            self.wait_until_ms = device.clock.now_ms() + wait_ms
            self._raw.records(device.settings, lambda kept: begin(kept, session), self._failed)

        def begin(settings: dict[str, Any], session: Any) -> None:
            self._take_settings(settings)
            self._settings = (self.scale, self._language, self.refuse_unknown)
            self._link_before_pin = link or self._link_before_start
            if session is None:
                self._turn("locked", device)
                self._go("pin")
                return
            one, own, chosen, where = session
            self._enter(one, own)
            self._take_settings(chosen)
            if where.get("study") and where.get("screen") in KEPT:
                self._open(bytes.fromhex(where["study"]), resume=True)
            else:
                self._go("handed")

        self._raw.records(read, done, self._failed)

    def open_link(self, text: str) -> None:
        """In a session nothing comes from outside; on the page for the PIN it waits."""
        if self.mode == "session":
            return
        if self.mode == "locked":
            self._link_before_pin = text
            self._changed()
        elif self.mode == "unlocked":
            self.interview_with(text)
        else:
            super().open_link(text)

    @property
    def link_waits(self) -> bool:
        """Whether an invitation was opened that waits for the PIN."""
        return bool(self._link_before_pin)

    def show_studies(self) -> None:
        """The mode's first page. A session ends there."""
        if self.mode == "session":
            self.finish()
        elif self.mode == "unlocked":
            self._show_interviewing()
        elif self.mode == "locked":
            self._go("pin")
        else:
            super().show_studies()

    def back(self) -> bool:
        """One page back; from the first page of a session nowhere."""
        if self.screen == "interviewer":
            self._go("interviewing" if self.mode == "unlocked" else "settings")
            return True
        if self.mode == "session" and self.screen in ("handed", "problem", "receipt", "sending"):
            if self.screen == "problem" and self.participation is not None:
                self._go(self.participation.step)
            return True
        if self.mode == "session" and self.screen == "study":
            self._go("handed")
            return True
        return False if self.screen in FIELD else super().back()

    # The PIN

    def open_interviewer(self) -> None:
        """The page on which a PIN is set."""
        self.pin_problem = ""
        self._go("interviewer")

    def set_pin(self, pin: str, again: str) -> None:
        """Begin interviewer mode, or change its PIN."""
        wrong = pin_problem(pin) or ("differ" if pin != again else "")
        if wrong or self.busy or self.mode not in ("own", "unlocked"):
            self.pin_problem = self.words.say(f"pin.wrong.{wrong}") if wrong else ""
            self._changed()
            return
        before = [] if self._unlocked is None else self._unlocked.invitations
        self.busy = True

        def done(unlocked: Unlocked) -> None:
            if self.mode == "own":
                self._settings = (self.scale, self._language, self.refuse_unknown)
            self._unlock(unlocked)

        self._raw.records(lambda: self._lock.set(pin, before), done, self._failed)
        self._changed()

    def unlock(self, pin: str) -> None:
        """Try a PIN."""
        if self.busy or self.mode != "locked" or not pin:
            return
        self.busy, self.pin_problem = True, ""
        respondents, lock = self._need(), self._lock

        def read() -> Unlocked:
            found = lock.open(pin)
            back = [link for link in respondents.returned() if link not in found.invitations]
            if back:
                found.invitations[:0] = back
                lock.keep(found)
            respondents.clear_returned()
            return found

        def failed(error: TrimaskError) -> None:
            self.busy = False
            if not isinstance(error, WrongPin):
                self._failed(error)
                return
            self.wait_until_ms = self._main.clock.now_ms() + error.wait_ms
            self.pin_problem = self.words.say("pin.wrong") if error.tried else ""
            self._changed()

        self._raw.records(read, self._unlock, failed)
        self._changed()

    def _unlock(self, unlocked: Unlocked) -> None:
        waiting = self._link_before_pin
        self._turn("unlocked", self._main)
        self._unlocked, self._link_before_pin, self.wait_until_ms = unlocked, "", 0
        self._show_interviewing()
        if waiting:
            self.interview_with(waiting)

    def lock(self) -> None:
        """Back to the page for the PIN."""
        if self.mode == "unlocked":
            self._turn("locked", self._main)
            self._go("pin")

    def leave_interviewer(self) -> None:
        """End interviewer mode: every session's rest is erased, and the PIN."""
        if self.mode != "unlocked":
            return
        respondents, lock = self._need(), self._lock

        def erase() -> None:
            respondents.erase_all()
            lock.remove()

        def done(_: None) -> None:
            self._turn("own", self._main)
            self.show_studies()

        self._raw.records(erase, done, self._failed)

    # A session

    def begin_answering(self) -> None:
        """From the first page of a session to its study, or to where the respondent was."""
        device = self.device
        if self.participation is not None:
            self._go(self.participation.step)
        else:
            self._runner.records(lambda: device.queue.studies()[0], self._open, self._failed)

    def send(self) -> None:
        """From here on the invitation is this respondent's for ever."""
        if self.mode == "session" and not self._part.problems:
            respondents, one = self._need(), self._session
            self._raw.records(lambda: respondents.spend(one), lambda _: None, self._failed)
        super().send()

    def choose_keep(self, keep: bool) -> None:
        """Whether the respondent's receipt stays here until they fetch it."""
        respondents, one = self._need(), self._session
        if self.mode == "session":
            self.keep_receipt = keep
            self._raw.records(lambda: respondents.choose(one, keep=keep), lambda _: None, self._failed)
            self._changed()

    @property
    def sealing(self) -> bool:
        """While answers are being sealed a session cannot end: neither the draft nor the payload would be whole."""
        return self.screen == "sending" and self.item is None

    def finish(self) -> None:
        """The respondent hands the device back."""
        if self.mode != "session" or self.sealing:
            return
        respondents, one, device = self._need(), self._session, self.device
        self._turn("locked", self._main)
        self._go("pin")

        def end() -> None:
            respondents.end(one)
            device.close()

        self._raw.records(end, lambda _: self._send_sessions(now=True), self._failed)

    # Time

    def touched(self) -> None:
        """Somebody is there."""
        self._touched_ms = now = self._main.clock.now_ms()
        if self.mode == "session" and now - self._told_ms > _TOUCH_EVERY_MS:
            self._told_ms, respondents, one = now, self._need(), self._session
            self._raw.records(lambda: respondents.touch(one), lambda _: None, self._failed)

    def tick(self) -> None:
        """What is due is sent; what nobody has touched for ten minutes is handed back."""
        if self.screen == "starting":
            return
        if self.mode in ("session", "unlocked") and self._main.clock.now_ms() - self._touched_ms >= IDLE_MS:
            (self.finish if self.mode == "session" else self.lock)()
        super().tick()
        if self.mode != "own":
            self._send_sessions(now=False)
            if self.screen in ("pin", "interviewing"):
                self._changed()
