"""Every view of the survey page as a picture, for docs/web.md: `make web-images`. Prints its weight and CPU too.

Not a test: pictures differ by a pixel from one browser to the next, so they are made on purpose and looked at.
"""

from __future__ import annotations

import gzip
import re
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from trimask_browser import ARGUMENTS, CHROMIUM
from trimask_server.local.cluster import ThreadCluster
from trimask_survey import DEFINITION, SurveyLab, Visitor

STUDY = DEFINITION.replace("block_rows = 1024", 'suite = "moments"')  # of the kind that is drafted
OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs" / "images"


def main() -> None:
    lab = SurveyLab(Path(tempfile.mkdtemp()), right=2, left=0)
    packed = {name: len(gzip.compress(content, 9)) for name, content in lab.files.items()}
    words = [size for name, size in packed.items() if re.match(r"..\.", name)]
    visit = sum(packed.values()) - sum(words) + max(words)
    print(f"{len(packed)} files, {visit:,} bytes compressed for a first visit, {max(words):,} of them words")
    with ThreadCluster(lab.folder) as lab.cluster, lab.host(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        measure(browser, lab)
        the_way(browser, lab)
        others(browser, lab)
        browser.close()


def shot(person: Visitor, name: str, *, whole: bool = False) -> None:
    """With few colours: a small file, and type as crisp as on a phone."""
    path = OUT / f"web-{name}.png"
    person.page.screenshot(path=path, full_page=whole)
    Image.open(path).convert("RGB").quantize(48).save(path, optimize=True)


def measure(browser: Browser, lab: SurveyLab) -> None:
    """CPU by the browser's own counters, to the study and to the first question, the form filled in by a program."""
    person = Visitor(browser, lab)
    counters = person.context.new_cdp_session(person.page)
    counters.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu() -> dict[str, float]:
        return {item["name"]: item["value"] for item in counters.send("Performance.getMetrics")["metrics"]}

    person.page.goto(lab.link(lab.web_study(STUDY)))
    person.see("How do you sleep?")
    study = cpu()
    person.consent()
    person.eligible()
    person.asked("When were you born?")
    question = cpu()
    for name, found in (("study", study), ("first question", question)):
        print(
            f"{name}: {found['TaskDuration']:.2f} s of the page's thread, {found['ScriptDuration']:.2f} s of scripts"
        )
    person.answer()
    before = cpu()
    person.press("Send")
    person.see("Sent. Thank you!")
    print(f"sealing, proving, sending: {cpu()['TaskDuration'] - before['TaskDuration']:.2f} s")
    person.close()


def the_way(browser: Browser, lab: SurveyLab) -> None:
    signed = lab.web_study(STUDY.replace("Sleep and", "Sleep, work and"))
    person = Visitor(browser, lab)
    page = person.page
    page.goto(lab.link(signed))
    person.see("How do you sleep?")
    shot(person, "first")
    person.more()
    shot(person, "study", whole=True)
    page.get_by_text("About this page").click()
    page.get_by_text("About this page").scroll_into_view_if_needed()
    shot(person, "about")
    person.press("Take part")
    person.choose("I have read this and agree")
    person.fill("Your name, as your signature", "Ada Lovelace")
    shot(person, "consent")
    person.press("Sign and continue")
    shot(person, "eligibility")
    person.eligible()

    def between(label: str) -> None:
        names = {
            "When were": "date",
            "How well": "slider",
            "What do you": "several",
            "How often": "grid",
            "How much": "choice",
        }
        for begins, name in names.items():
            if label.startswith(begins):
                shot(person, name)
        if label.startswith("How long"):
            person.fill(label, "1.000")
            person.press("Next")
            shot(person, "wrong")
            person.fill(label, "217,5")

    person.answer(between)
    shot(person, "review", whole=True)
    with lab.down("R2"):
        person.press("Send")
        person.asked("1 of 2 institutions have their part")
        shot(person, "waiting")
    person.press("Try again now")
    person.see("Sent. Thank you!")
    page.get_by_text("Show as a code").click()
    shot(person, "receipt", whole=True)
    person.press("Withdraw my answers")
    shot(person, "withdraw")
    person.press("Withdraw")
    person.see("Withdrawn")
    shot(person, "withdrawn")
    person.context.close()


def others(browser: Browser, lab: SurveyLab) -> None:
    link = lab.link(lab.web_study(STUDY.replace("Sleep and", "Sleep, noise and")))
    for language, begin in (("ar", "المشاركة"), ("hi", "भाग लें"), ("de", "Teilnehmen")):
        person = Visitor(browser, lab, language)
        person.page.goto(link)
        person.page.get_by_role("button", name=begin).wait_for()
        shot(person, language)
        person.context.close()
    person = Visitor(browser, lab, color_scheme="dark", viewport={"width": 320, "height": 640})
    person.page.add_init_script(
        "document.addEventListener('DOMContentLoaded', () => { document.documentElement.style.fontSize = '200%'; })"
    )
    person.page.goto(link)
    person.consent()
    person.eligible()
    person.asked("When were you born?")
    shot(person, "dark-large")
    person.context.close()


if __name__ == "__main__":
    main()
