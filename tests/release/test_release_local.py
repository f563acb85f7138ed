"""The mechanisms for whoever holds raw rows: the same laws, bounds enforced, sklearn's manners."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from trimask.release import estimators, local
from trimask.release.solving import original_units, solve_gram
from trimask_core.errors import ParameterError, TrimaskError
from trimask_core.randomness import DeterministicRandom
from trimask_core.rows.normal import SecureNormals
from trimask_core.schema import Column
from trimask_theory import least_squares, local_noise, projection, record
from trimask_theory import pca as pca_theory

RNG = np.random.default_rng(11)
DATA = pd.DataFrame(RNG.uniform(-1, 1, (400, 3)), columns=["a", "b", "c"])
DATA["y"] = 0.5 * DATA["a"] - 0.25 * DATA["b"] + 0.1 * RNG.uniform(-1, 1, 400)
NORM = 2.0
PRICE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


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


def test_rows_outside_the_bounds_are_refused_not_clipped() -> None:
    with pytest.raises(ParameterError, match="within"):
        local.sum(DATA, -0.5, 0.5, **PRICE)
    for ask in (
        lambda: local.projection(DATA, row_norm=0.5, **PRICE),
        lambda: local.ols(DATA, "y", row_norm=0.5, **PRICE),
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


def test_projection_calibrations() -> None:
    source = np.random.default_rng(3)
    stated = local.projection(DATA, row_norm=NORM, reduced_dim=3, source=source, **PRICE)
    e, d = record.one_step(1.0, 1e-6)
    assert stated.sigma == projection.calibrate(e, d, 3, NORM, "sharp").sigma
    assert (stated.guarantee.neighbours.relation, stated.values.shape) == ("record", (4, 3))
    paper = local.projection(
        DATA, row_norm=NORM, reduced_dim=3, method="theorem", neighbours="add-remove", source=source, **PRICE
    )
    assert paper.sigma == projection.calibrate(1.0, 1e-6, 3, NORM, "theorem").sigma < stated.sigma
    assert paper.guarantee.neighbours.relation == "add-remove"
    relative = local.projection(
        DATA, row_norm=NORM, reduced_dim=3, neighbours="add-remove", leverage=1e-4, source=source, **PRICE
    )
    assert relative.sigma == 0.0
    assert "holds only for" in relative.guarantee.because


@pytest.mark.parametrize("method", ["LS", "ALS"])
def test_least_squares(method: str) -> None:
    """The draw is near the regularised solution: 8 standard deviations of M_LS (twice that for the sketch)."""
    found = local.ols(
        DATA, "y", ["a", "b"], row_norm=NORM, method=method, reduced_dim=40, neighbours="add-remove",
        source=np.random.default_rng(4), **PRICE,
    )  # fmt: skip
    assert found.sigma == least_squares.calibrate(1.0, 1e-6, 40, 2, NORM, "sharp", method).sigma
    data = DATA[["a", "b", "y"]].to_numpy()
    gram = data.T @ data + found.sigma**2 * np.eye(3)
    solution = np.linalg.solve(gram[:2, :2], gram[:2, 2])
    residual = gram[2, 2] - gram[2, :2] @ solution
    sd = np.sqrt(residual / 40 * np.diag(np.linalg.inv(gram[:2, :2])))
    assert found.params is not None
    assert (np.abs(found.params - solution) <= 16 * sd).all()
    assert (np.abs(found.params - solution) > 0).all()


def test_least_squares_relative_and_bad_columns() -> None:
    relative = local.ols(
        DATA, "y", row_norm=NORM, leverage=1e-5, residual=1e-5, source=np.random.default_rng(5), **PRICE
    )
    assert relative.sigma == 0.0
    with pytest.raises(ParameterError, match="given together"):
        local.ols(DATA, "y", row_norm=NORM, leverage=1e-5, **PRICE)
    for response, features in (
        ("z", None),
        ("y", ["z"]),
        ("y", ["y"]),
        ("y", ["a", "a"]),
        ("y", []),
        (9, None),
    ):
        with pytest.raises(ParameterError):
            local.ols(DATA, response, features, row_norm=NORM, **PRICE)
    with pytest.raises(ParameterError, match="record"):
        local.ols(DATA, "y", row_norm=NORM, method="noisy_gram", neighbours="add-remove", **PRICE)
    with pytest.raises(ParameterError, match="left out"):
        local.ols(DATA, "y", row_norm=NORM, method="noisy_gram", reduced_dim=5, **PRICE)


def test_noisy_gram() -> None:
    found = local.ols(
        DATA,
        "y",
        row_norm=NORM,
        method="noisy_gram",
        epsilon=200.0,
        delta=1e-6,
        source=np.random.default_rng(6),
    )
    assert found.params is not None
    assert found.params["a"] == pytest.approx(0.5, abs=0.1)
    none = local.ols(
        DATA,
        "y",
        row_norm=NORM,
        method="noisy_gram",
        epsilon=1e-3,
        delta=1e-6,
        source=np.random.default_rng(6),
    )
    assert none.params is None


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
        local.projection(bad, row_norm=1.0, **PRICE)


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


def test_units() -> None:
    """Exact arithmetic: coefficients of scaled columns against a fit of the same values as they were answered."""
    rng = np.random.default_rng(10)
    one, x, y = Column("one"), Column("x", 50.0, 30.0), Column("y", 2.0, 4.0)
    raw_x, raw_y = rng.uniform(20, 80, 50), rng.uniform(-2, 6, 50)
    scaled = np.column_stack((np.ones(50), (raw_x - 50) / 30, (raw_y - 2) / 4))
    solution = solve_gram(scaled.T @ scaled)
    assert solution is not None
    found, units = original_units(solution, [one, x], y)
    assert units == "original"
    assert found[::-1] == pytest.approx(np.polyfit(raw_x, raw_y, 1))
    assert original_units(solution[1:], [x], y)[1] == "scaled"
    assert solve_gram(-np.eye(3)) is None


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
    fit = estimators.PrivateLinearRegression(row_norm=NORM, epsilon=100.0, delta=1e-6, method="noisy_gram")
    score = fit.fit(rows[:, :2], rows[:, 2]).score(rows[:, :2], rows[:, 2])
    left = rows[:, 2] - fit.predict(rows[:, :2])
    assert score == pytest.approx(1 - left @ left / (len(rows) * rows[:, 2].var()))
    for estimator in (mean, fit):
        assert estimator.guarantee_.basis == "proved"
