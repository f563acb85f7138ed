"""Lasso, elastic net, chosen ridge penalties and mediation: exact without noise, honest with it."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from tests.sdk.test_sdk_tables import EXACT, NOISY, ROWS, noisy, people
from trimask import fit
from trimask.errors import FormulaError, NoiseExceedsSignal, ParameterError

COLUMNS = ["visits", "ill", "years"]
FORMULA = "age ~ visits + ill + years"


@pytest.mark.parametrize(("penalty", "mix"), [(0.02, 1.0), (0.005, 1.0), (0.05, 0.5), (0.0, 1.0)])
def test_the_elastic_net_is_the_one_on_the_rows(penalty: float, mix: float) -> None:
    """statsmodels' objective is ours over n where correlations are over n - 1: the penalty goes by (n - 1)/n."""
    X, y = ROWS[COLUMNS].astype(float), ROWS["age"]
    Z, z = (X - X.mean()) / X.std(), (y - y.mean()) / y.std()
    n = len(ROWS)
    alpha = penalty * (n - 1) / n
    theirs = (
        sm.OLS(z, Z)
        .fit_regularized(alpha=alpha, L1_wt=mix, cnvrg_tol=1e-13, maxiter=10_000)
        .params.to_numpy()
    )
    found = fit.elastic_net(EXACT, FORMULA, penalty, mix=mix)
    assert np.allclose(found.standardized, theirs, atol=1e-8)
    # The conditions of an optimum, on the rows: the gradient is the penalty's where a slope is not zero, and less elsewhere.
    b = found.standardized.to_numpy()
    pull = (Z.to_numpy().T @ (z - Z @ b).to_numpy()) / (n - 1) - penalty * (1 - mix) * b
    assert np.allclose(pull[b != 0], penalty * mix * np.sign(b[b != 0]), atol=1e-9)
    assert (np.abs(pull[b == 0]) <= penalty * mix + 1e-9).all()
    slopes = found.params[COLUMNS]
    assert np.allclose(slopes, theirs * y.std() / X.std(), atol=1e-8)
    assert found.params["Intercept"] == pytest.approx(y.mean() - float(slopes @ X.mean()))


def test_a_penalty_is_chosen_and_said() -> None:
    found = fit.lasso(EXACT, "age ~ visits + ill + years + C(region)")
    assert "least BIC" in found.summary()
    assert "C(region)[south]" in found.selected  # five years apart: the one real effect
    assert fit.lasso(EXACT, FORMULA, penalty=1.0).selected == []
    noisier = fit.lasso(NOISY, "age ~ visits + ill + years + C(region)")
    assert "C(region)[south]" in noisier.selected
    assert "reference level" in noisier.summary()
    assert "<table>" in noisier._repr_html_()
    for call, words in (
        (lambda: fit.lasso(EXACT, FORMULA, penalty=-1), "penalty"),
        (lambda: fit.elastic_net(EXACT, FORMULA, mix=0), "fit.ridge"),
    ):
        with pytest.raises(ParameterError, match=words):
            call()
    with pytest.raises(FormulaError, match="intercept"):
        fit.lasso(EXACT, "age ~ visits - 1")


def test_the_choice_of_a_penalty_counts_the_noise_in() -> None:
    """Twenty releases of the same rows, whose age depends on the region alone: by R^2, slopes that the noise made were
    kept, 25 of these 60; with the noise in the criterion it is 2. The seed is fixed."""
    rng = np.random.default_rng(8)
    kept = 0
    for _ in range(20):
        found = fit.lasso(noisy(ROWS, 8.0, rng), "age ~ visits + ill + years + C(region)")
        kept += sum(name in found.selected for name in COLUMNS)
        assert "C(region)[south]" in found.selected
        assert "the noise counted in" in found.summary()
    assert kept <= 8


def test_an_indefinite_matrix_is_repaired_and_said() -> None:
    """Of 20 releases with noise of this size some are indefinite and some are not; both answer, and say which it was."""
    rng = np.random.default_rng(31)
    rows = people(300, rng)
    found = [
        fit.lasso(noisy(rows, 5.0, rng), "age ~ visits + years + ill + C(region)", penalty=0.1)
        for _ in range(20)
    ]
    assert {one.repaired for one in found} == {True, False}
    for one in found:
        assert np.isfinite(one.params).all()
        assert one.repaired == ("nearest positive semidefinite" in one.summary())


def test_ridge_penalties_chosen() -> None:
    plain, exact = fit.ridge(EXACT, FORMULA, "adassp"), fit.ols(EXACT, FORMULA)
    assert plain.penalty == 0
    assert np.allclose(plain.params, exact.params)
    chosen = fit.ridge(EXACT, FORMULA, "gcv")
    scores = {value: _gcv(value) for value in (0.0, chosen.penalty / 3, chosen.penalty, 3 * chosen.penalty)}
    assert min(scores, key=lambda value: scores[value]) == chosen.penalty or chosen.penalty == 0
    assert "by gcv" in chosen.summary()
    with pytest.raises(ParameterError, match="'gcv' or 'adassp'"):
        fit.ridge(EXACT, FORMULA, "best")  # type: ignore[arg-type]


def _gcv(penalty: float) -> float:
    """By hand, on the rows."""
    Z = np.column_stack(
        [np.ones(len(ROWS)), (ROWS["visits"] - 10) / 10, 2 * ROWS["ill"] - 1, (ROWS["years"] - 2) / 2]
    )
    y = (ROWS["age"] - 50) / 30
    n = len(ROWS)
    hat = Z @ np.linalg.solve(Z.T @ Z + n * penalty * np.diag([0, 1, 1, 1]), Z.T)
    left = y - hat @ y
    return float(left @ left) / (1 - np.trace(hat) / n) ** 2


def test_shrinkage_answers_where_least_squares_is_refused_and_errs_less() -> None:
    """40 releases whose noise is of the size of the smallest eigenvalue: chosen penalties always answer, and their rms error
    of the slopes is below that of least squares where it answers at all. The seed is fixed."""
    rng = np.random.default_rng(32)
    rows = people(600, rng)
    truth = fit.ols(noisy(rows, 0.0, rng), FORMULA).params[COLUMNS].to_numpy()
    errors: dict[str, list[float]] = {"ols": [], "gcv": [], "adassp": []}
    for _ in range(40):
        data = noisy(rows, 45.0, rng)
        for how in ("gcv", "adassp"):
            found = fit.ridge(data, FORMULA, how)  # type: ignore[arg-type]
            errors[how].append(float(np.sum((found.params[COLUMNS] - truth) ** 2)))
        try:
            errors["ols"].append(float(np.sum((fit.ols(data, FORMULA).params[COLUMNS] - truth) ** 2)))
        except NoiseExceedsSignal:
            continue
    assert len(errors["gcv"]) == len(errors["adassp"]) == 40 > len(errors["ols"]) - 1
    assert np.median(errors["adassp"]) < np.median(errors["ols"])
    assert np.median(errors["gcv"]) < np.median(errors["ols"])


def test_mediation_without_noise_is_two_fits() -> None:
    found = fit.mediation(EXACT, "visits", "ill", "age", given="years", draws=100, seed=1)
    first, second = (
        smf.ols("age ~ ill + years", ROWS).fit(),
        smf.ols("visits ~ ill + age + years", ROWS).fit(),
    )
    a, b, c = first.params["ill"], second.params["age"], second.params["ill"]
    assert np.allclose(found.effects["estimate"], [a * b, c, a * b + c, a, b])
    total = smf.ols("visits ~ ill + years", ROWS).fit().params["ill"]
    assert found.effects.loc["total", "estimate"] == pytest.approx(total)
    sobel = np.sqrt(b**2 * first.bse["ill"] ** 2 + a**2 * second.bse["age"] ** 2)
    assert found.effects.loc["indirect", "std err"] == pytest.approx(sobel)
    assert found.sobel[0] == pytest.approx(a * b / sobel)
    assert found.proportion == pytest.approx(a * b / total)
    assert "by bootstrap" in found.summary()
    assert "by bootstrap" not in fit.mediation(EXACT, "visits", "ill", "age", draws=0).summary()
    with pytest.raises(FormulaError, match="three different"):
        fit.mediation(EXACT, "visits", "ill", "ill")
    with pytest.raises(ParameterError, match="one of 'sobel'"):
        fit.mediation(EXACT, "visits", "ill", "age", draws=0).conf_int(of="bootstrap")


def test_mediation_covers() -> None:
    """40 studies: 0.95 has a standard error of 0.034; five effects two ways, 5 of it below: under 1e-4, the seed fixed."""
    many = people(400_000, 41)
    first, second = (
        smf.ols("visits ~ years", many).fit().params,
        smf.ols("ill ~ years + visits", many).fit().params,
    )
    a, b, c = first["years"], second["visits"], second["years"]
    truth = np.array([a * b, c, a * b + c, a, b])
    rng = np.random.default_rng(42)
    inside: dict[str, list[np.ndarray]] = {"sobel": [], "bootstrap": []}
    for at in range(40):
        found = fit.mediation(noisy(people(1500, rng), 6.0, rng), "ill", "years", "visits", draws=60, seed=at)
        for method, held in inside.items():
            low, high = found.conf_int(of=method).to_numpy().T
            held.append((low <= truth) & (truth <= high))
    for method, held in inside.items():
        assert (np.mean(held, axis=0) > 0.95 - 5 * 0.034).all(), method
