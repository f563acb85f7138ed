"""What happens to people on the survey page: no network, a tab that dies, other languages, small screens, the keyboard."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, expect

from trimask_browser import needs_browser
from trimask_cli.site.hosting import write_site
from trimask_core.study.party import Web
from trimask_core.study.signed import SignedStudy
from trimask_moments import open_moments
from trimask_survey import DEFINITION, SurveyLab, Visitor

pytestmark = [needs_browser, pytest.mark.slow]
RIGHT = ("R1", "R2", "R3")
Look = Callable[[Page], None]
Make = Callable[..., Visitor]
NO_NETWORK = ("net::ERR_INTERNET_DISCONNECTED", "net::ERR_CONNECTION_REFUSED")


def held(lab: SurveyLab, signed: SignedStudy) -> list[set[bytes]]:
    return [set(lab.rows(name, signed.study.id)) for name in RIGHT]


def test_the_network_goes_half_way_and_comes_back(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, look: Look
) -> None:
    before = held(web_lab, open_study)
    person = visitor()
    person.allowed = NO_NETWORK
    person.page.goto(web_lab.link(open_study))
    person.consent()
    person.eligible()
    person.context.set_offline(True)
    person.answer()
    # Other languages are there without the network.
    person.speak("hi")
    person.see("अपने उत्तर जाँचें")
    person.speak("en")
    person.press("Send")
    expect(person.page.locator("main")).to_contain_text("Not everything has arrived. 0 of 3")
    look(person.page)
    person.context.set_offline(False)
    person.see("Sent. Thank you!")
    assert [len(now - then) for now, then in zip(held(web_lab, open_study), before, strict=True)] == [1, 1, 1]


def test_repro_an_institution_without_a_part_is_named_in_the_page_s_language(
    web_lab: SurveyLab, visitor: Make, look: Look
) -> None:
    """It was "R3: https://...: it could not be reached", in every language."""
    person = visitor()
    person.allowed = NO_NETWORK
    person.to_review(web_lab.link(web_lab.web_study(DEFINITION.replace("Sleep and", "Not reached:"))))
    person.speak("de")
    with web_lab.down("R3"):
        person.press("Senden")
        expect(person.page.locator("main")).to_contain_text("2 von 3 Einrichtungen haben ihren Teil")
        expect(person.page.get_by_role("listitem").filter(has_text="University Library")).to_contain_text(
            "Noch nicht erreicht"
        )
        for english in ("R3", "could not be reached", web_lab.parties["R3"].https):
            expect(person.page.locator("main")).not_to_contain_text(english)
        look(person.page)


def test_repro_an_answer_without_a_receipt_is_not_called_signed(
    web_lab: SurveyLab, visitor: Make, look: Look
) -> None:
    """An institution with a changed program answers, and signs nothing: nothing on the page says that it has signed."""
    person = visitor()
    page = person.page
    person.to_review(web_lab.link(web_lab.web_study(DEFINITION.replace("Sleep and", "Not signed:"))))
    person.speak("de")
    page.route(
        f"{web_lab.parties['R1'].https}/**/Submit",
        lambda route: route.fulfill(
            status=200,
            headers={"content-type": "application/proto", "access-control-allow-origin": "*"},
            body=b"",
        ),
    )
    page.evaluate(
        """() => { window.seen = []; new MutationObserver(() => {
             for (const line of document.querySelectorAll('.parties li')) window.seen.push(line.innerText);
           }).observe(document.body, { childList: true, subtree: true }); }"""
    )
    person.press("Senden")
    expect(page.get_by_role("listitem").filter(has_text="City Hospital")).to_contain_text(
        "Ihrer Antwort ist nicht zu trauen"
    )
    expect(page.locator("main")).to_contain_text(
        "Für alle, die Ihnen helfen: the signature on the receipt of R1"
    )
    look(page)
    told = {line for line in page.evaluate("window.seen") if "unterschrieben" in line}
    assert told
    assert not any("City Hospital" in line for line in told), told


def test_a_tab_killed_while_it_sends_goes_on_and_counts_once(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make
) -> None:
    before = held(web_lab, open_study)
    person = visitor()
    person.to_review(web_lab.link(open_study))
    waiting = web_lab.parties["R2"].https
    person.page.route(f"{waiting}/**/Submit", lambda _route: None)  # R2 is asked and does not answer
    person.press("Send")
    expect(person.page.get_by_role("listitem").filter(has_text="Data Trust North")).to_contain_text("Sending")
    first = person.page
    with contextlib.suppress(Error):
        first.goto("chrome://crash")
    person.open_tab().goto(web_lab.link(open_study))
    first.close()
    person.see("Sent. Thank you!")
    assert [len(now - then) for now, then in zip(held(web_lab, open_study), before, strict=True)] == [1, 1, 1]
    # And again: the same receipt, and nothing is sent a second time.
    person.open_tab().goto(web_lab.link(open_study))
    person.see("Sent. Thank you!")
    assert [len(now - then) for now, then in zip(held(web_lab, open_study), before, strict=True)] == [1, 1, 1]


def test_a_tab_that_dies_shows_the_same_question_again(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make
) -> None:
    person = visitor()
    person.page.goto(web_lab.link(open_study))
    person.consent()
    person.eligible()
    person.date("When were you born?", "1984-05-17")
    person.press("Next")
    person.asked("How well have you felt")
    first = person.page
    first.wait_for_function(KEPT)
    with contextlib.suppress(Error):
        first.goto("chrome://crash")
    person.open_tab().goto(web_lab.link(open_study))
    first.close()
    person.asked("How well have you felt")
    person.press("Back")
    person.dated("When were you born?", "17")


# Every change is on disk: nobody holds the records' lock, or waits for it.
KEPT = "async () => { const { held, pending } = await navigator.locks.query(); return held.length + pending.length === 0; }"


def test_repro_the_browser_s_back_leads_one_page_back(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make
) -> None:
    """It led out of the page, in the middle of the questions."""
    person = visitor()
    page = person.page
    page.goto(web_lab.link(open_study))
    person.consent()
    person.eligible()
    person.date("When were you born?", "1984-05-17")
    person.press("Next")
    person.asked("How well have you felt")
    for heading in ("When were you born?", "Can you take part?", "Your consent", "How do you sleep?"):
        page.evaluate("history.back()")
        person.see(heading)
    page.evaluate("history.forward()")
    page.wait_for_function("history.state?.inside")  # before anything else is pressed
    person.press("Take part")
    person.see("Your consent")
    person.press("Sign and continue")
    person.eligible()
    person.dated("When were you born?", "17")
    page.reload()
    person.dated("When were you born?", "17")
    person.press("Next")
    page.evaluate("history.back()")
    person.asked("When were you born?")
    person.press("Back")
    person.press("Back")
    person.press("Back")
    person.see("How do you sleep?")
    page.evaluate("history.back()")  # from the first page it leads where the person came from
    page.wait_for_url("about:blank")


def test_repro_two_tabs_and_one_of_them_sends(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make
) -> None:
    """The other tab kept a draft for ever, beside a receipt that says that answers are no longer in this browser."""
    person = visitor()
    first = person.page
    person.to_review(web_lab.link(open_study))
    second = person.open_tab()
    third = person.open_tab()
    for tab in (second, third):
        tab.goto(web_lab.link(open_study))
        expect(tab.get_by_role("heading", level=1)).to_contain_text("Check your answers")
    person.page = first
    person.press("Send")
    person.see("Sent. Thank you!")
    person.page = second  # goes on answering
    second.get_by_role("button", name="Change").first.click()
    person.see("Sent. Thank you!")
    person.page = third  # sends as well
    person.press("Send")
    person.see("Sent. Thank you!")
    third.wait_for_function(
        "() => new Promise((done) => { const open = indexedDB.open('trimask'); open.onsuccess = () => { const keys = "
        "open.result.transaction('records').objectStore('records').getAllKeys(); keys.onsuccess = () => "
        "done(keys.result.every((key) => !key.startsWith('drafts/'))); }; })"
    )


def test_repro_a_network_that_loses_a_part_of_the_page_leaves_no_blank_one(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make
) -> None:
    person = visitor()
    person.allowed = ("net::ERR_FAILED",)
    person.page.route("**/app.*.js", lambda route: route.abort())
    person.page.goto(web_lab.link(open_study))
    expect(person.page.get_by_text("check your network and load it again")).to_be_visible()
    person.page.unroute_all()
    person.page.reload()
    person.see("How do you sleep?")
    expect(person.page.get_by_text("load it again")).to_have_count(0)


def test_withdrawn_while_it_waits(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, look: Look
) -> None:
    before = held(web_lab, open_study)
    person = visitor()
    person.allowed = NO_NETWORK
    person.to_review(web_lab.link(open_study))
    with web_lab.down("R3"):
        person.press("Send")
        expect(person.page.locator("main")).to_contain_text("2 of 3 institutions have their part")
        person.press("Withdraw my answers")
        person.press("Withdraw")
        person.see("Being withdrawn")
        expect(person.page.locator("main")).to_contain_text("2 of 3 institutions have erased their part")
        look(person.page)
    person.press("Try again now")
    person.see("Withdrawn")
    assert held(web_lab, open_study) == before


def test_an_invitation_used_elsewhere_loses_no_answers(
    web_lab: SurveyLab, invited_study: SignedStudy, visitor: Make, look: Look
) -> None:
    link = web_lab.link(invited_study, int(time.time() * 1000) + 3_600_000)
    one, other = visitor(), visitor()
    one.to_review(link)
    expect(one.page.locator("main")).to_contain_text("Answer by")
    other.to_review(link)
    one.press("Send")
    one.see("Sent. Thank you!")
    other.allowed = ("status of 4",)
    other.press("Send")
    expect(other.page.locator("main")).to_contain_text("This invitation was used before")
    look(other.page)
    other.press("Back to my answers")
    other.see("Check your answers")
    expect(other.page.locator("dl")).to_contain_text("217.5 hours")
    # A third browser is told before it asks anything; and who has answered here can still see what they wrote.
    third = visitor()
    third.page.goto(link)
    third.see("This invitation was used before")
    expect(third.page.get_by_role("button")).to_have_count(0)
    expect(third.page.get_by_role("link", name=invited_study.study.contact)).to_be_visible()
    other.page.reload()
    other.see("This invitation was used before")
    other.press("Back to my answers")
    other.see("Check your answers")


def test_removed_from_this_browser(
    web_lab: SurveyLab, invited_study: SignedStudy, visitor: Make, look: Look
) -> None:
    """Of an invited study: nothing is left, and the next person is told to open a link of their own."""
    person = visitor()
    person.to_review(web_lab.link(invited_study, int(time.time() * 1000) + 3_600_000))
    person.press("Send")
    person.see("Sent. Thank you!")
    person.press("Remove from this browser")
    person.see("Remove your receipt from this browser?")
    person.press("Back")
    person.see("Sent. Thank you!")
    for another in ("Remove from this browser", "Someone else answers here"):
        if another.startswith("Someone"):
            person.page.goto("about:blank")
            person.to_review(web_lab.link(invited_study, int(time.time() * 1000) + 3_600_000))
            person.press("Send")
            person.see("Sent. Thank you!")
        person.press(another)
        with person.page.expect_download():
            person.press("Save")
        person.press("Delete")
        person.see("Removed from this browser")
        expect(person.page.locator("main")).to_contain_text("the link of their own invitation")
        look(person.page)
        assert person.page.evaluate(KEYS) == []


KEYS = """() => new Promise((done) => { const open = indexedDB.open('trimask'); open.onsuccess = () => {
  const keys = open.result.transaction('records').objectStore('records').getAllKeys();
  keys.onsuccess = () => done(keys.result); }; })"""


def test_who_does_not_belong_leaves_nothing_behind(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, look: Look
) -> None:
    person = visitor()
    person.page.goto(web_lab.link(open_study))
    person.consent()
    person.choose("No")
    person.press("Next")
    person.see("This study is for others")
    look(person.page)
    person.page.wait_for_function(
        "() => new Promise((done) => { const open = indexedDB.open('trimask'); open.onsuccess = () => { const keys = "
        "open.result.transaction('records').objectStore('records').getAllKeys(); keys.onsuccess = () => "
        "done(keys.result.every((key) => key.startsWith('studies/'))); }; })"
    )


def test_eligibility_before_consent_where_the_study_says_so(web_lab: SurveyLab, visitor: Make) -> None:
    definition = DEFINITION.replace("Sleep and", "First:").replace(
        "[form]\n", "[form]\neligibility_first = true\n"
    )
    person = visitor()
    person.page.goto(web_lab.link(web_lab.web_study(definition)))
    person.see("How do you sleep?")
    person.press("Take part")
    person.eligible()
    person.see("Your consent")
    person.choose("I have read this and agree")
    person.fill("Your name, as your signature", "Ada Lovelace")
    person.press("Sign and continue")
    person.asked("When were you born?")
    person.press("Back")
    person.see("Your consent")


def test_a_closed_study_says_so_before_anything_is_asked(
    web_lab: SurveyLab, visitor: Make, look: Look
) -> None:
    signed = web_lab.web_study(DEFINITION.replace("Sleep and", "Closed soon:"))
    web_lab.close(signed.study)
    person = visitor()
    person.page.goto(web_lab.link(signed))
    person.see("This study is closed")
    look(person.page)


def test_a_host_the_study_does_not_name_is_refused(web_lab: SurveyLab, visitor: Make, look: Look) -> None:
    signed = web_lab.web_study(DEFINITION.replace("Sleep and", "Elsewhere:"), ["https://survey.example"])
    person = visitor()
    person.page.goto(web_lab.link(signed))
    person.see("This page is not where the study allows it")
    expect(person.page.locator("main")).to_contain_text("https://survey.example")
    look(person.page)


FULL = """() => { window.put = IDBObjectStore.prototype.put;
  IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); }; }"""


def test_a_full_disk_loses_nothing(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, look: Look
) -> None:
    person = visitor()
    page = person.page
    page.goto(web_lab.link(open_study))
    person.consent()
    person.eligible()
    page.evaluate(FULL)
    person.answer()
    expect(page.get_by_text("This browser could not keep your answers.")).to_be_visible()
    look(page)
    person.press("Send")
    person.see("This browser could not keep your sealed answers")
    look(page)
    page.evaluate("() => { IDBObjectStore.prototype.put = window.put; }")
    person.press("Try again")
    person.see("Check your answers")
    person.press("Send")
    person.see("Sent. Thank you!")


def test_a_browser_that_keeps_nothing(web_lab: SurveyLab, open_study: SignedStudy, visitor: Make) -> None:
    person = visitor()
    person.page.add_init_script(
        "Object.defineProperty(window, 'indexedDB', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    person.page.goto(web_lab.link(open_study))
    person.see("How do you sleep?")
    expect(person.page.get_by_text("This browser could not keep your answers.")).to_be_visible()
    person.consent()
    person.eligible()
    person.answer()
    person.press("Send")
    person.see("Sent. Thank you!")


def test_a_receipt_file_opened_on_another_device(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, look: Look, tmp_path: Path
) -> None:
    before = held(web_lab, open_study)
    person = visitor()
    person.to_review(web_lab.link(open_study))
    person.press("Send")
    person.see("Sent. Thank you!")
    with person.page.expect_download() as saved:
        person.press("Save")
    saved.value.save_as(tmp_path / "receipt.json")
    (tmp_path / "other.json").write_text("{}")
    other = visitor("de")
    other.page.goto(web_lab.link(open_study))
    other.page.get_by_text("Sie haben schon eine Quittung?").click()
    look(other.page)
    other.page.get_by_label("Quittungsdatei").set_input_files(tmp_path / "other.json")
    other.see("Das ist keine Quittung dieser Studie")
    look(other.page)
    other.page.reload()
    other.page.get_by_text("Sie haben schon eine Quittung?").click()
    other.page.get_by_label("Quittungsdatei").set_input_files(tmp_path / "receipt.json")
    other.see("Gesendet. Vielen Dank!")
    other.press("Meine Antworten zurückziehen")
    other.press("Zurückziehen")
    other.see("Zurückgezogen")
    assert held(web_lab, open_study) == before


def test_a_study_of_the_other_suite_without_a_form(web_lab: SurveyLab, visitor: Make, look: Look) -> None:
    signed = open_moments(web_lab, sigma=30.0, web=Web((web_lab.origin,), web_lab.page_hash))
    write_site(web_lab.site, signed, web_lab.files)
    person = visitor()
    page = person.page
    page.goto(web_lab.link(signed))
    expect(page.locator("main")).to_contain_text("Towards everybody, the institutions included")
    look(page)
    person.press("Take part")
    person.choose("I have read this and agree")
    person.fill("Your name, as your signature", "Ada Lovelace")
    person.press("Sign and continue")
    for label, typed in (("age", "42"), ("bmi", "24,5")):
        person.fill(label, typed)
        person.press("Next")
    for label in ("Yes", "south"):
        person.choose(label)
        person.press("Next")
    look(page)
    person.press("Send")
    person.see("Sent. Thank you!")
    assert [len(ids) for ids in held(web_lab, signed)] == [1, 1, 1]


def test_links_that_are_none(web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, look: Look) -> None:
    person = visitor()
    link = web_lab.link(open_study)
    for broken in (link[:-5], link.partition("#")[0], link + "%"):
        person.open_tab().goto(broken)
        person.see("This is not an invitation")
        look(person.page)
    # The study beside the page is not the one of the link.
    person.open_tab().goto(link[:-3] + ("AAA" if not link.endswith("AAA") else "BBB"))
    person.see("This is not the study of your invitation")


ARABIC = (
    "كيف تنام؟",
    "المشاركة",
    "قرأت هذا وأوافق عليه",
    "اسمك، بمثابة توقيعك",
    "التوقيع والمتابعة",
    "نعم",
    "التالي",
    "متى وُلدت؟",
    "رجوع",
)
GERMAN = (
    "Wie schlafen Sie?", "Teilnehmen", "Ich habe das gelesen und stimme zu", "Ihr Name als Unterschrift",
    "Unterschreiben und weiter", "Ja", "Weiter", "Wann sind Sie geboren?", "Zurück",
)  # fmt: skip
HINDI = (
    "आपकी नींद कैसी है?", "भाग लें", "मैंने यह पढ़ लिया है और मैं सहमत हूँ", "आपका नाम, आपके हस्ताक्षर के रूप में",
    "हस्ताक्षर करें और आगे बढ़ें", "हाँ", "आगे", "आपका जन्म कब हुआ?", "पीछे",
)  # fmt: skip


@pytest.mark.parametrize(
    ("language", "words", "direction"),
    [("de-AT", GERMAN, "ltr"), ("ar-EG", ARABIC, "rtl"), ("hi-IN", HINDI, "ltr")],
    ids=["German", "Arabic", "Hindi"],
)
def test_in_other_languages(
    web_lab: SurveyLab,
    open_study: SignedStudy,
    visitor: Make,
    look: Look,
    language: str,
    words: tuple[str, ...],
    direction: str,
) -> None:
    title, begin, agree, name, sign, yes, following, born, back = words
    person = visitor(language)
    page = person.page
    page.goto(web_lab.link(open_study))
    person.see(title)
    assert page.evaluate("getComputedStyle(document.body).direction") == direction
    assert page.locator("html").get_attribute("lang") == language.split("-")[0]
    look(page)
    person.press(begin)
    person.choose(agree)
    person.fill(name, "أدا")
    look(page)
    person.press(sign)
    person.choose(yes)
    person.press(following)
    person.date(born, "1984-05-17")
    look(page)
    for _ in range(2):
        person.press(following)
    expect(page.get_by_role("alert").filter(has_text=".")).to_be_visible()
    page.get_by_role("slider").press("ArrowRight")
    person.press(following)
    # Written as people of the language do, in digits of their own, and never guessed.
    field = page.locator("input[type=text]")
    for typed, taken in (
        ("1.000", False),
        ("7,5", True),
        ("\u0667\u066b\u0665", True),
        ("\u096d.\u096b", True),
    ):
        field.fill(typed)
        person.press(following)
        if taken:
            expect(field).to_have_count(0)
            person.press(back)
        else:
            expect(page.get_by_role("alert").filter(has_text="1000")).to_be_visible()
            look(page)


def test_repro_who_waits_at_a_button_is_left_there_and_hears_what_changes(
    web_lab: SurveyLab, visitor: Make, look: Look
) -> None:
    """Every attempt made the page anew: the focus was gone, and no screen reader heard what had become of it."""
    person = visitor()
    person.allowed = NO_NETWORK
    page = person.page
    person.to_review(web_lab.link(web_lab.web_study(DEFINITION.replace("Sleep and", "At a button:"))))
    told = page.get_by_role("status")
    with web_lab.down("R3"):
        person.press("Send")
        expect(told).to_contain_text("2 of 3 institutions have their part")
        expect(page.get_by_role("heading", level=1)).to_be_focused()
        look(page)
        again = page.get_by_role("button", name="Try again now")
        page.route(
            f"{web_lab.parties['R3'].https}/**/Submit", lambda _route: None
        )  # asked, and does not answer
        again.press("Enter")
        expect(told).to_contain_text("Sending one part to each institution")
        expect(again).to_be_focused()
        expect(again).to_be_disabled()
        look(page)
        page.unroute_all()
    page.reload()
    person.see("Sent. Thank you!")


@pytest.mark.parametrize(
    "size", [{"width": 320, "height": 640}, {"width": 640, "height": 320}], ids=["upright", "sideways"]
)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_small_screens_and_large_type(
    web_lab: SurveyLab,
    open_study: SignedStudy,
    visitor: Make,
    look: Look,
    size: dict[str, int],
    *,
    dark: bool,
) -> None:
    person = visitor(viewport=size, color_scheme="dark" if dark else "light")
    page = person.page

    def fits(_label: str = "") -> None:
        wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], f"{_label}: the page is wider than the screen"
        look(page)

    # 200 % text: as a browser's own setting has it, on top of which everything is measured.
    page.add_init_script(
        "document.addEventListener('DOMContentLoaded', () => { document.documentElement.style.fontSize = '200%'; })"
    )
    page.goto(web_lab.link(open_study))
    person.see("How do you sleep?")
    person.more()
    page.get_by_text("The exact statement").click()
    page.get_by_text("About this page").click()
    fits("study")
    person.consent()
    fits("eligibility")
    person.eligible()
    person.answer(fits)
    fits("review")
    person.press("Send")
    person.see("Sent. Thank you!")
    page.get_by_text("Show as a code").click()
    fits("receipt")


def shown(page: Page) -> int:
    """Words of a view that are seen, but for those on buttons and on what opens more."""
    return len(
        page.evaluate(
            "[...document.querySelectorAll('main *')]"
            ".filter((e) => e.checkVisibility() && !e.closest('button, summary, .unseen'))"
            ".flatMap((e) => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data)).join(' ')"
        ).split()
    )


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_the_first_question_is_near(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, suite: str
) -> None:
    """At most 200 words to it, the study's own among them; Take part is in sight at once, also in large type."""
    signed = open_study
    if suite == "moments":
        signed = open_moments(web_lab, sigma=60.0, web=Web((web_lab.origin,), web_lab.page_hash))
        write_site(web_lab.site, signed, web_lab.files)
    for width, height, large in ((360, 740, False), (320, 640, True)):
        person = visitor(viewport={"width": width, "height": height})
        page = person.page
        if large:
            page.add_init_script(
                "document.addEventListener('DOMContentLoaded', () => { document.documentElement.style.fontSize = '200%'; })"
            )
        page.goto(web_lab.link(signed))
        page.locator("ul.first").wait_for()
        begin = page.get_by_role("button", name="Take part", exact=True)
        expect(begin).to_be_in_viewport(ratio=1)
        page.locator(".strength").scroll_into_view_if_needed()
        expect(begin).to_be_in_viewport(ratio=1)
    words = [shown(page)]
    person.press("Take part")
    person.see("Your consent")
    words.append(shown(page))
    person.choose("I have read this and agree")
    person.fill("Your name, as your signature", "Ada Lovelace")
    person.press("Sign and continue")
    if suite == "rows":
        person.see("Can you take part?")
        words.append(shown(page))
    assert sum(words) <= 200, words


def test_what_a_consent_lacks_is_said_and_a_problem_names_the_contact(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, look: Look
) -> None:
    person = visitor()
    page = person.page
    page.goto(web_lab.link(open_study))
    person.see("How do you sleep?")
    person.press("Take part")
    person.see("Your consent")
    person.press("Sign and continue")
    alert = page.get_by_role("alert")
    expect(alert.filter(has_text="tick that you agree and write your name")).to_be_visible()
    expect(page.get_by_label("I have read this and agree")).to_be_focused()
    look(page)
    person.choose("I have read this and agree")
    expect(alert.filter(has_text="please do this: write your name")).to_be_visible()
    # A browser that fills a name in may tell the page nothing of it; one letter is a name.
    page.evaluate("document.getElementById('signature').value = 'Ö'")
    person.press("Sign and continue")
    person.see("Can you take part?")
    person.choose("No")
    person.press("Next")
    person.see("This study is for others")
    link = page.get_by_role("link", name=open_study.study.contact)
    expect(link).to_have_attribute("href", f"mailto:{open_study.study.contact}")


SPOKEN = Path(__file__).parents[1] / "golden" / "page-spoken.txt"


def test_by_keyboard_alone(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Make, pytestconfig: pytest.Config
) -> None:
    """And every view as the accessibility tree has it, which a screen reader reads; `pytest --golden` writes it anew."""
    person = visitor()
    page = person.page
    spoken: list[str] = []

    def see(heading: str) -> None:
        person.see(heading)
        tree = page.locator("#page").aria_snapshot()
        for varies, name in ((r"[0-9a-f]{32}", "NUMBER"), (r"\d+ \w+ 20[23]\d at \d\d:\d\d", "WHEN")):
            tree = re.sub(varies, name, tree)
        spoken.append(tree)

    page.goto(web_lab.link(open_study))
    see("How do you sleep?")

    def to(name: str) -> None:
        """Tab until the focus is on something of this name; it must be seen there."""
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "() => { const e = document.activeElement; const l = e.labels?.[0]?.textContent ?? ''; "
                "if (e === document.body) return ['', '']; "
                "const by = document.getElementById(e.getAttribute('aria-labelledby'))?.textContent ?? ''; return "
                "[e.textContent + l + by + (e.getAttribute('aria-label') ?? ''), getComputedStyle(e).outlineStyle]; }"
            )
            if name in focused[0]:
                assert focused[1] != "none", f"{name}: the focus cannot be seen"
                return
        raise AssertionError(f"{name} cannot be reached by Tab")

    keys = page.keyboard
    to("Take part")
    keys.press("Enter")
    see("Your consent")
    to("I have read this")
    keys.press("Space")
    to("Your name")
    keys.type("Ada Lovelace")
    keys.press("Enter")
    see("Can you take part?")
    to("Yes")
    keys.press("Space")
    keys.press("Enter")
    see("When were you born?")
    to("Day")
    keys.type("17")
    to("Year")
    keys.type("1984")
    keys.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Still missing: Month.")).to_be_visible()
    to("Month")
    keys.type("May")
    to("Next")
    keys.press("Enter")
    see("How well have you felt")
    to("How well have you felt")
    keys.press("ArrowRight")
    keys.press("Enter")
    see("How long did you sleep")
    to("How long did you sleep")
    keys.type("217.5")
    keys.press("Enter")
    see("When do you go to bed?")
    to("When do you go to bed?")
    keys.type("11")
    keys.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Give a time of day such as 23:30.")).to_be_visible()
    keys.type("1130PM")  # on a browser with a clock of 24 hours, half past eleven
    keys.press("Enter")
    see("Do you work in shifts?")
    to("Yes")
    keys.press("ArrowDown")
    keys.press("Enter")
    see("How much do you exercise?")
    to("Next")
    keys.press("Enter")
    see("What do you take")
    to("Medicine")
    keys.press("Space")
    keys.press("Enter")
    see("How often do these")
    to("Never")
    keys.press("ArrowDown")
    to("Never")
    keys.press("Space")
    keys.press("Enter")
    see("Check your answers")
    for understood in ("1984", ":30", "No answer", "Medicine", "Sometimes"):
        expect(page.locator("dl")).to_contain_text(understood)
    to("Send")
    keys.press("Enter")
    see("Sent. Thank you!")
    told = "\n\n".join(spoken) + "\n"
    if pytestconfig.getoption("golden"):
        SPOKEN.write_text(told, encoding="utf-8")
    assert told == SPOKEN.read_text(encoding="utf-8")
