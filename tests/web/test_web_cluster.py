"""The browser's device library, run by node, on a real cluster: what is published is what was answered, in both suites."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_cli import invitations
from trimask_core.study.party import Web
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import Receipt
from trimask_https import PAGE_HASH, WEB
from trimask_lab import NUMBERS, Lab, exact_gram, some_people
from trimask_moments import exact_totals, moments_people, open_moments
from trimask_web import run_node

FAR = 4_000_000_000_000


@pytest.fixture(scope="module")
def rows_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Four right providers, so that components have tags."""
    lab = Lab(tmp_path_factory.mktemp("web"), 4, 2, https=True)
    with lab.in_thread(request):
        yield lab


@pytest.fixture(scope="module")
def moments_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("moments"), 2, 0, https=True)
    with lab.in_thread(request):
        yield lab


def take_part(
    lab: Lab, signed: SignedStudy, people: list[dict[str, Any]], folder: Path, code: str = ""
) -> Any:
    """Everybody's answers from a browser's library; the providers' receipts verify here, too."""
    path = folder / "people.json"
    path.write_text(json.dumps(people), encoding="utf-8")
    study = signed.study
    given = [study.collector.https, study.id.hex(), path, *([code] if code else [])]
    found = json.loads(
        run_node(
            "tests/web/take_part.js", *given, environment={"NODE_EXTRA_CA_CERTS": str(lab.owner / "ca.pem")}
        )
    )
    assert (found["title"], found["newestKeys"]) == (study.title, True)
    assert found["withdrawn"] == [f"R{k}" for k in range(1, lab.right + 1)]
    for text in found["receipts"]:
        receipt = Receipt.from_json(text)
        receipt.verify(study)
        assert receipt.to_json() == text
    return found


def test_rows_from_the_browser_s_library(rows_lab: Lab, tmp_path: Path) -> None:
    """Tags, the providers' check of every row, masking and unmasking: the Gram matrix is exactly that of these people."""
    signed = rows_lab.open_study(NUMBERS + WEB)
    assert signed.study.rows.tag_holders
    people = some_people(48, seed=3)
    found = take_part(rows_lab, signed, people, tmp_path)
    assert found["noBudget"] == "no_budget"
    assert len(found["receipts"]) == 48
    assert rows_lab.close(signed.study).published_rows == 48
    (dataset,) = rows_lab.datasets(signed.study)
    exact = exact_gram(signed.study, people)
    assert np.abs(dataset.gram(units="scaled").to_numpy() - exact).max() <= 1e-7 * np.abs(exact).max()


def test_an_invitation_is_used_once(rows_lab: Lab, tmp_path: Path) -> None:
    """Withdrawn, it cannot be used again: its key is bound to the first submission for ever."""
    signed = rows_lab.open_study(NUMBERS + WEB, admission="invited")
    (link,) = invitations.make_invitations(signed.study, rows_lab.owner, 1, FAR, lambda _: None)
    found = take_part(rows_lab, signed, some_people(1, seed=4), tmp_path, link.code)
    assert (found["second"], found["receipts"]) == ("used", [])


def test_moments_from_the_browser_s_library(moments_lab: Lab, tmp_path: Path) -> None:
    """Every proof passes the real check, and the sums are those of these people."""
    web = Web(("https://survey.example",), PAGE_HASH)
    signed = open_moments(moments_lab, release_rows=12, ball_norm=2.0, web=web)
    people = moments_people(12)
    take_part(moments_lab, signed, people, tmp_path)
    assert moments_lab.close(signed.study).published_rows == 12
    folder = moments_lab.folder / "collector" / "data" / "datasets"
    (path,) = folder.glob(f"{signed.study.id.hex()[:12]}-*/moments.json")
    release = json.loads(path.read_text())
    first, products = exact_totals(signed.study, people)
    assert (release["accepted"], release["first"], release["products"]) == (12, first, products)
