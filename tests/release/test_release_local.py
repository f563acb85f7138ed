"""The mechanisms for whoever holds raw rows: the same laws, bounds enforced, sklearn's manners."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from trimask import fit
from trimask.errors import FormulaError
from trimask.release import PaperMechanism, estimators, local
from trimask_core.basics.errors import ParameterError, TrimaskError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.rows.arrays import SecureNormals
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.gaussian import local_noise
from trimask_theory.mechanisms import least_squares, projection, record
from trimask_theory.mechanisms import pca as pca_theory

RNG = np.random.default_rng(11)
DATA = pd.DataFrame(RNG.uniform(-1, 1, (400, 3)), columns=["a", "b", "c"])
DATA["y"] = 0.5 * DATA["a"] - 0.25 * DATA["b"] + 0.1 * RNG.uniform(-1, 1, 400)
NORM = 2.0
PRICE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
PAPERS = pytest.mark.filterwarnings("ignore::trimask.release.PaperMechanism")


@pytest.mark.parametrize("method", ["gaussian", "elliptical"])
def test_sums(method: str) -> None:
    """500 draws of 2 columns, 5 standard deviations each (variances: a little more): false failure below 1e-5."""
    source = np.random.default_rng(1)
    found = [
        local.sum(DATA[["a", "y"]], [-1, -2], [1, 2], method=method, source=source, **PRICE)
        for _ in range(500)
    ]
    totals = np.array([item.total for item in found])
    noise = np.array(found[0].noise)
    spans, s = np.array([2.0, 4.0]), local_noise.calibrate(**PRICE).sigma
    assert noise == pytest.approx(
        s * (np.full(2, np.linalg.norm(spans)) if method == "gaussian" else np.sqrt(spans * 6.0))
    )
    assert (np.abs(totals.mean(axis=0) - DATA[["a", "y"]].sum()) <= 5 * noise / math.sqrt(500)).all()
    assert (np.abs(totals.var(axis=0) / noise**2 - 1) <= 5 * math.sqrt(2 / 500)).all()
    assert found[0].mean["a"] == found[0].total["a"] / 400


LEVELS = {"health": ["good", "fair", "poor"], "plan": [0, 1]}
PEOPLE = pd.DataFrame(
    {
        "health": RNG.choice(LEVELS["health"], 400, p=[0.6, 0.3, 0.1]),
        "plan": RNG.integers(0, 2, 400),
        "visits": RNG.integers(0, 31, 400),
    }
)


def test_tables_histograms_and_means_by_group() -> None:
    """300 draws; chi-square within 5 deviations, means within 5 of theirs: false failure below 1e-5."""
    source, scale = np.random.default_rng(2), local_noise.calibrate(**PRICE).sigma
    tables = [local.table(PEOPLE, LEVELS, source=source, **PRICE) for _ in range(300)]
    exact = pd.crosstab(PEOPLE.health, PEOPLE.plan).loc[LEVELS["health"]].to_numpy().ravel()
    found = np.array([table.estimates.estimate for table in tables])
    noise = tables[0].estimates.privacy[0]
    assert noise == pytest.approx(math.sqrt(2) * scale * math.sqrt(5 / 6), rel=1e-5)
    assert (np.abs(found.mean(axis=0) - exact) <= 5 * noise / math.sqrt(300)).all()
    assert np.abs(found.var(axis=0) / noise**2 - 1).max() <= 5 * math.sqrt(2 / 300)
    assert np.abs(found.sum(axis=1) - 400).max() < 1e-6
    held = [
        (low <= exact) & (exact <= high) for low, high in (table.estimates.interval().T for table in tables)
    ]
    assert 0.93 < np.mean(held) < 0.97
    both = local.histogram(PEOPLE, LEVELS, source=source, **PRICE)
    assert both.estimates.privacy[0] == pytest.approx(2 * scale * math.sqrt(2 / 3), rel=1e-5)
    assert abs(both.counts.loc[("plan", 1)] - PEOPLE.plan.sum()) < 5 * both.estimates.privacy[-1]
    by = {"health": LEVELS["health"]}
    means = [local.group_means(PEOPLE, "visits", 0, 40, by, source=source, **PRICE) for _ in range(300)]
    truth = PEOPLE.groupby("health")["visits"].mean().loc[LEVELS["health"]].to_numpy()
    ends = np.array([one.estimates.interval() for one in means])
    held = [(low <= truth) & (truth <= high) for low, high in zip(ends[..., 0], ends[..., 1], strict=True)]
    assert 0.93 < np.mean(held) < 0.98  # the noise hides the smallest group: its interval is the whole range
    assert ((ends >= 0) & (ends <= 40)).all()
    hidden = [one for one in means if not one.estimates.determined[2]]
    assert "not determined" in str(hidden[0])
    assert np.mean([one.estimates.estimate[0] for one in means]) == pytest.approx(truth[0], abs=0.5)


def test_answers_outside_the_stated_levels_are_refused() -> None:
    for ask, why in (
        (lambda: local.table(PEOPLE, {"health": ["good", "fair"]}, **PRICE), "stated levels of health"),
        (lambda: local.table(PEOPLE, {"age": [1, 2]}, **PRICE), "see age"),
        (lambda: local.table(PEOPLE, {"plan": [1]}, **PRICE), "two different levels"),
        (lambda: local.histogram(PEOPLE, {}, **PRICE), "each question"),
        (lambda: local.table(PEOPLE, LEVELS, epsilon=1.0), "epsilon and delta, or mu"),
        (lambda: local.group_means(PEOPLE, "visits", 0, 10, LEVELS, **PRICE), "between lower and upper"),
        (lambda: local.group_means(PEOPLE, "visits", 5, 5, LEVELS, **PRICE), "above lower"),
        (lambda: local.group_means(PEOPLE, "health", 0, 1, LEVELS, **PRICE), "numbers in health"),
    ):
        with pytest.raises(ParameterError, match=why):
            ask()


def test_rows_outside_the_bounds_are_refused_not_clipped() -> None:
    with pytest.raises(ParameterError, match="within"):
        local.sum(DATA, -0.5, 0.5, **PRICE)
    for ask in (
        lambda: local.gram(DATA, row_norm=0.5, **PRICE),
        lambda: local.ols(DATA, "y ~ a + b", row_norm=0.5, **PRICE),
        lambda: local.pca(DATA, 1, mu=1.0, row_norm=0.5),
    ):
        with pytest.raises(ParameterError, match="row_norm"):
            ask()


def test_clipped_sums_take_any_rows() -> None:
    """Noise of sd about 40 around a sum whose clipped part is bounded: 8 standard deviations, 1e-15."""
    wild = DATA[["a", "b"]].copy()
    wild.iloc[0] = 1e9
    found = local.clipped_sum(wild, 0.0, 0.6, source=np.random.default_rng(2), **PRICE)
    rest = wild.iloc[1:].sum()
    assert (np.abs(found.total - rest) <= 8 * found.noise + 10).all()


@PAPERS
def test_projection_calibrations() -> None:
    source = np.random.default_rng(3)
    stated = local.projection(DATA, row_norm=NORM, reduced_dim=3, source=source, **PRICE)
    e, d = record.one_step(1.0, 1e-6)
    assert stated.sigma == projection.calibrate(e, d, 3, NORM, "sharp").sigma
    assert (stated.guarantee.neighbours.relation, stated.values.shape) == ("record", (4, 3))
    paper = local.projection(
        DATA,
        row_norm=NORM,
        reduced_dim=3,
        calibration="theorem",
        neighbours="add-remove",
        source=source,
        **PRICE,
    )
    assert paper.sigma == projection.calibrate(1.0, 1e-6, 3, NORM, "theorem").sigma < stated.sigma
    assert paper.guarantee.neighbours.relation == "add-remove"
    relative = local.projection(
        DATA, row_norm=NORM, reduced_dim=3, neighbours="add-remove", leverage=1e-4, source=source, **PRICE
    )
    assert relative.sigma == 0.0
    assert "holds only for" in relative.guarantee.because


@PAPERS
@pytest.mark.parametrize("method", ["M_LS", "M_ALS"])
def test_least_squares(method: str) -> None:
    """The draw is near the regularised solution: 8 standard deviations of M_LS (twice that for the sketch)."""
    found = local.ols(
        DATA, "y", ["a", "b"], row_norm=NORM, method=method, reduced_dim=40, neighbours="add-remove",
        source=np.random.default_rng(4), **PRICE,
    )  # fmt: skip
    assert found.sigma == least_squares.calibrate(1.0, 1e-6, 40, 2, NORM, "sharp", method[2:]).sigma
    data = DATA[["a", "b", "y"]].to_numpy()
    gram = data.T @ data + found.sigma**2 * np.eye(3)
    solution = np.linalg.solve(gram[:2, :2], gram[:2, 2])
    residual = gram[2, 2] - gram[2, :2] @ solution
    sd = np.sqrt(residual / 40 * np.diag(np.linalg.inv(gram[:2, :2])))
    assert found.params is not None
    assert (np.abs(found.params - solution) <= 16 * sd).all()
    assert (np.abs(found.params - solution) > 0).all()


@PAPERS
def test_least_squares_relative_and_bad_columns() -> None:
    relative = local.ols(
        DATA,
        "y ~ a + b + c - 1",
        method="M_LS",
        row_norm=NORM,
        leverage=1e-5,
        residual=1e-5,
        source=np.random.default_rng(5),
        **PRICE,
    )
    assert relative.sigma == 0.0
    with pytest.raises(ParameterError, match="given together"):
        local.ols(DATA, "y ~ a", method="M_LS", row_norm=NORM, leverage=1e-5, **PRICE)
    for response, features in (
        ("z ~ a", None),
        ("y", ["z"]),
        ("y", ["y"]),
        ("y", ["a", "a"]),
        ("y", []),
        ("y ~ a", ["b"]),
    ):
        with pytest.raises((ParameterError, FormulaError)):
            local.ols(DATA, response, features, row_norm=NORM, **PRICE)
    with pytest.raises(ParameterError, match="record"):
        local.ols(DATA, "y ~ a", row_norm=NORM, method="noisy_gram", neighbours="add-remove", **PRICE)
    with pytest.raises(ParameterError, match="left out"):
        local.ols(DATA, "y ~ a", row_norm=NORM, reduced_dim=5, **PRICE)


def test_the_noisy_gram_is_the_default_and_has_everything_a_fit_has() -> None:
    found = local.ols(
        DATA, "y ~ a + b", row_norm=NORM, epsilon=200.0, delta=1e-6, source=np.random.default_rng(6)
    )
    assert found.params is not None
    assert found.params["a"] == pytest.approx(0.5, abs=0.1)
    assert (found.method, found.response, list(found.params.index)) == (
        "noisy_gram",
        "y",
        ["Intercept", "a", "b"],
    )
    low, high = found.conf_int().loc["a"]
    assert low < 0.5 < high
    assert "std err" in found.summary()
    assert str(found.guarantee) in found.summary()
    assert "<table>" in found._repr_html_()
    assert found.gram is not None
    assert found.gram.values.loc["one", "one"] == 400
    assert found.gram.noise.loc["one", "one"] == pytest.approx(0, abs=1e-9)
    # One spend, all models.
    assert fit.ols(found.gram, "a ~ b").nobs == 400
    assert "mean" in fit.describe(found.gram).summary()
    with pytest.raises(ParameterError, match="same people"):
        fit.ols([found.gram, local.gram(DATA, row_norm=NORM, **PRICE)], "a ~ b")
    none = local.ols(
        DATA, "y ~ a + b", row_norm=NORM, epsilon=1e-3, delta=1e-6, source=np.random.default_rng(6)
    )
    assert none.params is None
    assert "no coefficients" in none.summary()
    assert "the noise exceeds the signal" in none.refusal
    assert none.gram is not None
    with pytest.raises(ParameterError, match="no standard errors"):
        none.conf_int()


def test_intervals_of_a_private_fit_cover() -> None:
    """120 Gram matrices of rows drawn anew, three coefficients: 0.95 has a standard error of 0.02, 5 of them is 1e-6 a side
    and coefficient, the seed being fixed."""
    rng = np.random.default_rng(21)
    inside = []
    for _ in range(120):
        x = rng.uniform(-0.7, 0.7, (1500, 2))
        y = 0.1 + 0.4 * x[:, 0] - 0.2 * x[:, 1] + rng.uniform(-0.3, 0.3, 1500)
        rows = pd.DataFrame(np.column_stack([x, y]), columns=["a", "b", "y"])
        found = local.ols(rows, "y ~ a + b", row_norm=1.3, epsilon=2.0, delta=1e-6, source=rng)
        low, high = found.conf_int().to_numpy().T
        inside.append((low < [0.1, 0.4, -0.2]) & (high > [0.1, 0.4, -0.2]))
    share = np.mean(inside, axis=0)
    assert (share > 0.95 - 5 * 0.02).all()
    assert (share < 1).all()


def test_a_schema_gives_groups_and_what_it_knows() -> None:
    """Levels add up, squares are themselves, whatever the noise; a contrast is the same under every reference level."""
    rng = np.random.default_rng(22)
    schema = Schema(
        (
            Attribute("age", "integer", 20, 80),
            Attribute("region", "categorical", levels=("north", "south", "west")),
            Attribute("ill", "binary"),
        )
    )
    people = pd.DataFrame(
        {
            "age": rng.integers(20, 81, 3000),
            "region": rng.choice(["north", "south", "west"], 3000, p=[0.5, 0.3, 0.2]),
            "ill": rng.integers(0, 2, 3000),
        }
    )
    gram = local.gram(people, schema=schema, epsilon=2.0, delta=1e-6, source=rng)
    levels = [f"region_{level}" for level in ("north", "south", "west")]
    assert gram.values.loc["one", levels].sum() == pytest.approx(3000, abs=1e-6)
    assert gram.values.loc["region_north", "region_south"] == pytest.approx(0, abs=1e-6)
    assert gram.values.loc["ill", "ill"] == pytest.approx(gram.values.loc["one", "ill"], abs=1e-6)
    north, south = (
        fit.ols(gram, f"age ~ C(region, ref={level}) + ill").params for level in ("north", "south")
    )
    assert north["C(region)[west]"] - north["C(region)[south]"] == pytest.approx(
        south["C(region)[west]"], abs=1e-9
    )
    alone = local.gram(people, ["age", "region_south"], schema=schema, epsilon=2.0, delta=1e-6, source=rng)
    assert [column.name for column in alone.moments.columns] == ["one", "age", "region_south"]
    assert fit.ols(alone, "age ~ region_south").names == ("Intercept", "region_south")
    with pytest.raises(ParameterError, match="did you mean"):
        local.gram(people, ["aeg"], schema=schema, **PRICE)
    with pytest.raises(ParameterError, match="left out"):
        local.gram(people, schema=schema, row_norm=1.0, **PRICE)
    with pytest.raises(ParameterError, match="price"):
        local.gram(people, schema=schema)


def test_the_papers_mechanisms_say_what_error_they_have() -> None:
    """sqrt(n / r) sampling standard errors, measured: 300 draws, the ratio within 5 of its standard errors of 4 %."""
    source = np.random.default_rng(23)
    with pytest.warns(PaperMechanism, match=r"at least 3\.2 sampling standard errors"):
        local.ols(DATA, "y ~ a + b - 1", method="M_LS", row_norm=NORM, reduced_dim=40, source=source, **PRICE)
    rows = DATA[["a", "b", "y"]].to_numpy()
    draws = [least_squares.release(rows.T @ rows, 40, 0.1, source) for _ in range(300)]
    spread = np.std(draws, axis=0)[0]
    x, y = DATA[["a", "b"]].to_numpy(), DATA["y"].to_numpy()
    _, rss = np.linalg.lstsq(x, y, rcond=None)[:2]
    error = math.sqrt(float(rss[0]) / 400 * np.linalg.inv(x.T @ x)[0, 0])
    assert spread / error > math.sqrt(400 / 40) * (1 - 0.2)
    with pytest.warns(PaperMechanism, match="release.gram"):
        local.projection(DATA, row_norm=NORM, **PRICE)


def test_components_about_the_mean() -> None:
    rng = np.random.default_rng(24)
    data = np.array([0.4, -0.3, 0.1]) + rng.standard_normal((20_000, 3)) @ np.diag([0.15, 0.05, 0.03])
    data = np.clip(data, -1, 1)
    found = local.pca(data, 1, mu=2.0, row_norm=math.sqrt(3), method="noisy_gram", source=rng)
    assert found.components is not None
    assert found.centre is not None
    # The first direction about the mean is x0; about the origin it leans towards the mean, 0.4, -0.3, 0.1.
    assert abs(found.components.iloc[0, 0]) > 0.99
    assert np.allclose(found.centre, data.mean(axis=0), atol=0.01)
    assert found.results is not None
    assert found.guarantee.basis == "proved"
    assert "about the mean" in str(found)
    model = estimators.PrivatePCA(1, mu=2.0, row_norm=math.sqrt(3), method="noisy_gram", source=rng).fit(data)
    assert abs(model.transform(data).mean()) < 0.02


@pytest.mark.parametrize("method", ["adaptive", "exponential", "rank"])
def test_components(method: str) -> None:
    rng = np.random.default_rng(7)
    leading = rng.standard_normal((3000, 1)) @ np.ones((1, 8)) + 0.5 * rng.standard_normal((3000, 8))
    data = leading / np.linalg.norm(leading, axis=1).max()
    norm = None if method == "rank" else 1.0
    found = local.pca(data, 1, mu=4.0, row_norm=norm, method=method, source=rng)
    assert found.components is not None
    overlap = abs(float(found.components[0].sum())) / math.sqrt(8)
    assert overlap > 0.9
    assert found.guarantee.mu == pytest.approx(4.0)
    assert (found.guarantee.neighbours.relation, found.guarantee.basis) == ("record", "asymptotic")
    if method == "rank":
        assert "Theorem 7" in found.guarantee.citation
    half = local.pca(data, 1, mu=2.0, row_norm=norm, method=method, neighbours="add-remove", source=rng)
    assert half.guarantee.mu == pytest.approx(2.0)
    if method == "exponential":
        scaled = pca_theory.from_rows(data * math.sqrt(8), 1)
        assert half.beta == found.beta == pca_theory.beta_for(scaled, 2.0)


def test_components_need_their_bound() -> None:
    with pytest.raises(ParameterError, match="row_norm"):
        local.pca(DATA, 1, mu=1.0)
    with pytest.raises(ParameterError, match="left out"):
        local.pca(DATA, 1, mu=1.0, method="rank", row_norm=2.0)
    with pytest.raises(ParameterError, match="test_share"):
        local.pca(DATA, 1, mu=1.0, row_norm=NORM, test_share=1.0)


@pytest.mark.parametrize("bad", [[[1.0, math.nan]], [1.0, 2.0], [["x", "y"]], np.empty((0, 2))], ids=str)
def test_data_that_is_none(bad: Any) -> None:
    with pytest.raises(ParameterError, match="data"):
        local.gram(bad, row_norm=1.0, **PRICE)


@PAPERS
def test_arrays_and_frames_are_the_same() -> None:
    frame = local.projection(DATA, row_norm=NORM, source=np.random.default_rng(8), **PRICE)
    array = local.projection(DATA.to_numpy(), row_norm=NORM, source=np.random.default_rng(8), **PRICE)
    assert (frame.values.to_numpy() == array.values.to_numpy()).all()
    assert (list(frame.values.index), list(array.values.index)) == (
        list(DATA.columns),
        ["x0", "x1", "x2", "x3"],
    )


def test_the_default_noise_is_not_repeatable() -> None:
    first, second = (local.sum(DATA, -1, 1, **PRICE).total for _ in range(2))
    assert (first != second).all()


def test_estimators_have_sklearns_manners() -> None:
    made: list[Any] = [
        estimators.PrivateMean(-1, 1, **PRICE),
        estimators.PrivateLinearRegression(row_norm=NORM, **PRICE),
        estimators.PrivatePCA(1, mu=1.0, row_norm=NORM),
    ]
    for estimator in made:
        again = type(estimator)(**estimator.get_params())
        assert again.get_params() == estimator.get_params()
        assert estimator.set_params(source=None) is estimator
        with pytest.raises(ParameterError, match="parameter"):
            estimator.set_params(colour="blue")
        assert type(estimator).__name__ in repr(estimator)
    for estimator, ask in zip(made, ("transform", "predict", "transform"), strict=True):
        with pytest.raises(TrimaskError, match="call fit"):
            getattr(estimator, ask)(DATA)


def test_estimators_fit() -> None:
    source = np.random.default_rng(9)
    mean = estimators.PrivateMean(-1.0, 1.0, epsilon=50.0, delta=1e-6, source=source).fit(DATA)
    assert mean.mean_ == pytest.approx(DATA.mean().to_numpy(), abs=8 * mean.noise_.max())
    assert mean.transform(DATA).mean(axis=0) == pytest.approx(DATA.mean().to_numpy() - mean.mean_)
    regression = estimators.PrivateLinearRegression(
        row_norm=NORM, epsilon=500.0, delta=1e-6, method="noisy_gram", source=source
    ).fit(DATA[["a", "b"]], DATA["y"])
    assert regression.coef_ == pytest.approx([0.5, -0.25], abs=0.1)
    assert (np.abs(regression.coef_ - [0.5, -0.25]) < 8 * regression.bse_).all()
    assert "std err" in regression.summary()
    assert regression.predict([[0.0, 0.0]]) == pytest.approx([regression.intercept_])
    through_origin = estimators.PrivateLinearRegression(
        row_norm=NORM, epsilon=500.0, delta=1e-6, method="noisy_gram", fit_intercept=False, source=source
    ).fit(DATA[["a", "b"]], DATA["y"])
    assert through_origin.intercept_ == 0.0
    components = estimators.PrivatePCA(2, mu=50.0, row_norm=NORM, method="exponential", source=source)
    assert components.fit_transform(DATA.to_numpy()).shape == (400, 2)
    assert components.components_.shape == (2, 4)
    hopeless = estimators.PrivateLinearRegression(
        row_norm=NORM, epsilon=1e-4, delta=1e-6, method="noisy_gram", source=source
    )
    with pytest.raises(TrimaskError, match="larger than what these columns carry"):
        hopeless.fit(DATA[["a", "b"]], DATA["y"])
    with pytest.raises(TrimaskError, match="not achievable"):
        estimators.PrivatePCA(2, mu=1e-3, row_norm=NORM, source=source).fit(DATA)
    with pytest.raises(ParameterError, match="X and y"):
        regression.fit(DATA, DATA["y"][:10])


def cloned(estimator: Any) -> Any:
    """What scikit-learn's `clone` does: a copy of every parameter, and each kept as it was given."""
    given = {name: copy.deepcopy(value) for name, value in estimator.get_params(deep=False).items()}
    made = type(estimator)(**given)
    assert all(getattr(made, name) is value for name, value in given.items())
    return made


def test_clones_are_unfitted_and_never_repeat_noise() -> None:
    source = SecureNormals(DeterministicRandom("clone"))
    first = estimators.PrivateMean(-1.0, 1.0, **PRICE, source=source).fit(DATA)
    second = cloned(first)
    assert not hasattr(second, "mean_")
    assert list(second.fit(DATA).mean_) != list(cloned(first).fit(DATA).mean_)


def test_fitted_columns_are_remembered() -> None:
    frame, rows = DATA[["a", "b", "c"]], DATA[["a", "b", "c"]].to_numpy()
    mean = estimators.PrivateMean(-1.0, 1.0, **PRICE).fit(frame)
    assert (mean.n_features_in_, list(mean.feature_names_in_)) == (3, ["a", "b", "c"])
    assert mean.fit_transform(frame).shape == rows.shape
    with pytest.raises(ParameterError, match="of the columns given to fit: a, b, c"):
        mean.transform(frame[["c", "b", "a"]])
    with pytest.raises(ParameterError, match="3 columns, as in fit"):
        mean.transform(rows[:, :2])
    assert not hasattr(mean.fit(rows), "feature_names_in_")
    model = estimators.PrivateLinearRegression(row_norm=NORM, epsilon=100.0, delta=1e-6)
    score = model.fit(rows[:, :2], rows[:, 2]).score(rows[:, :2], rows[:, 2])
    left = rows[:, 2] - model.predict(rows[:, :2])
    assert score == pytest.approx(1 - left @ left / (len(rows) * rows[:, 2].var()))
    for estimator in (mean, model):
        assert estimator.guarantee_.basis == "proved"
