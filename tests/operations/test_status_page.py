"""The status page in a real browser: what it says, that it loads nothing, that a phone and dark mode can show it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from moments_cases import forged
from trimask_browser import ARGUMENTS, CHROMIUM, CONTRAST, needs_browser
from trimask_cli import owner
from trimask_client import Client
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.explain.sentences import strength_lines
from trimask_core.moments.report import build_report, split
from trimask_core.moments.report import share_payloads as share_payloads
from trimask_core.study.guarantee import factor_words
from trimask_core.submit.submission import seal_payloads
from trimask_patience import patience
from trimask_server.collector.status_page import promise_words


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def filled(ops_lab: Any) -> Any:
    """A study with a pooled block, waiting rows and a refusal."""
    signed = ops_lab.open_study()
    with Client(signed, attempts=1) as client:
        for hour in range(36):
            client.submit({"hours": hour / 3, "rested": True})
        good = client.prepare({"hours": 1.0, "rested": True})
        with pytest.raises(Refused):
            client.send(type(good)(good.study_id, good.submission_id, (bytes(120), *good.sealed[1:])))
    ops_lab.until(lambda: owner.study_status(signed.study).pooled_blocks == 1)
    return signed


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme"), [(1200, "light"), (360, "dark"), (360, "light"), (1200, "dark")]
)
def test_the_page_of_a_study(ops_lab: Any, filled: Any, browser: Browser, width: int, scheme: Any) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    address = f"{ops_lab.http('collector')}/studies/{filled.study.id.hex()}"
    page.goto(address)
    assert asked == [address]  # no script, style, font or picture from anywhere
    assert complaints == []  # the policy allows what the page has
    assert page.locator("h1").inner_text() == "Sleep & work <in numbers>"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for landmark in ("header", "nav", "main", "footer"):
        assert page.locator(landmark).count() == 1
    text = page.locator("main").inner_text()
    assert "20 complete answers wait" in text
    assert "no differential-privacy guarantee" in text
    assert "R1 + collector" in text
    bar = page.get_by_label("Next block")
    assert (bar.get_attribute("value"), bar.get_attribute("max")) == ("20", "32")
    assert (
        page.locator("tr", has_text="R1").first.inner_text().count("tampered_component") == 2
    )  # here, in all
    assert page.locator("table").count() == page.locator("table:has(thead th[scope=col])").count() == 3
    assert page.locator("tbody tr").count() == page.locator("tbody tr:has(th[scope=row])").count()
    found = page.evaluate(CONTRAST)
    assert len(found) > 40
    assert min(found)[0] >= 4.5, min(found)
    page.close()


@needs_browser
def test_from_the_list_to_a_study(ops_lab: Any, filled: Any, browser: Browser) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(ops_lab.http("collector"))
    page.locator(f"a[href='/studies/{filled.study.id.hex()}']").click()
    assert page.locator("h1").inner_text() == "Sleep & work <in numbers>"
    page.context.close()


def test_headers_and_a_study_that_is_not_there(ops_lab: Any, filled: Any) -> None:
    import urllib.request

    with urllib.request.urlopen(ops_lab.http("collector"), timeout=patience(10)) as answer:  # noqa: S310
        policy = answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"
        body = answer.read().decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script" not in body
    assert "Sleep &amp; work &lt;in numbers&gt;" in body
    for unknown in ("00" * 32, "zz", "..%2f..%2fetc"):
        status, text = ops_lab.get("collector", f"/studies/{unknown}")
        assert status == 404
        assert "No such study" in text
    assert ops_lab.get("R1", "/")[0] == 404  # a provider has no pages


def test_a_node_that_is_down_is_shown_with_when_it_was_seen(own_lab: Any) -> None:
    signed = own_lab.open_study()
    path = f"/studies/{signed.study.id.hex()}"
    assert "does not answer" not in own_lab.get("collector", path)[1]
    own_lab.cluster.stop("L1")
    text = own_lab.until(lambda: _with(own_lab.get("collector", path)[1], "does not answer"))
    assert re.search(r"does not answer</span>\s*<small>last seen \d\d:\d\d:\d\d UTC", text)


def test_the_page_of_a_moments_study(ops_lab: Any, make_study: Any, answers: Any) -> None:
    made = make_study(
        suite="moments", right=2, sigma=30.0, release_rows=6, keys=ops_lab.folder, title="Sums <alone>"
    )
    study, source = made.study, DeterministicRandom("status page")
    owner.open_study(made.signed, ops_lab.folder / "owner")
    layout = study.moments.layout
    altered = build_report(layout, answers, source)
    altered[layout.products[0]] += 1
    bits = list(layout.encode(answers).bits)
    bits[0] = 2
    with Client(made.signed) as client:
        for report in (altered, forged(layout, bits)):
            client.send(seal_payloads(study, share_payloads(*split(report, 2, source)), source))
        for _ in range(4):
            client.submit(answers)
        ops_lab.until(lambda: owner.study_status(study).pooled_rows == 4)
        client.submit(answers)
    ops_lab.until(lambda: owner.study_status(study).pending_rows == 1)
    path = f"/studies/{study.id.hex()}"
    text = ops_lab.until(lambda: _with(ops_lab.get("collector", path)[1], '<td class="number">1</td>'))
    plain = " ".join(re.sub("<[^>]+>", " ", text).split())
    for said in (
        "complete, waiting for a batch 1",
        "accepted and added up, not yet published 4",
        "bad_bits 1 bad_products 1",
        "4 reports accepted and added up; all are published together when the study closes",
        "1 batch added up",
        "Both right providers together could read the answers",
        "R1 + R2 every answer",
        "cannot show anybody's answers",
    ):
        assert said in plain.replace("&#39;", "'"), said
    assert "Next block" not in plain
    assert "L1" not in plain


def test_promises_in_words(made_study: Any, make_study: Any) -> None:
    with_noise = promise_words(made_study.study)
    assert len(with_noise) == 4  # strength and guarantee, towards the public and the collector
    assert list(strength_lines(made_study.study)) == with_noise[:2]
    collector = made_study.study.protection.collector
    assert collector is not None
    factor = factor_words(collector.epsilon)
    assert f"a factor of at most {factor}, but for a chance of 1e-06" in with_noise[2]  # the weaker one first
    assert "no differential-privacy guarantee" in promise_words(make_study(sigma=0.0).study)[-1]
    _, moments = promise_words(make_study(suite="moments", sigma=30.0, label="promised").study)
    assert "the other right providers included, as long as one right provider adds its noise" in moments


def _with(text: str, words: str) -> str:
    return text if words in text else ""
