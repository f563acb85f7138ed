"""Over real gRPC: rows collected without noise, answered privately, spent, erased; and never served."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import trimask
from trimask import release
from trimask.errors import ParameterError
from trimask_client import Client
from trimask_client.grpc_status import plain_errors
from trimask_core.errors import Refused
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Budget
from trimask_lab import Lab, exact_gram, some_people, sqlite_only
from trimask_proto.v1 import release_pb2
from trimask_proto.v1.release_pb2_grpc import ReleaseOwnerServiceStub
from trimask_server.protocol.pool import factor_to_bytes


def collect(lab: Lab, budget: Budget, rows: int = 96, seed: int = 5) -> tuple[SignedStudy, Any]:
    signed = lab.open_study(budget=budget)
    people = some_people(rows, seed)
    with Client(signed) as client:
        for answers in people:
            client.submit(answers)
    status = lab.close(signed.study)
    assert (status.published_rows, status.releases) == (0, 0)
    return signed, people


def connect(lab: Lab, signed: SignedStudy) -> trimask.Connection:
    collector = signed.study.collector
    return trimask.connect(
        collector.peer_address,
        roots=lab.owner / "ca.pem",
        tls_name=collector.tls_name,
        certificate=(lab.owner / "tls.pem", lab.owner / "tls.key"),
        cache=lab.folder / "cache",
    )


def test_strangers_may_see_the_budget_and_not_spend_it(
    answering: tuple[Any, SignedStudy, Any, trimask.Connection],
) -> None:
    lab, signed, _, owner = answering
    collector = signed.study.collector
    before = release.budget(owner, signed.study.id)
    with trimask.connect(
        collector.address, roots=lab.owner / "ca.pem", tls_name=collector.tls_name
    ) as stranger:
        assert release.budget(stranger, signed.study.id) == before
        with pytest.raises(Refused, match="needs a token of the study's owner") as caught:
            release.sum(stranger, signed.study.id, ["y"], mu=0.1)
    assert caught.value.reason == "no_token"
    assert release.budget(owner, signed.study.id) == before


@pytest.fixture(scope="module")
def answering(release_lab: Lab) -> Iterator[tuple[Any, SignedStudy, Any, trimask.Connection]]:
    signed, people = collect(release_lab, Budget(40.0, 1e-3, 80.0))
    with connect(release_lab, signed) as connection:
        yield release_lab, signed, people, connection


def test_ask_ask_again_spend_and_be_refused(release_lab: Lab) -> None:
    signed, people = collect(release_lab, Budget(1.0, 1e-6))
    study = signed.study
    with connect(release_lab, signed) as connection:
        before = release.budget(connection, study.id)
        assert (before.state, before.rows, before.left.epsilon, before.entries) == ("answering", 96, 1.0, ())
        first = release.sum(connection, study.id, ["y"], epsilon=0.75, delta=1e-7)
        assert first.answer is not None
        assert first.answer.replayed is False
        # 6 standard deviations: 2e-9.
        truth = sum(person["y"] for person in people)
        assert abs(first.total["y"] - truth) <= 6 * first.noise["y"]
        again = release.sum(
            connection, study.id, ["y"], epsilon=0.75, delta=1e-7, request_id=first.answer.request_id
        )
        assert again.answer is not None
        assert (again.answer.replayed, again.answer.raw) == (True, first.answer.raw)
        with pytest.raises(Refused) as caught:
            release.sum(
                connection, study.id, ["x"], epsilon=0.75, delta=1e-7, request_id=first.answer.request_id
            )
        assert caught.value.reason == "request_conflict"
        with pytest.raises(Refused, match=r"left: epsilon = 0\.25 with delta = 9e-07") as caught:
            release.sum(connection, study.id, ["x"], epsilon=0.5, delta=1e-7)
        assert caught.value.reason == "budget_spent"
        release.pca(connection, study.id, 1, epsilon=0.25, method="exponential")
        after = release.budget(connection, study.id)
        assert (after.state, after.left.epsilon) == ("closed", 0.0)
        assert [(entry.mechanism, entry.state) for entry in after.entries] == [
            ("sum", "answered"), ("principal_components_exponential", "answered"),
        ]  # fmt: skip
        assert "closed" in str(after)
        with pytest.raises(Refused) as caught:
            release.pca(connection, study.id, 1, epsilon=0.1, method="exponential")
        assert caught.value.reason == "budget_spent"
        kept = release.sum(
            connection,
            study.id,
            ["y"],
            epsilon=0.75,
            delta=1e-7,
            request_id=bytes.fromhex(first.answer.request_id),
        )
        assert kept.total["y"] == first.total["y"]


@sqlite_only
def test_no_rows_are_ever_served_or_left_on_disk(release_lab: Lab) -> None:
    signed, people = collect(release_lab, Budget(mu=0.5), seed=6)
    study = signed.study
    with connect(release_lab, signed) as connection:
        assert connection.datasets(study.id) == []
        with pytest.raises(Refused):
            connection.dataset(f"{study.id.hex()[:12]}-1")
        factor = np.linalg.cholesky(exact_gram(study, people)).T
        data = release_lab.folder / "collector" / "data"
        with contextlib.closing(sqlite3.connect(data / "collector.sqlite3")) as store:
            (stored,) = store.execute(
                "SELECT factor FROM releases WHERE study_id = ?", (study.id,)
            ).fetchone()

        def files() -> list[bytes]:
            return [path.read_bytes() for path in data.rglob("*") if path.is_file()]

        # Until the budget is spent it is there, encrypted; after that not even so.
        assert any(stored in content for content in files())
        assert not any(_holds(content, factor) for content in files())
        release.sum(connection, study.id, mu=0.5)
        assert release.budget(connection, study.id).state == "closed"
    assert not any(stored[-24:] in content or _holds(content, factor) for content in files())


def _holds(content: bytes, factor: np.ndarray) -> bool:
    """Whether the file has, at some byte, doubles that are the factor's first row up to sign and rounding."""
    for offset in range(8):
        values = np.frombuffer(content[offset : offset + (len(content) - offset) // 8 * 8], dtype="<f8")
        windows = (
            np.lib.stride_tricks.sliding_window_view(np.abs(values), 3) if values.size >= 3 else values[:0]
        )
        with np.errstate(invalid="ignore", over="ignore"):
            if windows.size and (np.abs(windows - np.abs(factor[0])) < 1e-5).all(axis=1).any():
                return True
    return False


def test_the_search_for_the_factor_finds_it() -> None:
    factor = np.linalg.qr(np.random.default_rng(0).uniform(-1, 1, (9, 3)), mode="r")
    assert _holds(b"abc" + factor_to_bytes(factor) + b"defg", factor)
    assert not _holds(b"abc" + factor_to_bytes(2 * factor) + b"defg", factor)


def test_nothing_is_published_while_rows_come_in(release_lab: Lab) -> None:
    """Two full releases' worth is pooled and the driver has gone idle once before the last rows come."""
    signed = release_lab.open_study(budget=Budget(1.0, 1e-6))
    with Client(signed) as client:
        for rows, pooled in ((144, 120), (24, 144)):
            for answers in some_people(rows, seed=7):
                client.submit(answers)
            status = release_lab.wait(
                signed.study, lambda found, want=pooled: found.pooled_rows + found.published_rows == want
            )
    assert (status.pooled_rows, status.published_rows) == (144, 0)
    release_lab.close(signed.study)
    with connect(release_lab, signed) as connection:
        assert release.budget(connection, signed.study.id).rows == 168
        assert connection.datasets(signed.study.id) == []


def test_fits_come_back_in_original_units(answering: Any) -> None:
    """At mu = 30 the noise on the Gram matrix has sd 0.14, and on slope and intercept about 0.0008 and 0.003: the
    tolerances are 10 of them, false failure far below 1e-9."""
    _, signed, people, connection = answering
    fit = release.ols(connection, signed.study.id, "y ~ x", mu=30.0)
    exact = np.polyfit([p["x"] for p in people], [p["y"] for p in people], 1)
    assert fit.params is not None
    assert fit.units == "original"
    assert fit.params["x"] == pytest.approx(exact[0], abs=0.008)
    assert fit.params["Intercept"] == pytest.approx(exact[1], abs=0.03)
    assert fit.gram is not None
    assert list(fit.gram.values.columns) == ["one", "x", "y"]
    assert fit.gram.values.loc["one", "one"] == pytest.approx(len(people))
    assert "proved" in str(fit)
    assert (np.abs(fit.params["x"] - exact[0]) <= 6 * fit.results.bse_privacy["x"]).all()
    low, high = fit.conf_int().loc["x"]
    assert low < exact[0] < high


def test_one_gram_matrix_is_a_source_for_every_fit(answering: Any) -> None:
    """At mu = 30 the mean of x has noise of sd 0.02: 0.2 is 10 of them."""
    _, signed, people, connection = answering
    before = release.budget(connection, signed.study.id)
    gram = release.gram(connection, signed.study.id, mu=30.0)
    paid = release.budget(connection, signed.study.id)
    assert len(paid.entries) == len(before.entries) + 1
    described = trimask.fit.describe(gram)
    assert described.means.loc["x", "estimate"] == pytest.approx(np.mean([p["x"] for p in people]), abs=0.2)
    assert trimask.fit.ols(gram, "y ~ x").params["x"] == pytest.approx(
        np.polyfit([p["x"] for p in people], [p["y"] for p in people], 1)[0], abs=0.008
    )
    assert trimask.fit.pca(gram, ["x", "y"]).nobs == len(people)
    assert "about the mean" in str(release.pca(connection, signed.study.id, 1, mu=20.0, method="noisy_gram"))
    assert len(release.budget(connection, signed.study.id).entries) == len(paid.entries) + 1


@pytest.mark.filterwarnings("ignore::trimask.release.PaperMechanism")
@pytest.mark.parametrize("method", ["M_LS", "M_ALS"])
def test_private_fits(answering: Any, method: str) -> None:
    _, signed, _, connection = answering
    fit = release.ols(
        connection,
        signed.study.id,
        "y",
        ["one", "x"],
        epsilon=4.0,
        delta=1e-5,
        method=method,
        floor_share=0.1,
    )
    assert fit.params is not None
    assert list(fit.params.index) == ["Intercept", "x"]
    assert fit.guarantee.neighbours.relation == "record"
    assert (fit.guarantee.epsilon, fit.guarantee.delta) == (4.0, 1e-5)


def test_a_gram_matrix_under_its_noise_gives_no_numbers(answering: Any) -> None:
    _, signed, _, connection = answering
    for _ in range(
        20
    ):  # each is not positive definite with probability above 0.9: 20 in a row are below 1e-20
        fit = release.ols(connection, signed.study.id, "y", ["one", "x"], mu=0.001)
        if fit.params is None:
            break
    assert fit.params is None
    assert "no coefficients" in str(fit)


@pytest.mark.filterwarnings("ignore::trimask.release.PaperMechanism")
def test_projection_and_components(answering: Any) -> None:
    _, signed, _, connection = answering
    sketch = release.projection(connection, signed.study.id, epsilon=1.0, delta=1e-5, reduced_dim=4)
    assert sketch.values.shape == (3, 4)
    assert list(sketch.values.index) == ["one", "x", "y"]
    found = release.pca(connection, signed.study.id, 1, mu=20.0)
    assert found.achievable
    assert found.components is not None
    assert np.linalg.norm(found.components) == pytest.approx(1.0)
    assert "Private components" in str(found)
    assert "noise sd" in str(sketch)


@pytest.mark.filterwarnings("ignore::trimask.release.PaperMechanism")
def test_bad_questions_cost_nothing(answering: Any) -> None:
    _, signed, _, connection = answering
    study_id = signed.study.id
    before = release.budget(connection, study_id)
    refusals = {
        "unknown_column": lambda: release.sum(connection, study_id, ["z"], mu=0.1),
        "collinear_columns": lambda: release.sum(connection, study_id, ["x", "x"], mu=0.1),
        "not_declared": lambda: release.sum(connection, study_id, mu=0.1, method="clipped"),
        "pay_with_epsilon": lambda: release.ols(connection, study_id, "y ~ x", mu=0.1, method="M_LS"),
        "malformed": lambda: release.pca(connection, study_id, 3, mu=0.1),
        "budget_spent": lambda: release.sum(connection, study_id, mu=1000.0),
        "unknown_study": lambda: release.budget(connection, bytes(32)),
    }
    for reason, ask in refusals.items():
        with pytest.raises(Refused) as caught:
            ask()
        assert caught.value.reason == reason
    for bad in ({}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6, "mu": 1.0}):
        with pytest.raises(ParameterError, match="price"):
            release.sum(connection, study_id, **bad)
    with pytest.raises(ParameterError, match="method"):
        release.sum(connection, study_id, mu=0.1, method="cauchy")
    for bad_id in ("xyz", b"short"):
        with pytest.raises(ParameterError, match="request_id"):
            release.sum(connection, study_id, mu=0.1, request_id=bad_id)
    assert release.budget(connection, study_id) == before


def test_too_few_rows_are_erased_and_nothing_is_answered(release_lab: Lab) -> None:
    signed, _ = collect(release_lab, Budget(1.0, 1e-6), rows=30)
    with connect(release_lab, signed) as connection:
        assert release.budget(connection, signed.study.id).state == "closed"
        with pytest.raises(Refused) as caught:
            release.sum(connection, signed.study.id, epsilon=0.5, delta=1e-7)
        assert caught.value.reason == "too_few_rows"
        assert release.budget(connection, signed.study.id).entries == ()


def test_a_restarted_collector_remembers(release_lab: Lab) -> None:
    signed, _ = collect(release_lab, Budget(1.0, 1e-6))
    with connect(release_lab, signed) as connection:
        first = release.sum(connection, signed.study.id, epsilon=0.5, delta=1e-7)
        release_lab.stop("collector")
        release_lab.start("collector")
    with connect(release_lab, signed) as connection:
        shown = release.budget(connection, signed.study.id)
        assert (shown.state, shown.left.epsilon) == ("answering", 0.5)
        assert first.answer is not None
        again = release.sum(
            connection, signed.study.id, epsilon=0.5, delta=1e-7, request_id=first.answer.request_id
        )
        assert list(again.total) == list(first.total)
        release.sum(connection, signed.study.id, epsilon=0.5, delta=1e-7)
        assert release.budget(connection, signed.study.id).state == "closed"


def test_only_the_owner_ends_answers(release_lab: Lab) -> None:
    signed, _ = collect(release_lab, Budget(1.0, 1e-6))
    request = release_pb2.EndReleasesRequest(study_id=signed.study.id)
    with connect(release_lab, signed) as connection:
        for name, allowed in (("R1", False), ("owner", True)):
            with release_lab.channel_as(name, "collector") as channel:
                if allowed:
                    ReleaseOwnerServiceStub(channel).EndReleases(request, timeout=10)
                    continue
                with pytest.raises(Refused) as caught, plain_errors("collector"):
                    ReleaseOwnerServiceStub(channel).EndReleases(request, timeout=10)
                assert caught.value.reason == "not_the_owner"
            assert release.budget(connection, signed.study.id).state == "answering"
        shown = release.budget(connection, signed.study.id)
        assert (shown.state, shown.left.epsilon) == ("closed", 1.0)
        with pytest.raises(Refused) as caught:
            release.sum(connection, signed.study.id, epsilon=0.5, delta=1e-7)
        assert caught.value.reason == "budget_spent"
