"""The way through the app without a window: the guide over a real queue, a transport that answers or does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from trimask_app_model import AtOnce, Offline, fill, to_questions
from trimask_client import Endpoint, Unreachable
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import ApprovalError, Refused, StudyError, TrimaskError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.basics.refusals import Reason, Status, Unlisted
from trimask_core.crypto.keys import SigningKey
from trimask_core.form.file import read_form
from trimask_core.form.font_coverage import _APP_LETTERS
from trimask_core.form.form import Form
from trimask_core.form.kinds import Control
from trimask_core.form.parse_input import month_names
from trimask_core.study.party import Web
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.institutions import Directory, Institution
from trimask_core.submit.invitation import Invitation, Link
from trimask_mobile.model import words as catalogue_module
from trimask_mobile.model.answering import CONSENT
from trimask_mobile.model.device import Device, page_of
from trimask_mobile.model.navigation import Guide
from trimask_mobile.model.participation import Participation
from trimask_mobile.model.problem import Problem, explain
from trimask_mobile.model.study_list import spent_words
from trimask_mobile.model.words import LANGUAGES, catalogue, listed_months
from trimask_mobile.model.worker import Workers


@pytest.fixture
def start(tmp_path: Path, signed_study: SignedStudy) -> Callable[[], Guide]:
    """The app on a phone without network that has joined a study without a form of its own."""

    def make() -> Guide:
        device = Device(tmp_path / "phone", transport=Offline(), clock=ManualClock(1_800_000_000_000))
        device.queue.join(signed_study)
        guide = Guide(device, AtOnce(), lambda: None)
        guide.start()
        return guide

    return make


def test_a_study_without_a_form_gets_a_plain_one(start: Callable[[], Guide]) -> None:
    guide = start()
    assert guide.shown.screen == "studies"
    part = to_questions(guide)
    assert guide.shown.screen == "question"
    assert part.page.questions[0].label == "Age"
    assert part.consent.version == "app-2"
    kept = guide.shown.device.consent(part.study_id)
    assert kept is not None
    assert kept.text_hash == part.consent.hash.hex()
    assert kept.name == "Ada Lovelace"


def test_what_a_consent_lacks_is_said(start: Callable[[], Guide]) -> None:
    """The button is never grey; what is missing is said, and less of it at once; one letter is a name."""
    guide = start()
    guide.studies.show(guide.submissions.items[0])
    answering = guide.answering
    answering.next()
    for agreed, name, lacks in (
        (False, "", "tick that you agree and write your name"),
        (True, " ", "write your name"),
        (False, "Ada", "tick that you agree"),
    ):
        answering.agree(agreed)
        answering.sign_name(name)
        answering.next()
        assert answering.problems == {CONSENT: f"Before you go on, please do this: {lacks}."}
        assert guide.shown.screen == "consent"
        assert guide.shown.device.consent(guide.submissions.items[0].study_id) is None
    answering.agree(True)
    assert answering.problems == {}
    answering.sign_name("Ö")
    answering.next()
    assert guide.shown.screen != "consent"


def test_a_consent_in_another_language_must_be_read_again(start: Callable[[], Guide]) -> None:
    guide = start()
    guide.studies.show(guide.submissions.items[0])
    guide.answering.next()
    assert guide.answering.participation is not None
    guide.answering.participation.form = Form(("en", "de"), guide.answering.participation.form.questions)
    guide.answering.agree(True)
    guide.choose_language("de")
    assert not guide.answering.participation.agreed


def test_back_leads_the_same_way_and_forgets_nothing(start: Callable[[], Guide]) -> None:
    guide = start()
    part = to_questions(guide)
    guide.answering.answer("age", "44")
    guide.answering.next()
    assert part.page.questions[0].name == "bmi"
    trail = []
    while guide.shown.screen != "studies":
        trail.append((guide.shown.screen, part.at))
        assert guide.back()
    assert trail == [("question", "bmi"), ("question", "age"), ("consent", ""), ("study", "")]
    assert not guide.back()  # from the list, the app may close
    guide.studies.show(guide.submissions.items[0])
    assert guide.answering.participation is not None
    assert guide.answering.participation.responses == {"age": "44"}


def test_sending_without_network_waits_and_says_why(start: Callable[[], Guide]) -> None:
    guide = start()
    part = to_questions(guide)
    for name, value in (("age", "44"), ("bmi", "25"), ("smoker", "no"), ("region", "south")):
        assert part.page.questions[0].name == name
        guide.answering.answer(name, value)
        guide.answering.next()
    assert guide.shown.screen == "review"
    guide.submissions.send()
    assert guide.shown.screen == "sending"
    assert guide.submissions.sending is not None
    assert (
        guide.submissions.sending.mask,
        guide.submissions.sending.split,
        guide.submissions.sending.upload,
    ) == ("done", "done", "later")
    assert guide.submissions.sending.entry is not None
    assert guide.submissions.sending.entry.state == "waiting"
    assert "no network" in guide.submissions.sending.entry.why
    assert guide.shown.device.queue.draft(part.study_id) is None  # the answers themselves are gone
    guide.home()
    (line,) = guide.submissions.items
    assert line.state == "waiting"
    assert "0 of 3 institutions" in line.words(guide.shown.words, guide.shown.device.clock.now_ms())
    assert start().submissions.items[0].state == "waiting"
    again = start()
    again.studies.open_study(part.study_id)
    assert again.shown.screen == "sending"  # never answered a second time


class Empty:
    """Every institution answers, and none with a receipt."""

    def call(self, *_: object) -> bytes:
        return b""

    def close(self) -> None:
        pass


def test_repro_an_answer_without_a_receipt_is_not_called_received(
    tmp_path: Path, signed_study: SignedStudy
) -> None:
    """A changed program: the mark was set while others were asked, and it was "not reached" afterwards."""
    seen: set[str] = set()

    def changed() -> None:
        if guide.submissions.sending is not None:
            seen.update(one.state for one in guide.submissions.sending.uploads)

    device = Device(tmp_path / "phone", transport=Empty(), clock=ManualClock(1_800_000_000_000))
    device.queue.join(signed_study)
    guide = Guide(device, AtOnce(), changed)
    guide.start()
    to_questions(guide)
    fill(guide)
    assert guide.submissions.sending is not None
    assert seen == {"waiting", "busy", "later"}
    assert {one.cause for one in guide.submissions.sending.uploads} == {"untrusted"}


def test_a_wrong_answer_found_at_the_end_is_shown_where_it_is(start: Callable[[], Guide]) -> None:
    guide = start()
    part = to_questions(guide)
    part.responses.update(age="44", bmi="999", smoker="no", region="south")
    part.step, part.at = "review", ""
    guide.submissions.send()
    assert (guide.shown.screen, part.at) == ("question", "bmi")
    assert "between" in guide.answering.problems["bmi"]
    guide.answering.answer("bmi", "30")
    assert guide.answering.problems["bmi"] == ""
    guide.answering.next()
    assert guide.shown.screen == "review"


def test_settings_are_kept(start: Callable[[], Guide]) -> None:
    guide = start()
    guide.shown.choose_scale(1.75)
    guide.choose_language("de")
    again = start()
    assert again.shown.scale == 1.75
    assert again.shown.words.say("next") == "Weiter"


def test_a_directory_is_added_once_it_is_compared_and_others_can_be_refused(
    start: Callable[[], Guide], signed_study: SignedStudy
) -> None:
    guide = start()
    guide.shown.open_settings()
    guide.institutions.open_institutions()
    guide.institutions.paste_directory("not a directory")
    assert guide.institutions.pasted_directory is None
    assert guide.institutions.directory_problem
    keeper = SigningKey.generate(SystemRandom())
    every = tuple(Institution(role, party.identity) for role, party in signed_study.study.parties.items())
    book = Directory("A university", keeper.public, every[1:]).signed_with(keeper)
    forged = book.to_json().replace("A university", "Another one")
    guide.institutions.paste_directory(forged)  # its signature does not hold
    assert guide.institutions.pasted_directory is None
    guide.institutions.paste_directory(book.to_json())
    assert guide.institutions.directories == ()  # not before the person says so
    guide.institutions.add_directory()
    assert [found.keeper for found in guide.institutions.directories] == ["A university"]
    guide.institutions.choose_unknown(True)
    assert guide.back()
    assert guide.shown.screen == "settings"
    with pytest.raises(StudyError, match=f"does not know .*{every[0].name}"):
        start()  # which joins the study; the app has kept both
    guide.institutions.paste_directory(
        Directory("A university", keeper.public, every).signed_with(keeper).to_json()
    )
    guide.institutions.add_directory()  # in the older one's place
    again = start()
    assert again.shown.refuse_unknown
    assert [len(found.institutions) for found in again.institutions.directories] == [len(every)]


def test_a_draft_of_another_program_begins_at_the_beginning(start: Callable[[], Guide]) -> None:
    guide = start()
    study_id = guide.submissions.items[0].study_id
    guide.shown.device.queue.save_draft(study_id, {"age": 44})
    guide.home()
    guide.studies.show(guide.submissions.items[0])
    assert guide.shown.screen == "study"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApprovalError("x"), "unapproved"),
        (StudyError("x"), "untrusted"),
        (Unreachable("x"), "offline"),
        (Refused(Reason.STUDY_CLOSED, "x"), "closed"),
        (Refused(Reason.INVITATION_EXPIRED, "x"), "expired"),
        (Refused(Unlisted("quite_new", Status.FAILED_PRECONDITION), "x"), "refused"),
        (TrimaskError("x"), "other"),
    ],
)
def test_every_error_has_words(error: TrimaskError, kind: str) -> None:
    problem = explain(error)
    assert problem.kind == kind
    for language in LANGUAGES:
        words = catalogue(language)
        assert all(problem.said(words))


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.told])
def test_a_refusal_is_told_in_every_language(reason: Reason) -> None:
    """Every reason a device may meet has a title, a text and an advice of its own, and a way on where there is one."""
    problem = explain(Refused(reason, "x"))
    assert problem.kind == reason.told != "refused"
    assert problem.again == (not reason.final)
    for language in LANGUAGES:
        words = catalogue(language)
        assert all(problem.said(words))


def test_catalogues_have_the_same_texts_with_the_same_values() -> None:
    import string

    def fields(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    first = catalogue("en").words
    for language in LANGUAGES:
        words = catalogue(language).words
        assert words.keys() == first.keys()
        for key, text in words.items():
            assert fields(text) == fields(first[key]), key
    assert catalogue("pt-BR").language == "en"
    assert catalogue("de_AT").language == "de"


def test_months_have_names_in_every_language_the_app_can_write() -> None:
    table = json.loads(
        (Path(catalogue_module.__file__).parents[1] / "words" / "months.json").read_text("utf-8")
    )
    assert set(LANGUAGES) < set(table)
    assert {"fr", "pl", "cs", "el", "ru", "uk", "tr", "vi", "sw", "pt", "lt", "fi"} < set(table)
    for language, names in table.items():
        assert len(set(names)) == 12, language
        assert not {letter for name in names for letter in name if ord(letter) not in _APP_LETTERS}, language
    for language in ("en", "de", "fr", "es"):  # which core names too, and reads
        assert listed_months(language) == month_names(language)
    assert listed_months("pl-PL")[4] == "maj"
    assert listed_months("el")[0] == "Ιανουάριος"
    assert listed_months("am")[0] == "01"


def test_no_text_is_left_over() -> None:
    """Every text of the app's own is used by a screen or the model, by its name or by the beginning a name is made of."""
    root = Path(__file__).parents[2] / "mobile" / "trimask_mobile"
    sources = "".join(path.read_text() for path in root.rglob("*") if path.suffix in (".py", ".kv"))
    made = ("shelf.", "problem.", "receipt.", "sending.", "when.", "studies.spent.", "date.")
    made += ("session.", "locked.", "unlocked.", "interviewing.", "pin.wrong.", "cause.", "remove.")
    made += ("rows.promise.", "moments.promise.", "moments.picture.result.")
    for key in json.loads((root / "words" / "en.json").read_text()):
        assert f"'{key}'" in sources or f'"{key}"' in sources or key.startswith(made), key


def test_problem_words_exist_for_every_kind() -> None:
    words = catalogue("en")
    kinds = {key.split(".")[1] for key in words.words if key.startswith("problem.") and key.count(".") == 2}
    for kind in kinds - {"host"}:  # the page's, with values of its own
        problem = Problem(kind)
        assert all(problem.said(words))


def test_studies_the_device_answered(start: Callable[[], Guide], answers: Any) -> None:
    guide = start()
    study_id = guide.submissions.items[0].study_id
    guide.shown.device.queue.seal(study_id, answers)
    guide.home()
    assert [line.state for line in guide.submissions.items] == ["waiting"]
    told = spent_words(guide.submissions.items, guide.shown.words)
    study = guide.submissions.items[0].study
    assert study is not None
    assert study.protection.public is not None
    assert told.startswith("Towards everybody, for the study you answered: weak. Somebody who knows all but")
    # Nine such studies: adding up what each of them says is the most it can be.
    many = spent_words(guide.submissions.items * 9, guide.shown.words)
    assert "the 9 studies you answered" in many
    guide.studies.show(guide.submissions.items[0])
    guide.submissions.withdraw()
    assert guide.shown.screen == "receipt"
    assert guide.submissions.item is not None
    assert guide.submissions.item.state == "withdrawn"  # nothing had left the device
    assert spent_words([guide.submissions.item], guide.shown.words) == ""


def test_a_link_that_comes_before_the_app_has_read_its_records_is_opened(
    tmp_path: Path, signed_study: SignedStudy
) -> None:
    device = Device(tmp_path / "phone", transport=Offline(), clock=ManualClock(1_800_000_000_000))
    guide = Guide(device, AtOnce(), lambda: None)
    guide.open_link("trimask://nowhere")
    assert guide.shown.screen == "starting"
    guide.start()
    assert guide.shown.screen == "invitation"
    assert "not whole" in guide.studies.link_problem


def test_a_slow_provider_is_not_asked_twice_at_once(start: Callable[[], Guide], answers: Any) -> None:
    guide = start()
    guide.shown.device.queue.seal(guide.submissions.items[0].study_id, answers)
    waiting: list[Callable[[], None]] = []
    runner = AtOnce()
    runner.network = lambda job, done, failed: waiting.append(  # type: ignore[method-assign]
        lambda: AtOnce().records(job, done, failed)
    )
    guide.shown.runner = runner
    for _ in range(5):
        guide.tick()
    guide.submissions.try_now()
    assert len(waiting) == 1
    waiting.pop()()
    assert guide.submissions.items[0].state == "waiting"
    guide.tick()
    assert waiting == []  # its time has not come
    guide.shown.device.clock.advance(60)  # type: ignore[attr-defined]
    guide.tick()
    assert len(waiting) == 1


def test_a_form_in_a_language_the_app_has_not(start: Callable[[], Guide]) -> None:
    """The form's own words in its language, the app's in English."""
    from trimask_core.form.texts import Texts
    from trimask_mobile.model.study_page_text import tell

    guide = start()
    guide.studies.show(guide.submissions.items[0])
    assert guide.studies.opened is not None
    question = replace(
        guide.studies.opened.form.questions[0], label=Texts((("en", "Age"), ("fr", "\u00c2ge"))), unit=None
    )
    form = Form(("en", "fr"), (question,), title=Texts((("en", "Health"), ("fr", "Sant\u00e9"))))
    story = tell(guide.studies.opened.study, form, catalogue("fr"), "fr")
    assert story.title == "Sant\u00e9"
    assert "parts" in story.way


@pytest.mark.parametrize(("languages", "screen"), [(("ar",), "problem"), (("ar", "en"), "study")])
def test_a_form_the_app_cannot_show_is_refused_before_anything_is_asked(
    tmp_path: Path, make_study: Callable[..., Any], languages: tuple[str, ...], screen: str
) -> None:
    from trimask_core.form.form import Question
    from trimask_core.form.texts import Texts
    from trimask_core.study.schema import Attribute, Schema

    label = Texts(tuple((tag, "العمر" if tag == "ar" else "Age") for tag in languages))
    form = Form(languages, (Question("age", "integer", label, minimum=0.0, maximum=9.0),))
    made = make_study(schema=Schema((Attribute("age", "integer", 0, 9),)), form=form)
    device = Device(tmp_path / "phone", transport=Offline(), clock=ManualClock(1_800_000_000_000))
    device.queue.join(made.signed)
    guide = Guide(device, AtOnce(), lambda: None, "ar")
    guide.start()
    guide.studies.show(guide.submissions.items[0])
    assert guide.shown.screen == screen
    if screen == "problem":
        assert guide.shown.problem is not None
        assert (guide.shown.problem.kind, guide.shown.problem.detail) == ("unshowable", "ar")
    else:
        assert (guide.answering.languages, guide.answering.language) == (("en",), "en")


def test_where_a_screen_reader_is_on_the_study_is_opened_in_the_browser(
    start: Callable[[], Guide], signed_study: SignedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide, browsed = start(), []
    shown, device = guide.shown, guide.shown.device
    page = str(Link("https://survey.example", signed_study.study.id))
    shown.browse, shown.reads_aloud = browsed.append, lambda: True
    guide.open_link(page)
    assert (browsed, shown.screen, guide.studies.link_text) == ([page], "problem", "")
    assert shown.problem is not None
    assert (shown.problem.kind, shown.problem.page) == ("aloud", page)
    guide.home()
    guide.studies.show(guide.submissions.items[0])  # it has no page: better here than nowhere
    assert (browsed, shown.screen) == ([page], "study")
    opened = device.open(signed_study.study.id)
    monkeypatch.setattr(Device, "open", lambda *_: replace(opened, page=page))
    guide.home()
    guide.studies.show(guide.submissions.items[0])
    assert (browsed, shown.screen) == ([page, page], "problem")
    begun = {**(opened.draft or {}), "step": "consent"}
    monkeypatch.setattr(Device, "open", lambda *_: replace(opened, page=page, draft=begun))
    guide.home()
    guide.studies.show(guide.submissions.items[0])  # what was begun here stays here
    assert (len(browsed), shown.screen) == (2, "consent")
    shown.mode = "session"
    assert not guide.studies._in_browser(page)  # of whoever has the device just now nothing leaves the app


def test_a_study_s_page_is_where_the_study_says_with_the_invitation() -> None:
    study_id, seconds = bytes(range(32)), 1_800_000_000_000
    invitation = Invitation(study_id, bytes(16), seconds, bytes(64))
    link = Link.parse(
        page_of(Web(("https://a.example", "https://b.example"), "0" * 64), study_id, invitation)
    )
    assert (link.address, link.study_id, link.invitation) == ("https://a.example", study_id, invitation)
    assert page_of(None, study_id, invitation) == ""


def test_eligibility_before_consent_where_the_study_says_so() -> None:
    form = read_form(
        {
            "languages": ["en"],
            "eligibility_first": True,
            "eligibility": [{"name": "adult", "kind": "yes_no", "label": "Are you 18?"}],
            "questions": [{"name": "age", "kind": "integer", "label": "Age", "minimum": 0, "maximum": 99}],
        }
    )
    part = Participation(b"", form, "", "en")
    seen = [part.step]
    while part.step != "question":
        part.forward()
        seen.append(part.step)
    assert seen == ["study", "eligibility", "consent", "question"]
    while part.back():
        seen.append(part.step)
    assert seen[4:] == ["consent", "eligibility", "study"]


def test_every_control_has_a_widget() -> None:
    """Read from the source: importing the widgets opens a window."""
    widgets = Path(__file__).parents[2] / "mobile" / "trimask_mobile" / "widgets"
    source = (widgets / "question.py").read_text(encoding="utf-8")
    assert [control for control in get_args(Control) if f"def _{control}(self" not in source] == []


class Refusing(Offline):
    """The first provider takes nothing; nobody else can be reached."""

    why = Reason.MALFORMED

    def call(self, endpoint: Endpoint, *arguments: object) -> bytes:
        if str(arguments[0]).endswith("/Submit") and endpoint.tls_name.startswith("r1"):
            raise Refused(self.why, "R1 could not use it")
        return super().call(endpoint)


def test_refused_answers_can_be_changed_and_sent_again(tmp_path: Path, signed_study: SignedStudy) -> None:
    device = Device(tmp_path / "phone", transport=Refusing(), clock=ManualClock(1_800_000_000_000))
    device.queue.join(signed_study)
    guide = Guide(device, AtOnce(), lambda: None)
    guide.start()
    part = to_questions(guide)
    answered = fill(guide)
    assert guide.submissions.item is not None
    assert (guide.shown.screen, guide.submissions.item.state) == ("sending", "refused")
    assert guide.answering.participation is None
    guide.studies.answer_again()
    assert guide.answering.participation is not None
    assert (guide.shown.screen, guide.answering.participation.responses) == ("review", answered)
    assert guide.answering.participation.study_id == part.study_id
    guide.submissions.send()
    guide.studies.discard()
    assert [line.state for line in guide.submissions.items] == ["new"]


def test_what_waits_can_be_withdrawn(start: Callable[[], Guide]) -> None:
    guide = start()
    to_questions(guide)
    fill(guide)
    assert guide.submissions.item is not None
    assert guide.submissions.item.state == "waiting"
    guide.submissions.ask_withdraw()
    guide.back()
    assert guide.shown.screen == "sending"
    guide.submissions.ask_withdraw()
    guide.submissions.withdraw()
    assert (guide.shown.screen, guide.submissions.item.state) == ("receipt", "withdrawing")


def test_a_full_disk_is_said(start: Callable[[], Guide], monkeypatch: pytest.MonkeyPatch) -> None:
    guide = start()
    part = to_questions(guide)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    calls: list[Callable[[], None]] = []
    workers = Workers(calls.append)
    monkeypatch.setattr(guide.shown.device.queue, "save_draft", full)
    monkeypatch.setattr(guide.shown, "runner", workers)
    guide.answering.answer(part.page.questions[0].name, "40")
    workers.stop()
    for call in calls:
        call()
    assert guide.shown.problem is not None
    assert (guide.shown.screen, guide.shown.problem.kind, guide.shown.problem.again) == (
        "problem",
        "disk",
        True,
    )
    assert guide.answering.participation is part  # still there, to be tried again
