"""The owner's console in a real browser: signing in, what it shows, its forms, and who is kept out."""

from __future__ import annotations

import http.client
import io
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

import trimask
from trimask_browser import ARGUMENTS, CHROMIUM, CONTRAST, needs_browser
from trimask_cli import owner
from trimask_client import Client
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import Refused
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_core.study.progress import Closing
from trimask_patience import patience
from trimask_server.collector.console import (
    Session,
    chart_values,
    form_token_fits,
    invitation_values,
    together_words,
)
from trimask_server.collector.ledger import Invited, Ledger


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


def _token(lab: Any, signed: Any, *scopes: str) -> str:
    text, _ = owner.new_token(
        signed.study, lab.folder / "owner", "me", list(scopes), SystemClock().now_ms() + 3_600_000, None
    )
    return text


@pytest.fixture(scope="module")
def filled(ops_lab: Any) -> Any:
    """A study with rows, and a refusal of its own."""
    signed = ops_lab.open_study("A console's study")
    with Client(signed, attempts=1) as client:
        for hour in range(20):
            client.submit({"hours": hour / 3, "rested": True})
        good = client.prepare({"hours": 1.0, "rested": True})
        with pytest.raises(Refused):
            client.send(type(good)(good.study_id, good.submission_id, (bytes(120), bytes(120))))
    ops_lab.until(lambda: owner.study_status(signed.study).pending_rows == 20)
    return signed


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_an_owner_signs_in_and_sees_the_study(
    ops_lab: Any, filled: Any, browser: Browser, width: int, scheme: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=True
    )
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"{ops_lab.http('collector')}/console")
    page.get_by_label("The owner's token").fill(_token(ops_lab, filled, "owner"))
    page.get_by_role("button", name="Sign in").click()
    assert page.locator("h1").inner_text() == "A console's study"
    assert complaints == []
    text = page.locator("main").inner_text()
    assert "20 complete submissions" in text
    assert "Waiting because: 20 complete answers wait" in text
    assert "tampered_component" in text
    assert "erased for ever" in text  # what closing would do
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert min(page.evaluate(CONTRAST))[0] >= 4.5
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/console")
    owner.close_study(filled.study, ops_lab.folder / "owner", close_ms=4_073_652_000_000)
    page.reload()
    assert "It will close on 2099-02-01 18:00 UTC, as" in page.locator("main").inner_text()
    owner.close_study(filled.study, ops_lab.folder / "owner", people=2000)

    async def three_days(*_: Any) -> list[tuple[int, int]]:
        return [(20000, 3), (20001, 11), (20002, 20)]

    monkeypatch.setattr(Ledger, "days", three_days)
    page.reload()
    assert "It will close with 2,000 people" in page.locator("main").inner_text()
    assert page.get_by_role("img").get_attribute("aria-label") is not None
    assert page.locator("svg polyline").bounding_box()["width"] > width / 4
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert owner.study_status(filled.study).state == "open"
    page.get_by_role("button", name="Sign out").click()
    assert page.locator("h1").inner_text() == "Owner's console"
    page.goto(f"{ops_lab.http('collector')}/console/studies/{filled.study.id.hex()}")
    assert page.locator("h1").inner_text() == "Owner's console"
    context.close()


def _ask(
    lab: Any, method: str, path: str, form: dict[str, str] | None = None, **headers: str
) -> tuple[int, str]:
    address = urllib.parse.urlsplit(lab.http("collector")).netloc
    line = http.client.HTTPConnection(address, timeout=patience(20))
    body = None if form is None else urllib.parse.urlencode(form)
    sent = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
    line.request(
        method, path, body, sent | {name.replace("_", "-"): value for name, value in headers.items()}
    )
    answer = line.getresponse()
    text = answer.read().decode() + "\n".join(f"{name}: {value}" for name, value in answer.getheaders())
    line.close()
    return answer.status, text


def test_who_may_not_is_kept_out(ops_lab: Any, filled: Any) -> None:
    page = f"/console/studies/{filled.study.id.hex()}"
    cookie = f"trimask_owner_{filled.study.id.hex()[:16]}="
    mine = cookie + _token(ops_lab, filled, "owner")
    sure = {"count": "60", "expires": "2099-01-01"}
    # A stranger, a researcher, a forged form, a form from elsewhere: nothing is shown or done.
    assert _ask(ops_lab, "GET", page)[0] == 303
    assert _ask(ops_lab, "GET", page, Cookie=cookie + _token(ops_lab, filled, "datasets"))[0] == 303
    assert _ask(ops_lab, "POST", f"{page}/invited", sure)[0] == 303
    status, text = _ask(ops_lab, "POST", f"{page}/invited", sure, Cookie=mine)
    assert (status, "not sent from this page" in text) == (409, True)
    word = _ask(ops_lab, "GET", page, Cookie=mine)[1].split('name="form_token" value="')[1][:64]
    elsewhere = _ask(
        ops_lab,
        "POST",
        f"{page}/invited",
        sure | {"form_token": word},
        Cookie=mine,
        Origin="http://evil.example",
    )
    assert elsewhere[0] == 409
    status, text = _ask(ops_lab, "POST", "/console/sign-in", {"token": "trimask_" + "A" * 43})
    assert (status, "Make another as said below" in text) == (403, True)
    # A sandboxed frame elsewhere sends the same Origin as these pages, "null": the browser says which it is.
    whole = {"token": mine.partition("=")[2]}
    framed = _ask(ops_lab, "POST", "/console/sign-in", whole, Origin="null", Sec_Fetch_Site="cross-site")
    assert (framed[0], "another page" in framed[1], "Set-Cookie" in framed[1]) == (403, True, False)
    assert (
        _ask(ops_lab, "POST", "/console/sign-in", whole, Origin="null", Sec_Fetch_Site="same-origin")[0]
        == 303
    )
    assert owner.study_status(filled.study).state == "open"
    policy = _ask(ops_lab, "GET", "/console")[1]
    assert "form-action 'self'" in policy
    assert "<script" not in policy


def test_a_study_is_closed_and_its_files_fetched(ops_lab: Any, tmp_path: Path) -> None:
    signed = ops_lab.open_study("To be closed")
    with Client(signed, attempts=1) as client:
        for hour in range(33):
            client.submit({"hours": hour / 3, "rested": False})
    page = f"/console/studies/{signed.study.id.hex()}"
    mine = f"trimask_owner_{signed.study.id.hex()[:16]}=" + _token(ops_lab, signed, "owner")
    word = _ask(ops_lab, "GET", page, Cookie=mine)[1].split('name="form_token" value="')[1][:64]
    noted = {"count": "60", "expires": "2099-01-01", "form_token": word}
    assert _ask(ops_lab, "POST", f"{page}/invited", noted, Cookie=mine)[0] == 303
    assert "trimask study close" in _ask(ops_lab, "GET", page, Cookie=mine)[1]
    owner.close_study(signed.study, ops_lab.folder / "owner", Closing(33, 0, 0, ""))
    ops_lab.until(lambda: owner.study_status(signed.study).state == "closed")
    text = _ask(ops_lab, "GET", page, Cookie=mine)[1]
    name = text.split(f"{page}/datasets/")[1].split("/")[0]
    status, manifest = _ask(ops_lab, "GET", f"{page}/datasets/{name}/manifest.json", Cookie=mine)
    assert (status, '"rows": 33' in manifest or '"rows":33' in manifest) == (200, True)
    assert _ask(ops_lab, "GET", f"{page}/datasets/{name}/..%2f..%2fstore", Cookie=mine)[0] == 404
    assert _ask(ops_lab, "GET", f"{page}/datasets/{name}/manifest.json")[0] == 303
    assert "download all" in text
    assert _ask(ops_lab, "GET", f"{page}/datasets.tar")[0] == 303
    line = http.client.HTTPConnection(
        urllib.parse.urlsplit(ops_lab.http("collector")).netloc, timeout=patience(20)
    )
    line.request("GET", f"{page}/datasets.tar", headers={"Cookie": mine})
    with tarfile.open(fileobj=io.BytesIO(line.getresponse().read())) as archive:
        archive.extractall(tmp_path, filter="data")
    line.close()
    assert trimask.Dataset.open(tmp_path / name).rows == 33


def test_several_studies_say_what_they_can_tell_together(ops_lab: Any, filled: Any) -> None:
    other = ops_lab.open_study("Another of the owner's")
    mine = "; ".join(
        f"trimask_owner_{one.study.id.hex()[:16]}=" + _token(ops_lab, one, "owner") for one in (filled, other)
    )
    shown = _ask(ops_lab, "GET", "/console", Cookie=mine)[1]
    assert "not counted" in shown  # these studies are exact
    promise = Guarantee(Neighbours("record"), "proved", "for a test", "none", epsilon=1.5, delta=1e-6)
    noisy = replace(filled.study.protection, public=promise)
    studies = [SimpleNamespace(title="t", protection=noisy), SimpleNamespace(title="u", protection=noisy)]
    assert "epsilon 3 at delta 2e-06" in together_words(studies)
    assert together_words(studies[:1]) == ""


def test_invitations_are_counted() -> None:
    made = [Invited(0, 100, 10), Invited(5, 50, 1000)]
    found = invitation_values(made, [(20000, 30), (20001, 70)], 70, 100)
    assert {key: found[key] for key in ("made", "used", "expired", "unused", "rate")} == {
        "made": 150, "used": 70, "expired": 30, "unused": 50, "rate": "47%",
    }  # fmt: skip
    assert [(item["came"], item["total"]) for item in found["days"]] == [(30, 30), (40, 70)]


def test_response_is_drawn_over_time_beside_the_least_number_and_the_target() -> None:
    assert chart_values([(20000, 30)], 64, 100) is None
    found = chart_values([(20000, 0), (20010, 80), (20020, 110)], 64, 100)
    assert found is not None
    assert found["points"] == "0,160 300,54 600,15"  # of 121, a tenth above the largest
    assert [(mark["key"], mark["people"], mark["y"]) for mark in found["marks"]] == [
        ("least", 64, "75"), ("target", 100, "28"),
    ]  # fmt: skip
    assert found["words"] == (
        "From 2024-10-04 to 2024-10-24: 0 to 110 complete submissions; least number published 64, target 100."
    )


_FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(("headers", "body", "status"), [
    ({"Content-Type": "multipart/form-data"}, b"abc", 400),
    ({"Content-Type": "multipart/form-data; boundary=a"}, b"abc", 400),
    ({"Content-Type": f"{_FORM}; charset=nonsense"}, b"token=abc", 400),
    ({"Content-Type": _FORM}, b"token=\xff\xfe", 400),
    ({"Content-Type": _FORM, "Content-Encoding": "gzip"}, b"token=abc", 400),
    ({"Content-Type": _FORM, "Origin": "http://["}, b"token=abc", 403),
    ({"Content-Type": _FORM, "Content-Length": "70000"}, bytes(70_000), 413),
])  # fmt: skip
def test_repro_what_no_browser_sends_is_refused_without_a_traceback(
    ops_lab: Any, caplog: pytest.LogCaptureFixture, headers: dict[str, str], body: bytes, status: int
) -> None:
    """A stranger wrote a traceback into the log with every such request."""
    sent = urllib.request.Request(  # noqa: S310 - this test's own node
        ops_lab.http("collector") + "/console/sign-in", data=body, headers=headers
    )
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(sent, timeout=patience(20))  # noqa: S310
    raised.value.close()
    assert raised.value.code == status
    assert "Error handling request" not in caplog.text


def test_repro_a_forms_token_may_have_any_letters() -> None:
    assert not form_token_fits(Session(None, "abc"), "\xe4\udc80")  # type: ignore[arg-type]
    assert form_token_fits(Session(None, "abc"), "abc")  # type: ignore[arg-type]
