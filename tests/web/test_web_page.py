"""The survey page in Chromium, against real institutions over HTTPS: the whole way of one person."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from trimask_browser import needs_browser
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.institutions import Directory, Institution
from trimask_core.submit.submission import Receipt
from trimask_survey import SurveyLab, Visitor

pytestmark = needs_browser
RIGHT = ("R1", "R2", "R3")
Look = Callable[[Page], None]


def held(lab: SurveyLab, signed: SignedStudy) -> list[set[bytes]]:
    """The submissions each right provider holds."""
    return [set(lab.rows(name, signed.study.id)) for name in RIGHT]


def get_to_know(page: Page, signed: SignedStudy, look: Look) -> None:
    """Nobody is known until the person has added a directory; a changed one is refused; after a reload it is still there."""
    main, names = page.locator("main"), ["City Hospital", "Data Trust North"]
    expect(main).to_contain_text("Not known to this browser: City Hospital")
    book = Directory(
        "Health Council",
        b"",
        tuple(
            Institution(party.organisation, party.identity)
            for party in signed.study.parties.values()
            if party.organisation in names
        ),
    ).signed_with(SigningKey.generate(SystemRandom()))
    page.get_by_text("Known institutions").click()
    field = page.get_by_label("File of a directory you were given")

    def give(text: str) -> None:
        field.set_input_files(
            {"name": "institutions.json", "mimeType": "application/json", "buffer": text.encode()}
        )

    give(book.to_json().replace("City Hospital", "Village Hospital"))
    expect(page.get_by_role("alert").filter(has_text="its signature does not hold")).to_be_visible()
    give(book.to_json())
    expect(main).to_contain_text(" ".join(book.keeper_key.hex()[at : at + 4] for at in range(0, 64, 4)))
    look(page)
    expect(main).not_to_contain_text("Known from the directory")
    page.get_by_role("button", name="I have compared the key: add it").click()
    for _ in range(2):
        expect(main).to_contain_text(
            "Known from the directory of Health Council: City Hospital and Data Trust North."
        )
        expect(main).to_contain_text("Not known to this browser: University Library")
        page.reload()
        page.get_by_role("heading", name="How do you sleep?").wait_for()


def test_the_whole_way(
    web_lab: SurveyLab, open_study: SignedStudy, visitor: Callable[..., Visitor], look: Look, tmp_path: Path
) -> None:
    before = held(web_lab, open_study)[0]
    person = visitor()
    page = person.page
    # Firefox asks the person whether the page may keep data, and they may leave the question unanswered.
    page.add_init_script("StorageManager.prototype.persist = () => new Promise(() => {})")
    page.goto(web_lab.link(open_study))
    person.see("How do you sleep?")
    person.more()
    for said in (
        "Institute for Sleep Research",
        "City Hospital",
        "University Library",
        "This device adds noise",
    ):
        expect(page.locator("main")).to_contain_text(said)
    for more in ("The exact statement", "About this page"):
        page.get_by_text(more).click()
    expect(page.locator("main")).to_contain_text("-differential privacy")
    expect(page.locator("main")).to_contain_text(web_lab.origin)
    expect(page.locator("main")).to_contain_text(web_lab.page_hash)
    get_to_know(page, open_study, look)
    look(page)
    person.consent()
    person.press("Next")
    expect(page.get_by_role("alert").filter(has_text="An answer is needed.")).to_be_visible()
    look(page)
    person.eligible()

    def between(label: str) -> None:
        look(page)
        if label.startswith("How long"):
            person.fill(label, "1.000")
            person.press("Next")
            expect(page.get_by_role("alert").filter(has_text="1.000 can mean 1 or 1000")).to_be_visible()
            expect(page.get_by_label(label)).to_be_focused()
            look(page)
            person.fill(label, "217,5")
        if label.startswith("What do you take"):
            person.choose("Nothing")
            expect(page.get_by_label("Herbal tea")).not_to_be_checked()
            person.choose("Herbal tea")
            expect(page.get_by_label("Nothing")).not_to_be_checked()

    person.answer(between)
    for understood in (
        "17 May 1984",
        "217.5 hours",
        "23:30",
        "Once or twice a week",
        "Herbal tea",
        "Sometimes",
    ):
        expect(page.locator("dl")).to_contain_text(understood)
    look(page)
    person.press("Send")
    person.see("Sent. Thank you!")
    page.get_by_text("Show as a code").click()
    look(page)
    # On disk at every provider, and the file is a receipt for it.
    with page.expect_download() as saved:
        person.press("Save")
    assert re.fullmatch(r"Receipt How do you sleep \d{4}-\d{2}-\d{2}\.json", saved.value.suggested_filename)
    saved.value.save_as(tmp_path / "receipt.json")
    receipt = Receipt.from_json((tmp_path / "receipt.json").read_text())
    receipt.verify(open_study.study)
    assert all(ids - before == {receipt.submission_id} for ids in held(web_lab, open_study))
    # The code, read by another program from screen and paper, opens the receipt in another browser, which withdraws with it.
    page.locator("details svg.code").screenshot(path=tmp_path / "code.png", scale="css")
    page.emulate_media(media="print")
    for said in ("How do you sleep?", "Sent on", "To withdraw", receipt.submission_id.hex()):
        expect(page.locator(".paper")).to_contain_text(said)
    for hidden in ("header", "h1", "main button >> nth=0"):
        expect(page.locator(hidden)).to_be_hidden()
    page.screenshot(path=tmp_path / "paper.png")
    page.emulate_media(media="screen")
    on_screen, on_paper = (
        subprocess.run(
            ["zbarimg", "-q", "--raw", tmp_path / name], capture_output=True, text=True, check=True
        ).stdout
        for name in ("code.png", "paper.png")
    )
    assert on_screen == on_paper
    other = visitor()
    other.page.goto(on_paper.strip())
    other.see("Sent. Thank you!")
    other.press("Withdraw my answers")
    look(other.page)
    other.press("Withdraw")
    other.see("Withdrawn")
    look(other.page)
    assert held(web_lab, open_study) == [before] * 3
    # What is left in the browser has neither answers nor name in the clear.
    kept = json.dumps(page.evaluate(ALL_RECORDS))
    assert kept.count("Uint8Array") > 1
    assert "Ada" not in kept
    assert "herbal" not in kept.lower()
    # Somebody else may answer here: the receipt goes first, and the person is told so.
    person.press("Someone else answers here")
    expect(page.locator("main")).to_contain_text("Without a saved or printed receipt nobody can withdraw it.")
    look(page)
    person.press("Delete")
    person.see("How do you sleep?")
    expect(page.get_by_role("button", name="Take part", exact=True)).to_be_visible()


ALL_RECORDS = """() => new Promise((done) => { const open = indexedDB.open('trimask'); open.onsuccess = () => {
  const read = open.result.transaction('records').objectStore('records').getAll();
  const plain = (value) => value.constructor.name + new TextDecoder('latin1').decode(value);
  read.onsuccess = () => done(read.result.map(plain)); }; })"""


def test_an_invitation_that_is_over_is_said_before_anything_is_asked(
    web_lab: SurveyLab, invited_study: SignedStudy, visitor: Callable[..., Visitor], look: Look
) -> None:
    person = visitor()
    person.page.goto(web_lab.link(invited_study, int(time.time() * 1000) - 1000))
    person.see("This invitation has expired")
    look(person.page)
