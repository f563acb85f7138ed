"""Interviewer mode without a window: who can reach what, what is left after a session, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from trimask_app_model import AtOnce, fill, to_questions
from trimask_client import Endpoint, Unreachable, device_key
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.submit.invitation import Invitation, Link
from trimask_core.submit.submission import receipt_message
from trimask_mobile.kiosk.interviewer import links_in
from trimask_mobile.kiosk.respondents import IDLE_MS, send_sessions
from trimask_mobile.model.device import Device
from trimask_mobile.model.navigation import Guide
from trimask_mobile.model.shown import FIRST, REACHED, ScreenName
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse

PIN = "271828"
NAME = "Ada Lovelace"


class Providers:
    """Right providers that sign, refuse or cannot be reached."""

    def __init__(self, made: Any) -> None:
        self.made, self.online, self.refuses = made, True, False
        self.rows: dict[str, set[bytes]] = {}

    def call(self, endpoint: Endpoint, method: str, request: bytes, _timeout: float) -> bytes:
        role = endpoint.tls_name.split(".")[0].upper()
        if not self.online or not method.endswith("/Submit"):
            raise Unreachable("no network")
        if self.refuses:
            raise Refused(Reason.INVITATION_USED, "used before")
        message = SubmitRequest.FromString(request)
        self.rows.setdefault(role, set()).add(message.submission_id)
        signed = receipt_message(message.study_id, message.submission_id, message.sealed_component, 5)
        signature = self.made.identities[role].sign("receipt", signed)
        return SubmitResponse(receive_time_ms=5, signature=signature).SerializeToString()

    def close(self) -> None:
        """Nothing is open."""


class Field:
    """A device, the providers of a study for invited people, and an interviewer with a list of invitations."""

    def __init__(self, made: Any, folder: Path) -> None:
        self.made, self.home = made, folder / "phone"
        self.providers, self.clock = Providers(made), ManualClock(1_800_000_000_000)
        self.guide = self.start()

    def start(self) -> Guide:
        """The app, started (again)."""
        device = Device(self.home, transport=self.providers, clock=self.clock)
        device.fetch = lambda _link: self.made.signed  # type: ignore[method-assign]
        self.guide = Guide(device, AtOnce(), lambda: None, cost=(4, 8, 1))
        self.guide.start()
        return self.guide

    def invitation(self) -> str:
        study = self.made.study
        made = Invitation.draw(study.id, self.clock.now_ms() + 86_400_000, SystemRandom())
        return str(Link("127.0.0.1:1", study.id, made.signed_with(self.made.identities["owner"])))

    def set_up(self, invitations: int = 3) -> Guide:
        guide = self.guide
        guide.shown.open_settings()
        guide.kiosk.open_interviewer()
        guide.kiosk.set_pin(PIN, PIN)
        guide.kiosk.add_invitations("\n".join(self.invitation() for _ in range(invitations)))
        return guide

    def begin(self) -> Guide:
        """Hand the device to a respondent, who goes on to the study."""
        self.guide.kiosk.interview(self.made.study.id)
        assert (self.guide.shown.mode, self.guide.shown.screen) == ("session", "handed")
        return self.guide

    def answer(self) -> dict[str, Any]:
        """From the first page of a session until it is sent."""
        self.guide.kiosk.begin_answering()
        assert self.guide.shown.screen == "study"
        self.guide.answering.next()
        self.guide.answering.agree(True)
        self.guide.answering.sign_name(NAME)
        self.guide.answering.next()
        return fill(self.guide)

    def kept(self) -> list[Path]:
        """What there is of respondents."""
        folder = self.home / "respondents"
        return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


@pytest.fixture
def field(make_study: Callable[..., Any], tmp_path: Path) -> Field:
    return Field(make_study(label="field", admission="invited"), tmp_path)


def test_a_pin_begins_it_and_the_app_starts_locked(field: Field) -> None:
    guide = field.guide
    guide.shown.open_settings()
    guide.kiosk.open_interviewer()
    for pin, again, said in (
        ("123456", "123456", "first a stranger"),
        (PIN, "271829", "differ"),
        ("12", "12", "6 to 12"),
    ):
        guide.kiosk.set_pin(pin, again)
        assert (guide.shown.mode, guide.shown.screen) == ("own", "interviewer")
        assert said in guide.kiosk.pin_problem
    guide.kiosk.set_pin(PIN, PIN)
    assert (guide.shown.mode, guide.shown.screen) == ("unlocked", "interviewing")
    again = field.start()
    assert (again.shown.mode, again.shown.screen) == ("locked", "pin")
    again.kiosk.unlock("000111")
    assert (again.shown.mode, again.kiosk.pin_problem) == ("locked", "This is not the PIN.")
    again.kiosk.unlock(PIN)
    assert again.shown.screen == "interviewing"
    again.kiosk.lock()
    assert again.shown.screen == "pin"


def test_three_respondents_one_after_the_other_and_nothing_is_left(field: Field) -> None:
    guide = field.set_up(3)
    assert guide.kiosk.stock[0][2] == 3
    for left in (2, 1, 0):
        field.begin()
        assert guide.submissions.items == ()
        field.answer()
        assert (guide.shown.screen, guide.submissions.item is not None and guide.submissions.item.state) == (
            "receipt",
            "sent",
        )
        assert guide.submissions.receipt_link  # to be read by the respondent's own phone
        guide.home()
        assert (guide.shown.mode, guide.shown.screen) == ("locked", "pin")
        assert field.kept() == []
        guide.kiosk.unlock(PIN)
        assert (guide.kiosk.stock[0][2] if guide.kiosk.stock else 0) == left
    assert (guide.kiosk.sent, guide.kiosk.lines) == (3, ())
    assert [len(rows) for rows in field.providers.rows.values()] == [3, 3, 3]  # three people, not one


@pytest.mark.parametrize("mode", ["locked", "session", "unlocked"])
def test_no_page_of_another_can_be_reached(field: Field, mode: Any) -> None:
    """Whatever page is asked for, in every mode; and the interviewer's own study is on none that a respondent sees."""
    field.guide.shown.device.queue.join(field.made.signed)
    field.guide.home()
    assert len(field.guide.submissions.items) == 1
    guide = field.set_up(1)
    if mode == "session":
        field.begin()
    elif mode == "locked":
        guide.kiosk.lock()
    for screen in get_args(ScreenName):
        guide.shown.go(screen)
        assert guide.shown.screen == (screen if screen in REACHED[mode] else FIRST[mode])
        assert guide.submissions.items == ()
    assert not REACHED["session"] & {
        "studies",
        "invitation",
        "interviewing",
        "interviewer",
        "institutions",
        "remove",
    }
    assert REACHED["locked"] == {"pin", "settings", "problem"}


def test_a_respondent_can_do_nothing_to_the_rest(field: Field) -> None:
    guide = field.set_up(2)
    field.begin()
    other = field.invitation()
    for attempt in (
        lambda: guide.open_link(other), lambda: guide.kiosk.unlock(PIN), guide.kiosk.lock, guide.kiosk.leave_interviewer,
        lambda: guide.kiosk.interview(field.made.study.id), lambda: guide.kiosk.interview_with(other),
        lambda: guide.kiosk.add_invitations(other), lambda: guide.kiosk.set_pin("314159", "314159"),
        lambda: guide.kiosk.fetch_receipt("00"), guide.institutions.open_institutions, guide.studies.open_invitation,
    ):  # fmt: skip
        attempt()
        assert guide.shown.mode == "session"
        assert guide.shown.screen == "handed"
    assert guide.kiosk._unlocked is None  # neither the list nor its key is in memory
    assert guide.back()  # the app does not close, and shows the same page
    assert guide.shown.screen == "handed"


def test_the_next_respondent_begins_afresh(field: Field) -> None:
    guide = field.set_up(2)
    field.begin()
    guide.shown.choose_scale(2.0)
    guide.choose_language("de")
    field.answer()
    guide.kiosk.finish()
    assert (guide.shown.scale, guide.answering.language) == (1.0, "en")
    guide.kiosk.unlock(PIN)
    field.begin()
    guide.kiosk.begin_answering()
    part = guide.answering.participation
    assert part is not None
    assert (part.name, part.agreed, part.responses, part.language, guide.shown.scale) == (
        "",
        False,
        {},
        "en",
        1.0,
    )
    assert (guide.answering.consent, guide.submissions.item) == (None, None)


def test_who_stops_leaves_nothing_and_the_invitation_is_used_again(field: Field) -> None:
    guide = field.set_up(1)
    field.begin()
    guide.kiosk.begin_answering()
    guide.answering.next()
    guide.answering.agree(True)
    guide.answering.sign_name(NAME)
    guide.answering.next()
    guide.answering.answer("age", "44")
    assert field.kept()
    guide.kiosk.finish()
    assert (guide.shown.screen, field.kept()) == ("pin", [])
    assert field.providers.rows == {}
    guide.kiosk.unlock(PIN)
    assert guide.kiosk.stock[0][2] == 1
    field.begin()
    field.answer()
    assert guide.submissions.item is not None
    assert guide.submissions.item.state == "sent"


def test_what_waits_is_sealed_and_goes_once_it_is_accepted(field: Field) -> None:
    guide = field.set_up(2)
    field.providers.online = False  # a village without a network; the study was fetched with the list
    field.begin()
    field.answer()
    assert (guide.shown.screen, guide.submissions.item is not None and guide.submissions.item.state) == (
        "sending",
        "waiting",
    )
    assert not guide.kiosk.keep_receipt
    guide.kiosk.finish()
    kinds = {path.parent.name for path in field.kept() if not path.name.endswith(".lock")}
    assert {"payloads", "studies"} <= kinds
    assert not kinds & {"drafts", "held", "consents", "receipts"}  # the answers and the name are gone
    again = field.start()
    assert again.shown.screen == "pin"
    again.kiosk.unlock(PIN)
    (line,) = again.kiosk.lines
    assert (line.state, line.kept) == ("waiting", False)
    assert again.kiosk.stock[0][2] == 1
    again.kiosk.lock()
    field.providers.online = True
    field.clock.advance(7 * 3600)
    again.tick()  # on the page for the PIN, whoever has the device
    assert field.kept() == []
    again.kiosk.unlock(PIN)
    assert (again.kiosk.lines, again.kiosk.sent) == ((), 1)


def test_a_job_without_the_app_sends_what_sessions_have_left(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = field.set_up(1)
    field.providers.online = False
    field.begin()
    field.answer()
    assert guide.something_waits()
    guide.kiosk.finish()
    assert guide.something_waits()
    monkeypatch.setattr("trimask_mobile.model.device.H2Transport", lambda: field.providers)
    key = device_key(field.home / "device.key")
    assert send_sessions(field.home, key)  # comes again
    field.providers.online = True
    assert not send_sessions(field.home, key)
    assert field.kept() == []
    assert not guide.something_waits()


def test_a_receipt_is_kept_for_who_asks_and_handed_over_later(field: Field) -> None:
    guide = field.set_up(1)
    field.providers.online = False
    field.begin()
    field.answer()
    guide.kiosk.choose_keep(True)
    guide.kiosk.finish()
    field.providers.online = True
    guide.kiosk.unlock(PIN)
    guide.kiosk.try_sessions()
    (line,) = guide.kiosk.lines
    assert (line.state, line.kept) == ("sent", True)
    guide.kiosk.fetch_receipt(line.id)
    assert (guide.shown.mode, guide.shown.screen) == ("session", "receipt")
    assert guide.submissions.receipt_link
    assert guide.submissions.item is not None
    assert guide.submissions.item.entry is not None
    assert guide.submissions.item.entry.submission_id.hex().upper().startswith(line.number.replace(" ", ""))
    guide.kiosk.choose_keep(False)
    guide.kiosk.finish()
    assert field.kept() == []
    guide.kiosk.unlock(PIN)
    assert (guide.kiosk.lines, guide.kiosk.sent) == ((), 1)


def test_a_refusal_is_told_to_the_respondent_and_later_to_the_interviewer_without_answers(
    field: Field,
) -> None:
    guide = field.set_up(1)
    field.providers.refuses = True
    field.begin()
    answered = field.answer()
    assert guide.submissions.item is not None
    assert guide.submissions.item.state == "refused"
    assert "This invitation was used before" in guide.submissions.item.why(guide.shown.words)
    guide.studies.answer_again()  # their answers are not lost while they are there
    assert guide.answering.participation is not None
    assert guide.answering.participation.responses == answered
    guide.submissions.send()
    guide.kiosk.finish()
    assert not {path.parent.name for path in field.kept()} & {"drafts", "held", "consents"}
    guide.kiosk.unlock(PIN)
    (line,) = guide.kiosk.lines
    assert (line.state, line.causes) == ("refused", (("Org R1", "invitation_used"),))
    guide.kiosk.remove_line(line.id)
    assert (guide.kiosk.lines, field.kept(), guide.kiosk.stock) == ((), [], ())


def test_a_session_goes_on_after_a_crash_and_is_deleted_when_nobody_is_there(field: Field) -> None:
    guide = field.set_up(1)
    field.begin()
    guide.kiosk.begin_answering()
    guide.answering.next()
    guide.answering.agree(True)
    guide.answering.sign_name(NAME)
    guide.answering.next()
    guide.answering.answer("age", "44")
    again = field.start()
    assert (again.shown.mode, again.shown.screen) == ("session", "question")
    assert again.answering.participation is not None
    assert again.answering.participation.responses == {"age": "44"}
    field.clock.advance(IDLE_MS / 1000)
    late = field.start()
    assert (late.shown.mode, late.shown.screen, field.kept()) == ("locked", "pin", [])
    late.kiosk.unlock(PIN)
    field.begin()
    late.kiosk.begin_answering()
    field.clock.advance(IDLE_MS / 1000 - 1)
    late.tick()
    assert late.shown.mode == "session"
    late.kiosk.touched()
    field.clock.advance(2)
    late.tick()
    assert late.shown.mode == "session"
    field.clock.advance(IDLE_MS / 1000)
    late.tick()
    assert (late.shown.mode, late.shown.screen, field.kept()) == ("locked", "pin", [])
    late.kiosk.unlock(PIN)
    field.clock.advance(IDLE_MS / 1000)
    late.tick()
    assert late.shown.mode == "locked"  # an interviewer who left it lying, too


def test_who_may_not_take_part_leaves_nothing(field: Field) -> None:
    from trimask_mobile.model.problem import Problem

    guide = field.set_up(1)
    field.begin()
    guide.kiosk.begin_answering()
    guide.answering._forget_person()
    guide.shown.stop(Problem("ineligible"))
    assert guide.shown.words.say("problem.studies") == "Finish and hand back"
    guide.home()
    assert (guide.shown.screen, field.kept()) == ("pin", [])


def test_a_result_that_comes_late_is_not_shown_to_the_next(field: Field) -> None:
    """What a session asked for comes when it is over: it appears neither on the page for the PIN nor to the next."""
    guide = field.set_up(2)
    field.begin()
    late: list[Callable[[], None]] = []
    inner = guide.shown.runner._inner  # type: ignore[attr-defined]

    def slow(job: Callable[[], Any], done: Callable[[Any], None], _failed: object) -> None:
        result = job()
        late.append(lambda: done(result))

    inner.records = slow
    guide.studies.open_study(field.made.study.id)
    inner.records = AtOnce().records
    guide.kiosk.finish()
    (call,) = late
    call()
    assert (guide.shown.screen, guide.answering.participation, guide.studies.opened) == ("pin", None, None)
    guide.kiosk.unlock(PIN)
    field.begin()
    call()
    assert (guide.shown.screen, guide.answering.participation, guide.studies.opened) == ("handed", None, None)


def test_a_link_opened_while_locked_begins_the_next_interview(field: Field) -> None:
    guide = field.set_up(0)
    guide.kiosk.lock()
    guide.open_link(field.invitation())
    assert (guide.shown.screen, guide.kiosk.link_waits) == ("pin", True)
    guide.kiosk.unlock(PIN)
    assert (guide.shown.mode, guide.shown.screen) == ("session", "handed")


def test_leaving_erases_everything_about_interviews(field: Field) -> None:
    guide = field.set_up(2)
    field.providers.online = False
    field.begin()
    field.answer()
    guide.kiosk.finish()
    guide.kiosk.unlock(PIN)
    assert len(guide.kiosk.lines) == 1
    guide.kiosk.leave_interviewer()
    assert (guide.shown.mode, guide.shown.screen, field.kept()) == ("own", "studies", [])
    vault = guide.shown.device.vault
    assert not any(vault.names(kind) for kind in ("interviewer", "respondents", "returned", "interviews"))
    assert field.start().shown.screen == "studies"


def test_a_crash_between_list_and_session_neither_loses_an_invitation_nor_has_it_twice(field: Field) -> None:
    guide = field.set_up(1)
    respondents = guide.kiosk._need()
    unlocked = guide.kiosk._unlocked
    assert unlocked is not None
    (link,) = unlocked.invitations
    respondents.stage(link)  # and the app ends here
    again = field.start()
    again.kiosk.unlock(PIN)
    assert again.kiosk.stock[0][2] == 1


def test_links_in_a_list() -> None:
    text = 'nr;link\n1;"https://a.example/s/x#y",\n2;trimask://b.example:1/join/z\n\nhttps://a.example/s/x#y no more'
    assert links_in(text) == ["https://a.example/s/x#y", "trimask://b.example:1/join/z"]


def test_to_questions_is_unchanged_for_ones_own_studies(field: Field) -> None:
    field.guide.shown.device.queue.join(field.made.signed, None, Link.parse(field.invitation()).invitation)
    field.guide.home()
    to_questions(field.guide)
    assert field.guide.shown.screen == "question"
    assert field.guide.shown.words.say("consent.stays").startswith("Your name stays on this device")
