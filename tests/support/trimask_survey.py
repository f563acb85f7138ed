"""The survey page's host, a cluster that serves pages, and a person's browser: for tests and for pictures."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect

from trimask_cli.site.hosting import site_server, write_site
from trimask_cli.site.page import page_hash, page_of
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.party import admission_key, short_code
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation, Link
from trimask_lab import Lab
from trimask_server.local.cluster import free_base_port
from trimask_web import REPOSITORY, WEB

__all__ = ["DEFINITION", "SurveyLab", "Visitor"]

DEFINITION = (REPOSITORY / "tests" / "web" / "study.toml").read_text(encoding="utf-8")
NAMES = {
    "collector": "Institute for Sleep Research",
    "R1": "City Hospital",
    "R2": "Data Trust North",
    "R3": "University Library",
    "R4": "Red Cross",
    "L1": "Patients' Association",
    "L2": "Statistics Office",
}
SECONDS = 120  # a busy machine may take so long; nothing waits for it to pass
expect.set_options(timeout=1000 * SECONDS)


class SurveyLab(Lab):
    """Named institutions that serve pages, a host of the page, and studies on it."""

    def __init__(self, folder: Path, right: int = 3, left: int = 2) -> None:
        super().__init__(folder / "institutions", right, left, organisations=NAMES, https=True)
        self.site = folder / "site"
        self.port = free_base_port(1)
        self.origin = f"http://localhost:{self.port}"
        (self.site / "s").mkdir(parents=True)
        self.files = page_of(WEB)
        self.page_hash = page_hash(self.files)

    @contextlib.contextmanager
    def host(self) -> Iterator[None]:
        """The page's host, while it runs: what `trimask web serve` serves of what `trimask web export` writes."""
        server = site_server(self.site, self.port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def web_study(self, definition: str, hosts: list[str] | None = None, **changes: Any) -> SignedStudy:
        """A study that is open and whose page is on the host."""
        web = f'\n[web]\nhosts = {json.dumps(hosts or [self.origin])}\npage_sha256 = "{self.page_hash}"\n'
        signed = self.open_study(definition + web, **changes)
        write_site(self.site, signed, self.files)
        return signed

    def link(self, signed: SignedStudy, expires_ms: int | None = None) -> str:
        """The link of an open study, or one with an invitation."""
        study = signed.study
        invitation = None
        if expires_ms is not None:
            invitation = Invitation.draw(study.id, expires_ms, SystemRandom()).signed_with(
                admission_key(self.folder / "owner")
            )
        return f"{self.origin}/s/{short_code(study.id)}#{Link('', study.id, invitation).code}"

    @contextlib.contextmanager
    def down(self, *roles: str) -> Iterator[None]:
        """Some providers cannot be reached."""
        for role in roles:
            self.cluster.stop(role)
        try:
            yield
        finally:
            for role in roles:
                self.cluster.start(role)


class Visitor:
    """One person's browser. What it complains of is a failure at the end: errors, warnings, what its policy stops."""

    def __init__(self, browser: Browser, lab: SurveyLab, language: str = "en-GB", **options: Any) -> None:
        self.lab = lab
        settings = {"viewport": {"width": 390, "height": 800}, "timezone_id": "Asia/Kolkata"} | options
        self.context: BrowserContext = browser.new_context(
            ignore_https_errors=True, locale=language, **settings
        )
        self.context.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => console.error('policy', e.violatedDirective, e.blockedURI))"
        )
        self.complaints: list[str] = []
        self.allowed: tuple[str, ...] = ()
        self.page = self.open_tab()

    def open_tab(self) -> Page:
        """A new tab, which is the one looked at from now on."""
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * SECONDS)
        self.page.on(
            "console",
            lambda said: (
                self._complain(f"{said.type}: {said.text}") if said.type in ("error", "warning") else None
            ),
        )
        self.page.on("pageerror", lambda error: self._complain(f"uncaught: {error}"))
        return self.page

    def _complain(self, text: str) -> None:
        if not any(word in text for word in self.allowed):
            self.complaints.append(text)

    def close(self) -> None:
        """And what it complained of."""
        self.context.close()
        assert self.complaints == [], self.complaints

    # What a person does

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label).fill(text)

    def date(self, label: str, iso: str) -> None:
        """Day, month by name and year, in whatever order and language they stand."""
        group = self.page.get_by_role("group", name=label)
        year, month, day = iso.split("-")
        group.locator("[data-part=day]").fill(day)
        group.locator("[data-part=month]").select_option(str(int(month)))
        group.locator("[data-part=year]").fill(year)

    def dated(self, label: str, day: str) -> None:
        """The day of a date that stands there."""
        expect(self.page.get_by_role("group", name=label).locator("[data-part=day]")).to_have_value(day)

    def speak(self, language: str) -> None:
        """Back to the first view, where the language is chosen, and forth to the review again."""
        while not self.page.locator("main.study").count():
            self.page.locator("main button:not(.main)").last.click()
        self.page.locator("#language").select_option(language)
        expect(self.page.locator("html")).to_have_attribute("lang", language)
        while not self.page.locator("main.review").count():
            self.page.locator("button.main").click()

    def choose(self, label: str, within: str = "") -> None:
        """A radio button or a check box; in a grid, of one row."""
        place: Any = self.page.get_by_role("radiogroup", name=within) if within else self.page
        place.get_by_label(label, exact=True).check()

    def see(self, heading: str) -> None:
        """Wait for a page by its heading."""
        expect(self.page.get_by_role("heading", level=1)).to_contain_text(heading)

    def asked(self, label: str) -> None:
        """Wait for a question."""
        expect(self.page.locator("main")).to_contain_text(label)

    def more(self) -> None:
        """What is behind the first screen."""
        self.page.get_by_text("More: who sees what").click()

    # Whole stretches of the way, in English

    def consent(self) -> None:
        self.see("How do you sleep?")
        self.press("Take part")
        self.see("Your consent")
        self.choose("I have read this and agree")
        self.fill("Your name, as your signature", "Ada Lovelace")
        self.press("Sign and continue")

    def eligible(self) -> None:
        self.see("Can you take part?")
        self.choose("Yes")
        self.press("Next")

    def answer(self, between: Callable[[str], None] = lambda _name: None) -> None:
        """Every question, to the review; `between` is called when one is answered, before it is left."""
        steps: list[tuple[str, Callable[[], None]]] = [
            ("When were you born?", lambda: self.date("When were you born?", "1984-05-17")),
            ("How well have you felt", lambda: self.page.get_by_role("slider").press("ArrowRight")),
            ("How long did you sleep", lambda: self.fill("How long did you sleep", "217,5")),
            ("When do you go to bed?", lambda: self.fill("When do you go to bed?", "23:30")),
            ("Do you work in shifts?", lambda: self.choose("Yes")),
            ("How many night shifts", lambda: self.fill("How many night shifts", "4")),
            ("How much do you exercise?", lambda: self.choose("Once or twice a week")),
            ("What do you take", lambda: self.choose("Herbal tea")),
            ("How often do these", self._grid),
        ]
        for label, work in steps:
            self.asked(label)
            work()
            between(label)
            self.press("Next")
        self.see("Check your answers")

    def _grid(self) -> None:
        self.choose("Sometimes", "Worries")
        self.choose("Never", "Noise")

    def to_review(self, link: str) -> None:
        """From the link to the review."""
        self.page.goto(link)
        self.consent()
        self.eligible()
        self.answer()
