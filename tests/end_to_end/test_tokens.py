"""Researchers' tokens: what one opens, what it does not, and how it ends."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trimask
from trimask import release
from trimask.errors import ParameterError, Refused
from trimask_cli import owner
from trimask_core.basics.clock import SystemClock
from trimask_core.study.guarantee import Budget
from trimask_core.study.signed import SignedStudy
from trimask_lab import Lab, some_people
from trimask_moments import moments_people, open_moments, submit_all

FAR = 4_000_000_000_000
Connect = Callable[..., trimask.Connection]


@pytest.fixture(scope="module")
def site(lab: Lab) -> Any:
    """A closed study with a dataset for token holders, and a closed one that gives private answers."""
    studies = {
        "datasets": lab.open_study(access="token"),
        "releases": open_moments(lab, budget=Budget(4.0, 1e-5)),
    }
    for signed, people in zip(studies.values(), (some_people(48, seed=5), moments_people(48)), strict=True):
        submit_all(signed, people)
        lab.close(signed.study)
    return studies


@pytest.fixture
def connect(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connect:
    monkeypatch.delenv("TRIMASK_TOKEN", raising=False)
    collector = lab.parties["collector"]

    def make(token: str | None = None) -> trimask.Connection:
        return trimask.connect(
            collector.address,
            roots=lab.owner / "ca.pem",
            tls_name=collector.tls_name,
            cache=tmp_path,
            token=token,
        )

    return make


def new(lab: Lab, signed: SignedStudy, *scopes: str, expires_ms: int = FAR) -> str:
    return owner.new_token(signed.study, lab.owner, "Ada", list(scopes), expires_ms, None)[0]


def reason_of(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        call()
    return str(caught.value.reason)


def test_datasets_of_a_token_only_study(lab: Lab, site: Any, connect: Connect) -> None:
    study = site["datasets"].study
    dataset_id = f"{study.id.hex()[:12]}-1"
    with connect() as stranger:
        assert dataset_id not in [info.id for info in stranger.datasets()]  # not even listed
        for call in (
            lambda: stranger.datasets(study.id),
            lambda: stranger.manifest(dataset_id),
            lambda: stranger.dataset(dataset_id),
        ):
            assert reason_of(call) == "bad_token"
        assert stranger.study(study.id).access == "token"  # what is studied, everybody may know
    with connect(new(lab, site["datasets"], "datasets")) as researcher:
        assert [info.id for info in researcher.datasets(study.id)] == [dataset_id]
        assert dataset_id in [info.id for info in researcher.datasets()]
        assert researcher.dataset(dataset_id).rows == 48


def test_tokens_that_do_not_open_it(lab: Lab, site: Any, connect: Connect) -> None:
    study = site["datasets"].study
    for token, reason in (
        (new(lab, site["datasets"], "releases"), "not_your_role"),
        (new(lab, site["releases"], "datasets"), "not_your_role"),  # another study's
        ("trimask_" + "A" * 43, "bad_token"),
        ("Ada's", "bad_token"),
    ):
        with connect(token) as researcher:
            assert reason_of(lambda: researcher.datasets(study.id)) == reason


def test_a_token_ends_when_its_time_is_over(lab: Lab, site: Any, connect: Connect) -> None:
    text = new(lab, site["datasets"], "datasets", expires_ms=int(time.time() * 1000) + 60_000)
    with connect(text) as researcher:
        assert researcher.datasets(site["datasets"].study.id)
        with lab.at_another_time("collector", _Later()):
            assert reason_of(lambda: researcher.datasets(site["datasets"].study.id)) == "bad_token"


class _Later(SystemClock):
    """Soon; sleeping takes as long as ever."""

    def now_ms(self) -> int:
        return super().now_ms() + 60_001


def test_a_revoked_token_is_refused_at_once_and_stays_listed(lab: Lab, site: Any, connect: Connect) -> None:
    study = site["datasets"].study
    text, made = owner.new_token(study, lab.owner, "Grace", ["datasets"], FAR, None)
    with connect(text) as researcher:
        assert researcher.datasets(study.id)
        for _ in range(2):  # revoking twice is revoking once
            owner.revoke_token(study, lab.owner, made["id"])
        assert reason_of(lambda: researcher.datasets(study.id)) == "bad_token"
        # A token that is none is said to be none even where none is needed.
        assert reason_of(researcher.studies) == "bad_token"
    (listed,) = [item for item in owner.tokens(study, lab.owner) if item["id"] == made["id"]]
    assert (listed["state"], listed["name"]) == ("revoked", "Grace")
    assert reason_of(lambda: owner.revoke_token(study, lab.owner, "0" * 16)) == "unknown_name"


def test_private_answers_are_asked_with_a_token_on_the_public_port(
    lab: Lab, site: Any, connect: Connect
) -> None:
    study = site["releases"].study
    ask: dict[str, Any] = {"columns": ["age"], "epsilon": 0.5, "delta": 1e-7}
    for token, reason in (
        (None, "bad_token"),
        (new(lab, site["releases"], "datasets"), "not_your_role"),
        (new(lab, site["datasets"], "releases"), "not_your_role"),
    ):
        with connect(token) as stranger:
            before = release.budget(stranger, study.id)
            assert reason_of(lambda: release.sum(stranger, study.id, **ask)) == reason
            assert release.budget(stranger, study.id) == before
    with connect(new(lab, site["releases"], "releases")) as researcher:
        answer = release.sum(researcher, study.id, **ask)
        assert len(answer.total) == 1
        assert release.budget(researcher, study.id).spent.epsilon == 0.5


def test_the_token_comes_from_the_environment(
    lab: Lab, site: Any, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMASK_TOKEN", new(lab, site["datasets"], "datasets"))
    with connect() as researcher:
        assert researcher.datasets(site["datasets"].study.id)
    with pytest.raises(ParameterError, match="token"):
        connect("two words")


def test_a_token_is_kept_as_its_hash_and_in_no_log(lab: Lab, site: Any) -> None:
    text = new(lab, site["datasets"], "datasets")
    files = [path for path in (lab.folder / "collector").rglob("*") if path.is_file()]
    assert not [path for path in files if text.removeprefix("trimask_").encode() in path.read_bytes()]
    secret = base64.urlsafe_b64decode(text.removeprefix("trimask_") + "=")
    kept = (hashlib.sha256(secret).digest(),)
    assert lab.query("collector", "SELECT token_hash FROM tokens WHERE token_hash = ?", kept) == [kept]


@pytest.mark.parametrize(
    ("name", "scopes", "expires_ms"),
    [
        ("", ["datasets"], FAR),
        ("x" * 81, ["datasets"], FAR),
        ("a\nb", ["datasets"], FAR),
        ("Ada", [], FAR),
        ("Ada", ["everything"], FAR),
        ("Ada", ["datasets", "datasets"], FAR),
        ("Ada", ["datasets"], 5),
    ],
)
def test_what_no_token_is_made_of(lab: Lab, site: Any, name: str, scopes: list[str], expires_ms: int) -> None:
    study = site["datasets"].study
    assert reason_of(lambda: owner.new_token(study, lab.owner, name, scopes, expires_ms, None)) == "malformed"
