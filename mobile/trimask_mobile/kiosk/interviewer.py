"""Interviewer mode: several respondents on one device, and a PIN between them and everything else.

A session begins on the interviewer's page (invitations, the next respondent, what is left to send) and ends on the
page for the PIN, whatever happens in between (`model.shown` has the modes).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from trimask_core.basics.errors import InvitationError, TrimaskError
from trimask_core.submit.invitation import Link
from trimask_mobile.kiosk.pin import PinLock, Unlocked, WrongPin, pin_problem
from trimask_mobile.kiosk.respondents import IDLE_MS, Respondent, Respondents
from trimask_mobile.model.answering import Answering
from trimask_mobile.model.device import Device
from trimask_mobile.model.shown import KEPT, Mode, Shown
from trimask_mobile.model.studies import Studies
from trimask_mobile.model.submissions import Submissions
from trimask_mobile.model.worker import Runner

_LINK = re.compile(r"(?:https?|trimask)://[^\s,;\"'<>]+", re.IGNORECASE)
_TOUCH_EVERY_MS = 30_000


def links_in(text: str) -> list[str]:
    """Every invitation in a text: a list of links, a table, a message."""
    return list(dict.fromkeys(_LINK.findall(text)))


class Kiosk:
    """The interviewer's page, the PIN and the sessions. `turn` gives the app another mode and another device.

    `runner` is not fenced: what an interviewer began goes on when the device changes hands. Nothing here can show what a
    respondent answered.
    """

    def __init__(
        self,
        shown: Shown,
        runner: Runner,
        answering: Answering,
        submissions: Submissions,
        studies: Studies,
        turn: Callable[[Mode, Device], None],
        cost: tuple[int, int, int],
    ) -> None:
        self._shown, self._runner = shown, runner
        self._answering, self._submissions, self._studies = answering, submissions, studies
        self._turn_app = turn
        self._main = shown.device
        self._lock = PinLock(shown.device, cost=cost)
        self._respondents: Respondents | None = None
        self._unlocked: Unlocked | None = None
        self._session = ""
        # The owner's, while a respondent has others.
        self._settings: tuple[float, str, bool] = (1.0, shown.language, False)
        self._link_before_pin = ""
        self._touched_ms = self._told_ms = 0
        self._sending_sessions = False
        self.wait_until_ms = 0
        self.pin_problem = ""
        self.keep_receipt = False
        self.said = ""
        self.lines: tuple[Respondent, ...] = ()
        self.stock: tuple[tuple[bytes, str, int], ...] = ()
        self.sent = 0
        submissions.sealing_begins = self._spend

    def _need(self) -> Respondents:
        if self._respondents is None:
            raise RuntimeError("interviews before the app has started")
        return self._respondents

    def _keep_settings(self) -> None:
        shown = self._shown
        self._settings = (shown.scale, shown.language, shown.refuse_unknown)

    def _turn(self, mode: Mode, device: Device) -> None:
        """Another mode, another device, and nothing of what was shown."""
        shown = self._shown
        self.said = self.pin_problem = ""
        self.keep_receipt = False
        if mode != "unlocked":
            self._unlocked = None
        if mode != "session":
            self._session = ""
            shown.scale, shown.language, shown.refuse_unknown = self._settings
        self._touched_ms = self._told_ms = self._main.clock.now_ms()
        self._turn_app(mode, device)

    def _enter(self, one: str, device: Device) -> None:
        self._turn("session", device)
        self._session = one

    def start(self, invited: Callable[[], str], otherwise: Callable[[], None]) -> None:
        """With a PIN set: its page, or the session that was under way; else `otherwise`. What was `invited` waits."""
        device, lock, shown = self._main, self._lock, self._shown

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
                otherwise()
                return
            self.wait_until_ms = device.clock.now_ms() + wait_ms
            self._runner.records(device.settings, lambda kept: begin(kept, session), shown.failed)

        def begin(settings: dict[str, Any], session: Any) -> None:
            shown.take_settings(settings)
            self._keep_settings()
            self._link_before_pin = invited()
            if session is None:
                self._turn("locked", device)
                shown.go("pin")
                return
            one, own, chosen, where = session
            self._enter(one, own)
            shown.take_settings(chosen)
            if where.get("study") and where.get("screen") in KEPT:
                self._studies.open_study(bytes.fromhex(where["study"]), resume=True)
            else:
                shown.go("handed")

        self._runner.records(read, done, shown.failed)

    def home(self) -> None:
        """The mode's first page. A session ends there."""
        if self._shown.mode == "session":
            self.finish()
        elif self._shown.mode == "unlocked":
            self._show_interviewing()
        else:
            self._shown.go("pin")

    def open_link(self, text: str) -> None:
        """In a session nothing comes from outside; on the page for the PIN it waits."""
        if self._shown.mode == "locked":
            self._link_before_pin = text
            self._shown.changed()
        elif self._shown.mode == "unlocked":
            self.interview_with(text)

    @property
    def link_waits(self) -> bool:
        """Whether an invitation was opened that waits for the PIN."""
        return bool(self._link_before_pin)

    # Between respondents

    def _show_interviewing(self) -> None:
        if self._shown.mode == "unlocked":
            self._shown.busy, self._shown.problem = False, None
            self._shown.go("interviewing")
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
            self._shown.changed()

        self._runner.records(read, done, self._shown.failed)

    def add_invitations(self, text: str) -> None:
        """Take every invitation of a text into the list; studies are fetched now, so that interviews need no network."""
        unlocked, respondents, lock, device = self._unlocked, self._need(), self._lock, self._main
        if unlocked is None or self._shown.busy:
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
            self.said = self._shown.words.say("interviewing.nothing")
            self._shown.changed()
            return
        self._shown.busy, self.said = True, self._shown.words.say("interviewing.fetching")
        self._shown.changed()

        def fetch() -> int:
            for link in {link.study_id: link for link in good}.values():
                if respondents.study(link.study_id) is None:
                    respondents.keep_study(device.fetch(link))
            fresh = [str(link) for link in good if str(link) not in unlocked.invitations]
            unlocked.invitations += fresh
            lock.keep(unlocked)
            return len(fresh)

        def done(added: int) -> None:
            self._shown.busy = False
            key = "interviewing.added.some" if wrong else "interviewing.added"
            self.said = self._shown.words.say(key, added=added, wrong=wrong)
            self._reload()

        self._runner.network(fetch, done, self._shown.failed)

    def interview(self, study_id: bytes) -> None:
        """The next respondent, with the next invitation of the list."""
        unlocked = self._unlocked
        if unlocked is not None:
            links = (link for link in unlocked.invitations if Link.parse(link).study_id == study_id)
            self.interview_with(next(links, ""))

    def interview_with(self, text: str) -> None:
        """The next respondent, with an invitation from the list or one that was scanned."""
        unlocked, respondents, lock = self._unlocked, self._need(), self._lock
        if unlocked is None or self._shown.busy:
            return
        try:
            link = Link.parse(text)
        except InvitationError:
            self.said = self._shown.words.say("interviewing.nothing")
            self._shown.changed()
            return
        self._shown.busy, self.said = True, self._shown.words.say("invitation.busy")
        self._shown.changed()

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
            self._shown.go("handed")

        self._runner.network(begin, done, self._shown.failed)

    def remove_line(self, one: str) -> None:
        """Remove what is left of a session: an upload that was refused, or a receipt that nobody fetched."""
        respondents = self._need()
        self._runner.records(lambda: respondents.erase(one), lambda _: self._reload(), self._shown.failed)

    def fetch_receipt(self, one: str) -> None:
        """Somebody has come back for their receipt: a session that shows it, and nothing else."""
        if self._shown.mode != "unlocked":
            return
        respondents = self._need()

        def done(found: tuple[Device, bytes]) -> None:
            device, study_id = found
            self._enter(one, device)
            self.keep_receipt = True
            self._studies.open_study(study_id)

        def read() -> tuple[Device, bytes]:
            device = respondents.fetch(one)
            return device, device.queue.studies()[0]

        self._runner.records(read, done, self._shown.failed)

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
            self._runner.network(lambda: respondents.send(now=now), over, over)

        def over(_: object) -> None:
            self._sending_sessions = False
            if self._shown.mode == "unlocked":
                self._reload()

        self._runner.records(respondents.next_ms, due, over)

    def next_ms(self) -> int | None:
        """When something of the interviewer's own or of a session is next to be sent."""
        found = self._respondents
        due = (self._main.queue.next_ms(), None if found is None else found.next_ms())
        return min((one for one in due if one is not None), default=None)

    def try_sessions(self) -> None:
        """The interviewer asks to try now."""
        self._send_sessions(now=True)

    # The PIN

    def open_interviewer(self) -> None:
        """The page on which a PIN is set."""
        self.pin_problem = ""
        self._shown.go("interviewer")

    def set_pin(self, pin: str, again: str) -> None:
        """Begin interviewer mode, or change its PIN."""
        wrong = pin_problem(pin) or ("differ" if pin != again else "")
        if wrong or self._shown.busy or self._shown.mode not in ("own", "unlocked"):
            self.pin_problem = self._shown.words.say(f"pin.wrong.{wrong}") if wrong else ""
            self._shown.changed()
            return
        before = [] if self._unlocked is None else self._unlocked.invitations
        self._shown.busy = True

        def done(unlocked: Unlocked) -> None:
            if self._shown.mode == "own":
                self._keep_settings()
            self._unlock(unlocked)

        self._runner.records(lambda: self._lock.set(pin, before), done, self._shown.failed)
        self._shown.changed()

    def unlock(self, pin: str) -> None:
        """Try a PIN."""
        if self._shown.busy or self._shown.mode != "locked" or not pin:
            return
        self._shown.busy, self.pin_problem = True, ""
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
            self._shown.busy = False
            if not isinstance(error, WrongPin):
                self._shown.failed(error)
                return
            self.wait_until_ms = self._main.clock.now_ms() + error.wait_ms
            self.pin_problem = self._shown.words.say("pin.wrong") if error.tried else ""
            self._shown.changed()

        self._runner.records(read, self._unlock, failed)
        self._shown.changed()

    def _unlock(self, unlocked: Unlocked) -> None:
        waiting = self._link_before_pin
        self._turn("unlocked", self._main)
        self._unlocked, self._link_before_pin, self.wait_until_ms = unlocked, "", 0
        self._show_interviewing()
        if waiting:
            self.interview_with(waiting)

    def lock(self) -> None:
        """Back to the page for the PIN."""
        if self._shown.mode == "unlocked":
            self._turn("locked", self._main)
            self._shown.go("pin")

    def leave_interviewer(self) -> None:
        """End interviewer mode: every session's rest is erased, and the PIN."""
        if self._shown.mode != "unlocked":
            return
        respondents, lock = self._need(), self._lock

        def erase() -> None:
            respondents.erase_all()
            lock.remove()

        def done(_: None) -> None:
            self._turn("own", self._main)
            self._studies.show_studies()

        self._runner.records(erase, done, self._shown.failed)

    # A session

    def begin_answering(self) -> None:
        """From the first page of a session to its study, or to where the respondent was."""
        device, shown = self._shown.device, self._shown
        if self._answering.participation is not None:
            self._answering.show()
            return
        shown.runner.records(lambda: device.queue.studies()[0], self._studies.open_study, shown.failed)

    def _spend(self) -> None:
        """From here on the invitation is this respondent's for ever."""
        if self._shown.mode == "session":
            respondents, one = self._need(), self._session
            self._runner.records(lambda: respondents.spend(one), lambda _: None, self._shown.failed)

    def choose_keep(self, keep: bool) -> None:
        """Whether the respondent's receipt stays here until they fetch it."""
        respondents, one = self._need(), self._session
        if self._shown.mode == "session":
            self.keep_receipt = keep
            self._runner.records(
                lambda: respondents.choose(one, keep=keep), lambda _: None, self._shown.failed
            )
            self._shown.changed()

    @property
    def sealing(self) -> bool:
        """While answers are being sealed a session cannot end: neither the draft nor the payload would be whole."""
        return self._shown.screen == "sending" and self._submissions.item is None

    def finish(self) -> None:
        """The respondent hands the device back."""
        if self._shown.mode != "session" or self.sealing:
            return
        respondents, one, device = self._need(), self._session, self._shown.device
        self._turn("locked", self._main)
        self._shown.go("pin")

        def end() -> None:
            respondents.end(one)
            device.close()

        self._runner.records(end, lambda _: self._send_sessions(now=True), self._shown.failed)

    # Time

    def touched(self) -> None:
        """Somebody is there."""
        self._touched_ms = now = self._main.clock.now_ms()
        if self._shown.mode == "session" and now - self._told_ms > _TOUCH_EVERY_MS:
            self._told_ms, respondents, one = now, self._need(), self._session
            self._runner.records(lambda: respondents.touch(one), lambda _: None, self._shown.failed)

    def tick(self) -> None:
        """What sessions have left is sent when due; what nobody has touched for ten minutes is handed back."""
        if (
            self._shown.mode in ("session", "unlocked")
            and self._main.clock.now_ms() - self._touched_ms >= IDLE_MS
        ):
            (self.finish if self._shown.mode == "session" else self.lock)()
        if self._shown.mode != "own":
            self._send_sessions(now=False)
            if self._shown.screen in ("pin", "interviewing"):
                self._shown.changed()
