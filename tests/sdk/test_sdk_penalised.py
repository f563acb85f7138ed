"""Chosen ridge penalties and mediation: exact without noise, honest with it."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.formula.api as smf

from tests.sdk.test_sdk_tables import EXACT, ROWS, noisy, people
from trimask import fit
from trimask.errors import FormulaError, NoiseExceedsSignal, ParameterError

COLUMNS = ["visits", "ill", "years"]
FORMULA = "age ~ visits + ill + years"


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
