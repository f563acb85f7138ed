"""A survey page in a real browser, and a real cluster that it calls over HTTPS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from trimask_browser import ARGUMENTS, CHROMIUM
from trimask_core.study.signed import SignedStudy
from trimask_server.local.cluster import ThreadCluster
from trimask_survey import DEFINITION, SurveyLab, Visitor
from trimask_web import development_package


@pytest.fixture(scope="session")
def web_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SurveyLab]:
    lab = SurveyLab(tmp_path_factory.mktemp("web"))
    with ThreadCluster(lab.folder) as lab.cluster, lab.host():
        yield lab


@pytest.fixture(scope="module")  # no longer: while it is open, playwright's event loop runs in this thread
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def visitor(browser: Browser, web_lab: SurveyLab) -> Iterator[Callable[..., Visitor]]:
    """Makes browsers of their own, each with its own storage."""
    made: list[Visitor] = []

    def make(language: str = "en-GB", **options: Any) -> Visitor:
        made.append(Visitor(browser, web_lab, language, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def open_study(web_lab: SurveyLab) -> SignedStudy:
    """Anybody may answer it."""
    return web_lab.web_study(DEFINITION)


@pytest.fixture(scope="session")
def invited_study(web_lab: SurveyLab) -> SignedStudy:
    """Invited people may answer it."""
    return web_lab.web_study(DEFINITION, admission="invited", admission_signer="owner")


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's source, to be run in a page."""
    return (development_package("axe-core") / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def look(axe: str) -> Callable[[Page], None]:
    """Fails for anything that axe finds on a page as it stands."""

    def check(page: Page) -> None:
        page.evaluate(axe)
        found = page.evaluate(
            "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
        )
        assert [f"{item['id']}: {item['nodes'][0]['html'][:200]}" for item in found] == []

    return check
