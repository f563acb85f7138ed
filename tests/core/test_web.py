"""Where a page may be shown: origins read exactly, in the signed study, and what is weak in them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from trimask_core.basics.errors import ImpossibleStudy, StudyError
from trimask_core.study.definition import Study
from trimask_core.study.party import Web, check_origin, short_code
from trimask_core.study.signed import SignedStudy
from trimask_core.study.weaknesses import findings, weaknesses

PAGE = "ab" * 32
HOST = "https://survey.example"


@pytest.fixture
def browsed(make_study: Any) -> Study:
    """A study that a page may show."""
    made = make_study(label="web")
    ported = {
        role: replace(party, https=f"https://{role.lower()}.example:8443")
        for role, party in made.study.parties.items()
        if not role.startswith("L")
    }
    study: Study = make_study(label="web", parties=ported, web=Web((HOST,), PAGE)).study
    return study


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (HOST, "survey.example"),
        ("https://survey.example:8443", "survey.example"),
        ("https://xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("https://[2001:db8::1]:8443", "[2001:db8::1]"),
    ],
)
def test_origins(origin: str, host: str) -> None:
    assert check_origin(origin, "web.hosts") == host


@pytest.mark.parametrize(
    "origin",
    [
        "", "*", "null", "https://", "https://*", "https://*.example", "survey.example", "https://survey.example/",
        "https://survey.example/s", "https://Survey.example", "HTTPS://survey.example", "https://me@survey.example",
        "https://survey.example:443", "https://survey.example:0", "https://survey.example:65536", "https://survey.example:080",
        "https://survey.example\n", "https://survey.example https://other.example", "https://survey.example#x",
        "https://survey.example?x", "https://bücher.example", "wss://survey.example", "http://survey.example",
        "https://survey..example", "https://-.example", None, 5, ["https://survey.example"],
    ],
)  # fmt: skip
def test_what_is_no_origin(origin: Any) -> None:
    with pytest.raises(ImpossibleStudy, match=r"web\.hosts") as caught:
        check_origin(origin, "web.hosts", development=True)
    assert caught.value.reason == "web_origin"


def test_http_is_for_this_machine_alone() -> None:
    for origin in ("http://localhost", "http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"):
        check_origin(origin, "web.hosts", development=True)
        with pytest.raises(ImpossibleStudy, match="must begin with https"):
            check_origin(origin, "https of R1")
    for origin in ("http://localhost.example", "http://127.0.0.2", "http://localhost:80"):
        with pytest.raises(ImpossibleStudy):
            check_origin(origin, "web.hosts", development=True)


@pytest.mark.parametrize(
    ("hosts", "page", "reason"),
    [
        ((), PAGE, "web_hosts"),
        ((HOST, HOST), PAGE, "web_hosts"),
        ((HOST,), "", "page_sha256"),
        ((HOST,), PAGE.upper(), "page_sha256"),
        ((HOST,), PAGE[:-1], "page_sha256"),
        ((HOST,), None, "page_sha256"),
        ((HOST, "http://survey.example"), PAGE, "web_origin"),
    ],
)
def test_a_web_table_that_cannot_be(hosts: tuple[str, ...], page: Any, reason: str) -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        Web(hosts, page)
    assert caught.value.reason == reason


def test_the_signed_study_has_it(browsed: Study) -> None:
    again = Study.from_dict(json.loads(browsed.canonical))
    assert again == browsed
    assert again.web == Web((HOST,), PAGE)
    assert again.right[0].https == "https://r1.example:8443"
    others = [
        replace(browsed, web=None),
        replace(browsed, web=Web((HOST, "https://other.example"), PAGE)),
        replace(browsed, web=Web((HOST,), "cd" * 32)),
        replace(browsed, collector=replace(browsed.collector, https="https://elsewhere.example")),
    ]
    assert len({study.id for study in (browsed, *others)}) == len(others) + 1
    assert SignedStudy.from_json(SignedStudy(browsed).to_json()).study.web == browsed.web


def test_every_party_a_page_calls_needs_a_port(browsed: Study) -> None:
    without = replace(browsed.right[1], https="")
    with pytest.raises(ImpossibleStudy, match=r"R2 has no https port.*https_listen") as caught:
        replace(browsed, right=(browsed.right[0], without, *browsed.right[2:]))
    assert caught.value.reason == "web_https"
    with pytest.raises(ImpossibleStudy, match="collector has no https port"):
        replace(browsed, collector=replace(browsed.collector, https=""))
    with pytest.raises(StudyError, match="https of R2"):
        replace(without, https="http://r2.example")


def test_who_hosts_the_page_is_looked_at(browsed: Study) -> None:
    assert "page_host" in {item.what for item in findings(browsed)}
    assert "page_host" not in {item.what for item in weaknesses(browsed)}
    own = replace(browsed, web=Web(("https://collector.example",), PAGE))
    (weak,) = (item for item in weaknesses(own) if item.what == "page_host")
    assert "could read alone" in weak.why
    trial = replace(browsed, web=Web((HOST, "http://localhost:8000"), PAGE))
    assert "page_trial" in {item.what for item in weaknesses(trial)}


def test_short_codes_are_of_the_study() -> None:
    assert short_code(bytes(32)) == "aaaaaaaa"
    assert short_code(bytes(range(32))) == "aaaqeaye"
