"""Private answers of the moments suite over real gRPC: what is asked, charged at whom, answered with which noise."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import trimask
from trimask import release
from trimask.errors import ParameterError, VerificationError
from trimask.release.asking import ask_collector, price_of
from trimask.release.gathered import read_gathered
from trimask_cli import owner
from trimask_cli.study_file import write_signed
from trimask_client import Client
from trimask_client.grpc_channel import plain_errors
from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.moments.field import signed
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget
from trimask_core.study.signed import SignedStudy
from trimask_lab import Lab, sqlite_only
from trimask_moments import exact_totals, moments_people, open_moments, submit_all
from trimask_patience import patience
from trimask_proto.v1 import release_pb2
from trimask_proto.v1.release_pb2_grpc import ReleaseOwnerServiceStub
from trimask_rogue import back_up, restore
from trimask_server.suites.moments.batch_store import KeptLedger
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_server.suites.moments.publisher import Gathered, ReleaseLedger, gather
from trimask_terminal.device.program import main as device_main
from trimask_terminal.program import main
from trimask_theory.moments.moments_question import MomentsQuestion

PEOPLE = moments_people(90)


@pytest.fixture
def lab(release_lab: Lab) -> Lab:
    return release_lab


def collect(lab: Lab, budget: Budget, **settings: Any) -> SignedStudy:
    signed = open_moments(lab, budget=budget, release_rows=30, **settings)
    submit_all(signed, PEOPLE)
    status = lab.close(signed.study)
    assert (status.published_rows, status.releases) == (0, 0)
    return signed


def connect(lab: Lab, study: Study) -> trimask.Connection:
    return trimask.connect(
        study.collector.peer_address,
        roots=lab.owner / "ca.pem",
        tls_name=study.collector.tls_name,
        certificate=(lab.owner / "tls.pem", lab.owner / "tls.key"),
        cache=lab.folder / "cache",
    )


def charged(lab: Lab, study: Study) -> list[list[dict[str, Any]]]:
    """What each right provider has in the ledger beside its keys."""
    found = []
    for k in range(1, lab.right + 1):
        with KeptLedger(lab.folder / f"R{k}", study.id).locked() as ledger:
            found.append(list(ledger.entries))
    return found


def counts(lab: Lab, study: Study) -> list[int]:
    return [len(entries) for entries in charged(lab, study)]


def ask_providers(lab: Lab, study: Study, question: MomentsQuestion) -> Gathered:
    """As a collector would that keeps no ledger of its own."""
    node = lab.nodes("collector")[0].context
    number, batches = lab.on_loop(ReleaseLedger(node.database).answered_from(study.id))
    return lab.on_loop(gather(node, study, number, batches, question.canonical()))


def natural_rows(study: Study) -> dict[str, np.ndarray]:
    layout = study.moments.layout
    z = [layout.encode(person).z for person in PEOPLE]
    return {column.name: np.array([column.value(row) for row in z]) for column in layout.natural}


def test_sums_moments_and_a_fit_are_what_was_answered_with_the_noise_that_is_stated(lab: Lab) -> None:
    study = collect(lab, Budget(200.0, 1e-3, 500.0)).study
    rows = natural_rows(study)
    with connect(lab, study) as connection:
        before = release.budget(connection, study.id)
        assert (before.state, before.rows, before.entries) == ("answering", 90, ())
        found = release.sum(connection, study.id, mu=50.0)
        assert list(found.total.index) == [name for name in rows if name != "one"]
        # 6 standard deviations a number, 22 numbers in this test: below 1e-7 in all.
        for name, noise in found.noise.items():
            assert 0 < abs(found.total[name] - rows[str(name)].sum()) <= 6 * noise
        assert (found.guarantee.mu, found.guarantee.basis) == (pytest.approx(50.0), "proved")
        assert "fewer than 1 of the 3 right providers" in found.guarantee.because
        names = ["one", "age", "smoker", "region_north", "bmi"]
        moments = release.gram(connection, study.id, names, epsilon=40.0, delta=1e-5)
        exact = np.array([[rows[a] @ rows[b] for b in names] for a in names])
        assert moments.units == "original"
        assert (
            (np.abs(moments.values.loc[names, names] - exact) <= 6 * moments.noise.loc[names, names] + 1e-6)
            .to_numpy()
            .all()
        )
        assert moments.values.loc["one", "one"] == 90
        fit = release.ols(connection, study.id, "bmi", names[:-1], epsilon=40.0, delta=1e-5)
        assert fit.answer is not None
        # Products of the same columns at the same price are one question, whatever is made of them.
        assert (fit.answer.replayed, fit.units) == (True, "original")
        X = np.column_stack([rows[name] for name in names[:-1]])
        truth = np.linalg.lstsq(X, rows["bmi"], rcond=None)[0]
        assert fit.params is not None
        assert fit.results is not None
        assert (np.abs(fit.params - truth) <= 6 * fit.results.bse_privacy + 1e-6).all()
        assert "std err" in str(fit)
        # The same answer fits every other model.
        assert trimask.fit.ols(moments, "age ~ smoker").nobs == 90
        centred = release.pca(
            connection,
            study.id,
            1,
            ["age", "smoker", "region_north", "bmi"],
            epsilon=40.0,
            delta=1e-5,
        )
        assert centred.answer is not None
        assert centred.answer.replayed
        after = release.budget(connection, study.id)
        assert (after.spent.epsilon, after.spent.mu) == (40.0, 50.0)
        assert [entry.mechanism for entry in after.entries] == ["sum", "gram"]
    assert counts(lab, study) == [2, 2, 2]
    assert [entry["price"] for entry in charged(lab, study)[2]] == [
        {"epsilon": None, "delta": None, "mu": 50.0},
        {"epsilon": 40.0, "delta": 1e-5, "mu": None},
    ]


def test_tables_histograms_and_means_by_group_are_answered_at_their_own_price(lab: Lab) -> None:
    study = collect(lab, Budget(mu=500.0)).study
    smoker = ["no", "yes"]
    regions = ("north", "south", "west")
    exact = {
        (smoker[yes], region): sum(p["smoker"] == yes and p["region"] == region for p in PEOPLE)
        for yes in (0, 1)
        for region in regions
    }
    with connect(lab, study) as connection:
        table = release.table(connection, study.id, ["region", "smoker"], mu=10.0)
        # Three providers' noise of sqrt 2 / 10; 6 deviations a number, 22 numbers in this test: below 1e-7 in all.
        noise = table.estimates.privacy[0]
        assert noise == pytest.approx(math.sqrt(2 * 3 * (1 - 1 / 6)) / 10, rel=0.01)
        assert float(table.estimates.estimate.sum()) == pytest.approx(90)
        assert isinstance(table.counts, pd.DataFrame)
        for (yes, region), count in exact.items():
            assert abs(table.counts.loc[region, yes] - count) <= 6 * noise
        assert (table.guarantee.mu, table.guarantee.basis) == (pytest.approx(10.0), "proved")
        assert list(table.estimates.table().columns) == [
            "people",
            "std err",
            "sampling",
            "privacy",
            "[0.025",
            "0.975]",
        ]
        assert np.isfinite(table.effects(outcome="yes")["odds ratio"].interval()).all()
        # The same question, whichever way round it is put.
        turned = release.table(connection, study.id, ["smoker", "region"], mu=10.0)
        assert turned.answer is not None
        assert turned.answer.replayed
        assert isinstance(turned.counts, pd.DataFrame)
        assert turned.counts.T.equals(table.counts)
        both = release.histogram(connection, study.id, ["region", "smoker"], mu=10.0)
        shown = both.estimates.frame
        assert shown.loc[("smoker", "yes"), "privacy"] == pytest.approx(
            math.sqrt(4 * 3 * (1 - 1 / 2)) / 10, rel=0.01
        )
        for region in regions:
            cell = shown.loc[("region", region)]
            assert abs(cell["estimate"] - 30) <= 6 * cell["privacy"]
        means = release.group_means(connection, study.id, "age", by="region", mu=10.0)
        ages = {region: np.mean([p["age"] for p in PEOPLE if p["region"] == region]) for region in regions}
        for region in regions:
            low, high = means.estimates.conf_int(1e-9).loc[region]
            assert low <= ages[region] <= high
            found = means.estimates.frame.loc[region]
            assert abs(found["estimate"] - ages[region]) <= 6 * found["privacy"]
        # Half of 62 years, a sensitivity of 2, three providers' noise, thirty people: the least it can be.
        assert means.estimates.privacy.min() >= 31 * 2 * math.sqrt(3) / 10 / 30 * 0.95
        assert means.estimates.privacy.max() < 1.5
        for ask, why in (
            (lambda: release.table(connection, study.id, ["region", "age"], mu=1.0), "no column 'age'"),
            (lambda: release.group_means(connection, study.id, "age2", by="region", mu=1.0), "one number"),
            (lambda: release.table(connection, study.id, ["region", "region"], mu=1.0), "each only once"),
        ):
            with pytest.raises(Refused, match=why) as caught:
                ask()
            assert caught.value.reason == "bad_question"
        with pytest.raises(ParameterError, match="in a list"):
            release.table(connection, study.id, "region", mu=1.0)
        shown = release.budget(connection, study.id)
        assert [entry.mechanism for entry in shown.entries] == ["table", "histogram", "group_means"]
    assert counts(lab, study) == [3, 3, 3]


def test_a_question_is_charged_once_and_answered_with_the_same_bytes(lab: Lab) -> None:
    study = collect(lab, Budget(1.0, 1e-6, 1.0)).study
    with connect(lab, study) as connection:
        first = release.sum(connection, study.id, ["age"], mu=0.8)
        assert first.answer is not None
        same = {"mu": 0.8, "request_id": first.answer.request_id}
        again = release.sum(connection, study.id, ["age"], **same)  # type: ignore[arg-type]
        assert again.answer is not None
        assert (again.answer.raw, again.answer.replayed) == (first.answer.raw, True)
        other = release.sum(connection, study.id, ["age"], mu=0.8)
        assert other.answer is not None
        assert (other.answer.values, other.answer.replayed) == (first.answer.values, True)
        assert counts(lab, study) == [1, 1, 1]
        with pytest.raises(Refused) as caught:  # a second question under a charged id
            release.sum(connection, study.id, ["bmi"], **same)  # type: ignore[arg-type]
        assert caught.value.reason == "bad_question"
        with pytest.raises(Refused, match=r"left: .* mu = 0\.6\.") as caught:
            release.sum(connection, study.id, ["bmi"], mu=0.7)
        assert caught.value.reason == "budget_spent"
        assert counts(lab, study) == [1, 1, 1]
        assert len(release.budget(connection, study.id).entries) == 1
        # A collector that forgot, or does not care: every provider refuses by its own ledger, before anything is sent.
        with pytest.raises(Refused, match="R1: the budget cannot pay") as caught:
            ask_providers(lab, study, MomentsQuestion("sums", ("bmi",), mu=0.7))
        assert caught.value.reason == "budget_spent"
        assert counts(lab, study) == [1, 1, 1]
        # Spent to the end: the shares of the totals go, what was answered stays.
        release.sum(connection, study.id, ["bmi"], mu=0.6)
        release.sum(connection, study.id, ["bmi"], epsilon=1.0, delta=1e-6)
        assert release.budget(connection, study.id).state == "closed"
        kept = release.sum(connection, study.id, ["age"], mu=0.8)
        assert kept.total["age"] == first.total["age"]
        with pytest.raises(Refused) as caught:
            release.sum(connection, study.id, ["smoker"], mu=0.1)
        assert caught.value.reason == "budget_spent"
    for k in (1, 2, 3):
        held = "SELECT count(*) FROM moments_batches WHERE study_id = ? AND total IS NOT NULL"
        assert lab.query(f"R{k}", held, (study.id,)) == [(0,)]


def test_what_cannot_be_answered_is_refused_and_costs_nothing(lab: Lab) -> None:
    study = collect(lab, Budget(1.0, 1e-6, 1.0)).study
    with connect(lab, study) as connection:
        for columns, why in ((["one"], "which is public"), (["agee"], "did you mean 'age'")):
            with pytest.raises(Refused, match=why) as caught:
                release.sum(connection, study.id, columns, mu=0.1)
            assert caught.value.reason == "bad_question"
        whole = ["one", "region_north", "region_south", "region_west"]
        ask = release_pb2.GramQuestion(columns=whole)
        with pytest.raises(Refused, match="leave one level of region out") as caught:
            ask_collector(connection, study.id, price_of(mu=0.1), gram=ask)
        assert caught.value.reason == "bad_question"
        with pytest.raises(ParameterError, match="epsilon and delta, or mu"):
            release.sum(connection, study.id, epsilon=0.1, delta=1e-8, mu=0.1)
        with pytest.raises(Refused, match="pay more, or ask for fewer") as caught:
            release.gram(connection, study.id, ["age", "age2"], mu=1e-9)
        assert caught.value.reason == "bad_question"
        with pytest.raises(ParameterError, match="two or more"):
            release.gram(connection, study.id, ["age"], mu=0.1)
        assert release.budget(connection, study.id).entries == ()
    assert counts(lab, study) == [0, 0, 0]


@pytest.mark.slow
def test_a_provider_that_is_lost_on_the_way_is_charged_once_in_the_end(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = collect(lab, Budget(mu=1.0)).study
    deliver = Deliveries.deliver

    async def lost(self: Deliveries, asked: Study, *rest: Any) -> Any:
        if self._node.role_in(asked) == "R2":
            raise Refused(Reason.STORE_UNAVAILABLE, "no room at R2")
        return await deliver(self, asked, *rest)

    with connect(lab, study) as connection:
        monkeypatch.setattr(Deliveries, "deliver", lost)
        for _ in range(2):
            with pytest.raises(Refused, match=r"R2: .*Ask the same again"):
                release.sum(connection, study.id, ["age"], mu=0.6)
            assert counts(lab, study) == [1, 0, 1]
            (entry,) = release.budget(connection, study.id).entries
            assert (entry.state, entry.cost.mu) == ("reserved", 0.6)
        monkeypatch.undo()
        lab.stop("R3")
        with pytest.raises(Refused, match="R3"):  # lost before: what R1 has charged stays counted
            release.sum(connection, study.id, ["age"], mu=0.6)
        assert [entry.state for entry in release.budget(connection, study.id).entries] == ["reserved"]
        with pytest.raises(Refused, match="R3"):  # another question: nothing is charged anywhere
            release.sum(connection, study.id, ["bmi"], mu=0.5)
        assert len(release.budget(connection, study.id).entries) == 1
        assert counts(lab, study) == [1, 0, 1]
        lab.start("R3")
        release.sum(connection, study.id, ["age"], mu=0.6)
        release.sum(connection, study.id, ["bmi"], mu=0.5)
        assert [entry.state for entry in release.budget(connection, study.id).entries] == ["answered"] * 2
    assert counts(lab, study) == [2, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("honest", [1, 2])
def test_the_noise_of_answers_has_the_law_that_is_stated(lab: Lab, honest: int) -> None:
    """Questions at 40 prices each, so 40 draws: sums of squares of standardised noise are chi squared.

    Both tails at 1e-7 and four of them: the test fails by chance with probability below 1e-6.
    """
    study = collect(lab, Budget(mu=1e4), honest=honest).study
    layout, draws = study.moments.layout, 40
    first, products = exact_totals(study, PEOPLE)
    columns = ("age", "smoker", "region_south")
    for kind, names in (("sums", columns), ("moments", columns), ("table", ("smoker", "region"))):
        standardised = []
        for i in range(draws):
            question = MomentsQuestion(kind, names, mu=1.0 + i / 1000)  # type: ignore[arg-type]
            found = ask_providers(lab, study, question).totals
            for cell, total, noise in zip(
                question.cells(layout), found, question.noises(layout, honest), strict=True
            ):
                error = math.ldexp(total, -noise.shift) - signed(cell.share([*first, *products], len(PEOPLE)))
                standardised.append(error / math.sqrt(noise.variance(3)))
        low, high = chi2.ppf([1e-7, 1 - 1e-7], len(standardised))
        assert low < float(np.sum(np.square(standardised))) < high
    # Three providers' noise is what was asked of h of them, times 3/h.
    question = MomentsQuestion("sums", ("age",), mu=1.0)
    (noise,) = question.noises(layout, honest)
    spread = math.sqrt(noise.variance(3)) / layout.columns[0].width
    assert spread == pytest.approx(2 * math.sqrt(3 / honest), rel=0.01)


@sqlite_only
def test_the_collector_never_holds_an_exact_moment(lab: Lab) -> None:
    study = collect(lab, Budget(mu=10.0)).study
    with connect(lab, study) as connection:
        release.gram(connection, study.id, ["one", "age", "bmi"], mu=5.0)
        release.sum(connection, study.id, mu=5.0)
    first, products = exact_totals(study, PEOPLE)
    # Large ones: the noise of those asked for is then above 10,000 steps, and is zero with probability below 1e-4.
    exact = {total for total in (*first, *products) if abs(total) > 1_000_000}
    assert len(exact) == 4
    files = [path.read_bytes() for path in (lab.folder / "collector").rglob("*") if path.is_file()]
    assert any(b"trimask-answer/1" in content for content in files)
    for content in files:
        assert exact.isdisjoint(map(int, re.findall(rb"-?\d+", content)))
        for order in ("little", "big"):
            assert not [t for t in exact if t.to_bytes(8, order, signed=True) in content]  # type: ignore[arg-type]
    held = "SELECT count(*) FROM releases WHERE study_id = ? AND factor IS NOT NULL"
    assert lab.query("collector", held, (study.id,)) == [(0,)]


def test_an_answer_that_providers_did_not_sign_is_not_read(lab: Lab) -> None:
    study = collect(lab, Budget(mu=10.0)).study
    with connect(lab, study) as connection:
        answer = release.sum(connection, study.id, ["age"], mu=1.0).answer
    assert answer is not None
    price = {"epsilon": None, "delta": None, "mu": 1.0}
    read_gathered(study, answer, "sums", ["age"], price)

    def changed(**values: Any) -> Any:
        kept = {name: getattr(answer, name) for name in answer.__slots__}
        return type(answer)(**kept | {"values": {**answer.values, **values}})

    moved = [total + 1 for total in answer.values["totals"]]
    deliveries = [dict(item) for item in answer.values["deliveries"]]
    for forged in (
        changed(totals=moved),
        changed(deliveries=deliveries[:2]),
        changed(deliveries=[*deliveries[:2], deliveries[1] | {"role": "R3"}]),
        changed(batch_ids=[]),
    ):
        with pytest.raises(VerificationError):
            read_gathered(study, forged, "sums", ["age"], price)
    with pytest.raises(VerificationError):  # asked and signed at another price
        read_gathered(study, answer, "sums", ["age"], price | {"mu": 2.0})


def test_a_budget_is_spent_seen_and_ended_from_a_shell(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signed = collect(lab, Budget(mu=10.0))
    file, keys = tmp_path / "study.json", ("--owner", str(lab.owner))
    write_signed(file, signed.without_seed(), replace=False)

    def trimask_(*arguments: str, status: int = 0) -> str:
        capsys.readouterr()
        assert main(arguments) == status
        shown = capsys.readouterr()
        return shown.err if status else shown.out

    ask = ("release", "ask", str(file))
    assert "age" in trimask_(*ask, "sum", "age", "--mu", "3", *keys)
    assert "standard deviation of the noise" in trimask_(
        *ask, "gram", "one", "age", "smoker", "--mu", "4", *keys
    )
    assert "no further cost" in trimask_(*ask, "ols", "smoker", "one", "age", "--mu", "4", *keys)
    assert "Private components about the mean" in trimask_(
        *ask, "pca", "1", "age", "smoker", "--mu", "4", *keys
    )
    # Written to a file, and checked from it: who signed, and that the providers' parts add up to it.
    out = tmp_path / "answer.json"
    first = ("sum", "age", "--mu", "3", "--out", str(out))
    assert "asked before" in trimask_(*ask, *first, *keys)
    assert "exists already" in trimask_(*ask, *first, *keys, status=2)
    assert "all 3 right providers" in trimask_("release", "verify", str(file), str(out))
    kept = json.loads(out.read_text())
    kept["signed"] = kept["signed"].replace('"rows": 90', '"rows": 91')
    out.write_text(json.dumps(kept))
    assert "does not verify" in trimask_("release", "verify", str(file), str(out), status=6)
    found = json.loads(trimask_("study", "budget", str(file), "--json"))
    assert (found["state"], found["rows"], found["spent"]["mu"]) == ("answering", 90, 5.0)
    # A participant sees the same, from the device.
    with Client(signed) as device:
        seen = device.budget()
    assert [(mechanism, cost) for _, mechanism, cost, _ in seen.entries] == [
        ("sum", "mu 3"),
        ("gram", "mu 4"),
    ]
    home, joined = ("--home", str(tmp_path / "device")), tmp_path / "device.json"
    write_signed(joined, signed, replace=False)
    assert device_main([*home, "join", str(joined), "--id", signed.study.id.hex()]) == 0
    assert device_main([*home, "budget"]) == 0
    assert f"Left: {seen.left}." in capsys.readouterr().out
    assert "Private counts of smoker by region" in trimask_(
        *ask, "table", "smoker", "region", "--mu", "2", "--out", str(tmp_path / "table.json"), *keys
    )
    assert "table of 90 rows" in trimask_("release", "verify", str(file), str(tmp_path / "table.json"))
    assert "west" in trimask_(*ask, "histogram", "region", "--mu", "2", *keys)
    assert "Private means of age by region" in trimask_(
        *ask, "group_means", "age", "region", "--mu", "2", *keys
    )
    assert "give --yes" in trimask_("study", "end-releases", str(file), *keys, status=2)
    assert "totals are erased" in trimask_("study", "end-releases", str(file), *keys, "--yes")
    assert "ended" in trimask_(*ask, "sum", "bmi", "--mu", "1", *keys, status=4)
    assert "asked before" in trimask_(*ask, "sum", "age", "--mu", "3", *keys)


def test_strangers_may_see_the_budget_and_neither_spend_nor_end_it(lab: Lab) -> None:
    study = collect(lab, Budget(mu=1.0)).study
    end = release_pb2.EndReleasesRequest(study_id=study.id)
    with connect(lab, study) as connection:
        before = release.budget(connection, study.id)
        with trimask.connect(
            study.collector.address, roots=lab.owner / "ca.pem", tls_name=study.collector.tls_name
        ) as stranger:
            assert release.budget(stranger, study.id) == before
            with pytest.raises(Refused, match="needs a token of the study's owner") as caught:
                release.sum(stranger, study.id, ["age"], mu=0.1)
            assert caught.value.reason == "bad_token"
        with lab.channel_as("R1", "collector") as channel, pytest.raises(Refused) as caught:
            with plain_errors("collector"):
                ReleaseOwnerServiceStub(channel).EndReleases(end, timeout=patience(10))
        assert caught.value.reason == "not_your_role"
        assert release.budget(connection, study.id) == before
        assert connection.datasets(study.id) == []


def test_a_restarted_collector_remembers(lab: Lab) -> None:
    study = collect(lab, Budget(1.0, 1e-6)).study
    price = {"epsilon": 0.5, "delta": 1e-7}
    with connect(lab, study) as connection:
        first = release.sum(connection, study.id, ["age"], **price)
    lab.stop("collector")
    lab.start("collector")
    with connect(lab, study) as connection:
        shown = release.budget(connection, study.id)
        assert (shown.state, shown.left.epsilon) == ("answering", 0.5)
        assert list(release.sum(connection, study.id, ["age"], **price).total) == list(first.total)
        release.sum(connection, study.id, ["bmi"], **price)
        assert release.budget(connection, study.id).state == "closed"


def test_a_study_without_a_budget_has_none_to_show(lab: Lab) -> None:
    with Client(open_moments(lab)) as device, pytest.raises(Refused, match="publishes a dataset") as caught:
        device.budget()
    assert caught.value.reason == "no_budget"


def _backup(lab: Lab, name: str, file: Path) -> None:
    config = str(lab.folder / name / "node.toml")
    assert main(["node", "backup", "--config", config, "--out", str(file)]) == 0


def _restore(lab: Lab, name: str, file: Path) -> None:
    config = str(lab.folder / name / "node.toml")
    lab.stop(name)
    assert main(["node", "restore", "--config", config, "--from", str(file), "--force", "--ledger-kept"]) == 0
    lab.start(name)


@sqlite_only
def test_a_provider_restored_from_a_backup_does_not_forget_what_was_spent(lab: Lab, tmp_path: Path) -> None:
    study = collect(lab, Budget(mu=1.0)).study
    for k in (1, 2, 3):
        _backup(lab, f"R{k}", tmp_path / f"R{k}")
    spent = MomentsQuestion("sums", ("age",), mu=0.8)
    with connect(lab, study) as connection:
        release.sum(connection, study.id, ["age"], mu=0.8)
        before = ask_providers(lab, study, spent)
        for k in (1, 2, 3):
            _restore(lab, f"R{k}", tmp_path / f"R{k}")
        # The same again, with the same noise; and no more than the budget, though the stores know of nothing.
        assert ask_providers(lab, study, spent).shown() == before.shown()
        assert counts(lab, study) == [1, 1, 1]
        with pytest.raises(Refused) as caught:
            ask_providers(lab, study, MomentsQuestion("sums", ("bmi",), mu=0.7))
        assert caught.value.reason == "budget_spent"
        release.sum(connection, study.id, ["bmi"], mu=0.5)
        assert counts(lab, study) == [2, 2, 2]
    owner.end_releases(study, lab.owner)
    _restore(lab, "R1", tmp_path / "R1")
    assert counts(lab, study) == [3, 3, 3]
    with pytest.raises(Refused, match="answers about this study have ended"):
        ask_providers(lab, study, spent)
    owner.end_releases(study, lab.owner)  # tells everybody again
    held = "SELECT count(*) FROM moments_batches WHERE study_id = ? AND total IS NOT NULL"
    assert lab.query("R1", held, (study.id,)) == [(0,)]


@sqlite_only
def test_repro_what_a_restored_collector_answers_no_more_is_erased(lab: Lab, tmp_path: Path) -> None:
    """It said that the answers have ended and the data is erased, and right providers kept their shares."""
    study = collect(lab, Budget(epsilon=1.0, delta=1e-6)).study
    held = "SELECT count(*) FROM moments_batches WHERE study_id = ? AND total IS NOT NULL"
    roles = [f"R{k}" for k in range(1, lab.right + 1)]
    assert all(lab.query(role, held, (study.id,)) != [(0,)] for role in roles)
    back_up(lab, "collector", tmp_path / "backup")
    restore(lab, "collector", tmp_path / "backup", ledger_kept=False)
    lab.until(lambda: all(lab.query(role, held, (study.id,)) == [(0,)] for role in roles))
