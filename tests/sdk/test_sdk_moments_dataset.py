"""Datasets of the moments suite: what is verified, what they say, and the rows derived from them."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.sdk.moments_release import SignedMoments, exact_totals, moments_study, write_moments
from trimask import Dataset, fit
from trimask.errors import VerificationError
from trimask_core.crypto.keys import SigningKey
from trimask_core.moments.field import P, pack, unpack
from trimask_core.moments.totals import values_hash
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80, unit="years"),
        Attribute("bmi", "continuous", 15, 45, step=0.1),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
        Attribute("sbp", "continuous", 80, 200, unit="mmHg", step=1.0),
    ),
    (
        Derived("log_bmi", "log", ("bmi",)),
        Derived("age2", "square", ("age",)),
        Derived("age_bmi", "product", ("age", "bmi")),
    ),
)
FORMULA = "sbp ~ age + bmi + smoker + C(region)"


def _answers(people: Callable[..., pd.DataFrame], rows: int, seed: int = 1) -> list[dict[str, Any]]:
    frame = people(rows, seed)
    frame["bmi"], frame["sbp"] = frame["bmi"].round(1), frame["sbp"].round()
    return frame.to_dict("records")


@pytest.fixture(scope="module")
def noisy() -> SignedMoments:
    return moments_study(SCHEMA, 5.0, release_rows=2000)


@pytest.fixture(scope="module")
def small() -> SignedMoments:
    return moments_study(SCHEMA, 5.0)


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, noisy: SignedMoments, people: Callable[..., pd.DataFrame]
) -> Path:
    return write_moments(tmp_path_factory.mktemp("moments") / "noisy", noisy, _answers(people, 3000))


def test_without_noise_the_moments_are_those_of_the_rows(
    tmp_path: Path, people: Callable[..., pd.DataFrame]
) -> None:
    signed, answers = moments_study(SCHEMA, 0.0, release_rows=200), _answers(people, 200)
    dataset = Dataset.open(write_moments(tmp_path / "exact", signed, answers))
    assert dataset.suite == "moments"
    assert dataset.guarantee is None
    # The logarithm is on a grid of a thousandth of its range; everything else is as the answers are.
    X = np.array([SCHEMA.encode(row) for row in answers])
    names = [column.name for column in SCHEMA.columns]
    at = [j for j, name in enumerate(names) if name != "log_bmi"]
    np.testing.assert_allclose(
        dataset.moments.gram[np.ix_(at, at)], (X.T @ X)[np.ix_(at, at)], rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(dataset.moments.gram, X.T @ X, atol=0.3)
    raw = fit.ols_from_rows(answers, SCHEMA, FORMULA)
    np.testing.assert_allclose(fit.ols(dataset, FORMULA).params, raw.params, rtol=1e-7)
    np.testing.assert_allclose(fit.ols(dataset, FORMULA).bse, raw.bse, rtol=1e-7)


def test_the_fixture_has_the_totals_of_the_encoded_rows(people: Callable[..., pd.DataFrame]) -> None:
    signed, answers = moments_study(SCHEMA, 0.0), _answers(people, 3)
    layout = signed.study.moments.layout
    rows = [layout.encode(person).z for person in answers]
    expected = [sum(column) for column in zip(*rows, strict=True)]
    expected += [sum(z[j] * z[k] for z in rows) for j in range(layout.q) for k in range(j, layout.q)]
    assert exact_totals(signed.study, answers) == expected


def test_every_model_answers_with_privacy_errors(folder: Path, people: Callable[..., pd.DataFrame]) -> None:
    dataset = Dataset.open(folder)
    raw = fit.ols_from_rows(_answers(people, 3000), SCHEMA, FORMULA)
    result = fit.ols(dataset, FORMULA)
    # A distance of 5 privacy errors in one of 6 coefficients has probability below 4e-6; the seed is fixed.
    assert np.all(np.abs(result.params - raw.params) < 5 * result.bse_privacy)
    assert np.all(result.bse_privacy > 0)
    assert np.all(fit.ridge(dataset, FORMULA, 0.01).bse_privacy > 0)
    assert np.all(fit.tsls(dataset, "sbp ~ bmi + smoker", "age + smoker").bse_privacy > 0)
    assert fit.pca(dataset, ["age", "bmi", "sbp"]).noise_floor > 0
    described = fit.describe(dataset)
    shares = described.means.loc[["region_north", "region_south", "region_west"], "estimate"]
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    p = described.means.loc["smoker", "estimate"]
    n = dataset.rows
    # Up to what is added back for the noise in the mean, a yes-or-no column has the variance its mean says.
    assert described.variances.loc["smoker", "estimate"] == pytest.approx(p * (1 - p) * n / (n - 1), rel=0.02)
    assert (described.means["privacy"] > 0).all()
    assert np.all(fit.partial_correlations(dataset, ["age", "bmi", "sbp"]).pairs["privacy"] > 0)
    assert fit.factor_loadings(dataset, 1, ["age", "bmi", "smoker", "sbp"]).loadings.shape == (4, 1)
    assert result.f_test("age, bmi").pvalue < 1e-6
    assert "noise/signal" in result.diagnostics.summary()


def test_contrasts_do_not_depend_on_the_reference(folder: Path) -> None:
    dataset = Dataset.open(folder)
    first = fit.ols(dataset, "sbp ~ age + C(region)")
    for level in ("south", "west"):
        other = fit.ols(dataset, f"sbp ~ age + C(region, ref={level})")
        back = -other.params["C(region)[north]"]
        assert back == pytest.approx(first.params[f"C(region)[{level}]"], rel=1e-9, abs=1e-9)
        assert other.bse["C(region)[north]"] == pytest.approx(first.bse[f"C(region)[{level}]"], rel=1e-6)
        assert other.params["age"] == pytest.approx(first.params["age"], rel=1e-9)


def test_releases_pool(tmp_path: Path, people: Callable[..., pd.DataFrame]) -> None:
    noisy = moments_study(SCHEMA, 5.0, release_rows=500)
    parts = [_answers(people, 500, seed) for seed in (1, 2)]
    first = Dataset.open(write_moments(tmp_path / "1", noisy, parts[0]))
    second = Dataset.open(
        write_moments(tmp_path / "2", noisy, parts[1], seed="8", release=2, previous=first.manifest.sha256)
    )
    pooled = fit.ols([first, second], "sbp ~ age")
    assert pooled.nobs == 1000
    alone = fit.ols(first, "sbp ~ age")
    assert np.all(pooled.bse_privacy < alone.bse_privacy)
    raw = fit.ols_from_rows(parts[0] + parts[1], SCHEMA, "sbp ~ age")
    # One of 2 beyond 5 errors: 1e-6.
    assert np.all(np.abs(pooled.params - raw.params) < 5 * pooled.bse_privacy)


def test_a_dataset_says_which_suite_it_is_of(folder: Path, exact_folder: Path) -> None:
    dataset = Dataset.open(folder)
    assert "suite moments" in repr(dataset)
    assert "moments of 11 columns over 3,000 people" in repr(dataset)
    assert "noisy totals" in str(dataset)
    assert "is not  rows" in str(dataset)
    assert dataset.metadata()["trimask:suite"] == "moments"
    assert "shares" in dataset.metadata()["dct:description"]
    assert "right providers" in dataset.metadata()["dct:provenance"]["dct:description"]
    assert dataset.path.name == "moments.json"
    rows = Dataset.open(exact_folder)
    assert rows.suite == "rows"
    assert "suite rows" in repr(rows)
    assert rows.metadata()["trimask:suite"] == "rows"


def test_rows_on_request_are_derived_and_marked(folder: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(folder)
    frame = dataset.to_pandas("scaled")
    assert len(frame) == dataset.rows
    assert list(frame.columns) == dataset.names
    gram = dataset.moments.repaired().gram
    np.testing.assert_allclose(frame.T @ frame, gram, rtol=1e-8, atol=1e-6)
    assert "derived rows" in frame.attrs["trimask"]
    assert frame.attrs["name"] == f"{dataset.id} derived rows"
    pd.testing.assert_frame_equal(frame, Dataset.open(folder).to_pandas("scaled"))
    table = dataset.to_arrow()
    assert b"derived rows" in table.schema.metadata[b"trimask"]
    path = dataset.to_arrow_file(tmp_path / "x.arrow")
    with pa.memory_map(str(path)) as source:
        assert b"trimask" in pa.ipc.open_file(source).schema.metadata
    written = dataset.to_csv(tmp_path / "x.csv")
    assert "derived" in json.loads((tmp_path / "x.csv.json").read_text())["trimask"]
    np.testing.assert_array_equal(pd.read_csv(written).to_numpy(), dataset.to_pandas().to_numpy())
    blocks = np.concatenate(list(dataset.batches(1000)))
    np.testing.assert_allclose(blocks.T @ blocks, gram, rtol=1e-8, atol=1e-6)
    again = Dataset.open(dataset.save(tmp_path / "copy"), study_id=dataset.study.id)
    np.testing.assert_array_equal(again.moments.gram, dataset.moments.gram)


def _delivery(edit: Callable[[dict[str, Any]], None], at: int = 0) -> Callable[[dict[str, Any]], None]:
    return lambda body: edit(body["deliveries"][at])


def _other_values(item: dict[str, Any]) -> None:
    values = unpack(base64.b64decode(item["values"]))
    values[3] = (values[3] + 1) % P
    item["values"] = base64.b64encode(pack(values)).decode()


def _recommitted(item: dict[str, Any]) -> None:
    _other_values(item)
    values = unpack(base64.b64decode(item["values"]))
    item["values_hash"] = values_hash(values, base64.b64decode(item["salt"])).hex()


def _flip(name: str) -> Callable[[dict[str, Any]], None]:
    def edit(item: dict[str, Any]) -> None:
        data = bytearray(base64.b64decode(item[name]))
        data[0] ^= 1
        item[name] = base64.b64encode(bytes(data)).decode()

    return edit


def _total(name: str) -> Callable[[dict[str, Any]], None]:
    def edit(body: dict[str, Any]) -> None:
        body[name][1] += 1

    return edit


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a value": (_delivery(_other_values), "not what it committed to"),
    "a value of R2": (_delivery(_other_values, 1), "R2 is not what it committed to"),
    "a value, hashed again": (_delivery(_recommitted), "the totals of R1"),
    "a salt": (_delivery(_flip("salt")), "not what it committed to"),
    "a signature": (_delivery(_flip("signature")), "the totals of R1"),
    "what R2 saw of the commitments": (_delivery(_flip("commitments_signature"), 1), "what R2 saw"),
    "a first moment": (_total("first"), "not the sum"),
    "a product": (_total("products"), "not the sum"),
    "a total that is no whole number": (lambda body: body["first"].__setitem__(0, 1.5), "totals"),
    "the people of a delivery": (_delivery(lambda item: item.update(accepted_count=64)), "another number"),
    "the people": (lambda body: body.update(accepted=64), "number of people"),
    "the accepted reports": (lambda body: body.update(accepted_hash="00" * 32), "the totals of R1"),
    "the release": (lambda body: body.update(release=2), "release"),
    "the columns": (lambda body: body["columns"].reverse(), "columns"),
    "a delivery left out": (lambda body: body["deliveries"].pop(), "one delivery of each"),
    "a delivery twice": (
        lambda body: body["deliveries"].__setitem__(1, body["deliveries"][0]),
        "one delivery of each",
    ),
    "roles exchanged": (
        lambda body: [item.update(role=role) for item, role in zip(body["deliveries"], ("R2", "R1"), strict=True)],
        "the totals of R1",
    ),
    "values cut short": (_delivery(lambda item: item.update(values=item["values"][:32])), "values"),
    "another format": (lambda body: body.update(format="trimask-moments/2"), "format"),
    "a field missing": (lambda body: body.pop("deliveries"), "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_tampered_with_is_refused(
    what: str, tmp_path: Path, small: SignedMoments, people: Callable[..., pd.DataFrame]
) -> None:
    change, message = TAMPERED[what]
    broken = write_moments(tmp_path / "broken", small, _answers(people, 70), change=change)
    with pytest.raises(VerificationError, match=message):
        Dataset.open(broken)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(suite="rows"), "suite"),
        (lambda data: data.pop("suite"), "suite"),
        (lambda data: data["batch_ids"].reverse(), "the totals of R1"),
        (lambda data: data.update(batch_ids=[]), "batches"),
        (lambda data: data["batch_ids"].append(data["batch_ids"][0]), "batches"),
        (lambda data: data.update(sigma=1.0), "sigma"),
        (lambda data: data.update(stored_rows=70), "stored rows"),
        (lambda data: data.update(rows=0), "number of rows"),
        (lambda data: data.update(rows=63), "number of people"),
        (lambda data: data.update(rows=10**18), "more than totals can hold"),
        (lambda data: data.update(files=[]), "must name moments.json"),
    ],
)
def test_a_manifest_that_does_not_agree_is_refused(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path, small: SignedMoments,
    people: Callable[..., pd.DataFrame],
) -> None:  # fmt: skip
    broken = write_moments(tmp_path / "broken", small, _answers(people, 70), change_manifest=change)
    with pytest.raises(VerificationError, match=message):
        Dataset.open(broken)


def test_another_collector_is_refused(
    tmp_path: Path, small: SignedMoments, people: Callable[..., pd.DataFrame]
) -> None:
    folder = write_moments(tmp_path / "x", small, _answers(people, 70), key=SigningKey.generate())
    with pytest.raises(VerificationError, match="manifest"):
        Dataset.open(folder)


BALL = Schema(tuple(Attribute(f"x{k}", "continuous", -1, 1, step=0.01) for k in range(4)))


@pytest.mark.parametrize(("spread", "warned"), [(0.35, False), (0.7, True)])
def test_the_clipped_share_is_estimated_and_warned_of(spread: float, warned: bool, tmp_path: Path) -> None:
    signed = moments_study(BALL, 20.0, ball_norm=1.6, release_rows=2000)
    rng = np.random.default_rng(3)
    values = np.clip(rng.normal(0, spread, (2000, 4)), -1, 1).round(2)
    answers = [{f"x{k}": float(value) for k, value in enumerate(row)} for row in values]
    layout = signed.study.moments.layout
    truth = float(np.mean([layout.encode(person).clipped for person in answers]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = Dataset.open(write_moments(tmp_path / "ball", signed, answers))
    share = dataset.clipped
    assert share is not None
    assert share.error > 0
    # Beyond 4.5 errors: 7e-6.
    assert abs(share.estimate - truth) < 4.5 * share.error
    assert bool(caught) == warned
    assert "clipped" in str(dataset)
    assert "clipped" not in dataset.names
    assert (truth > 0.3) == warned
