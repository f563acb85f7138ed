"""RAND's health insurance data: what each mechanism's answer is worth, and contrasts that no reference level changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.datasets import randhie

from trimask import fit
from trimask.moments.moments import row_moments
from trimask.release import PaperMechanism, local, local_rows
from trimask_core.study.schema import Attribute, Schema

COLUMNS = ["lncoins", "idp", "lpi", "physlm", "disea"]
FORMULA = "logvis ~ " + " + ".join(COLUMNS)
LEVELS = ("excellent", "good", "fair", "poor")
SCHEMA = Schema(
    (
        Attribute("logvis", "continuous", 0, 4.5),
        Attribute("lncoins", "continuous", 0, 4.62),
        Attribute("idp", "binary"),
        Attribute("lpi", "continuous", 0, 7.2),
        Attribute("physlm", "continuous", 0, 1),
        Attribute("disea", "continuous", 0, 58.6),
        Attribute("health", "categorical", levels=LEVELS),
    )
)


@pytest.fixture(scope="module")
def rand() -> pd.DataFrame:
    data = randhie.load_pandas().data
    flags = [data["hlthp"] == 1, data["hlthf"] == 1, data["hlthg"] == 1]
    health = np.select(flags, ["poor", "fair", "good"], "excellent")
    return data.assign(logvis=np.log1p(data["mdvis"]), health=health)


def test_the_noisy_gram_has_a_tenth_of_the_papers_error(
    rand: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In sampling standard errors at epsilon 10: 0.24 (rms of six coefficients) beside 16.5, measured with 100 draws
    (docs/releases.md). Here 12 and 3 draws: 0.24 doubles, or 16.5 halves, with probability below 1e-6."""
    exact = row_moments(rand, SCHEMA)
    monkeypatch.setattr(local_rows, "row_moments", lambda *_: exact)  # the same every time
    truth = smf.ols(FORMULA, rand).fit()
    rng = np.random.default_rng(1)
    price = {"epsilon": 10.0, "delta": 1e-6, "source": rng}
    found = [local.ols(rand, FORMULA, schema=SCHEMA, **price).params for _ in range(12)]
    error = np.sqrt(np.mean([((one - truth.params) / truth.bse) ** 2 for one in found if one is not None]))
    assert error < 0.48
    scaled = pd.DataFrame(
        {c.name: (rand[c.name] - c.center) / c.half_range for c in SCHEMA.columns if c.name in rand}
    )
    against = smf.ols(FORMULA, scaled).fit()
    with pytest.warns(PaperMechanism, match="at least 17 sampling"):
        sketched = [
            local.ols(scaled, FORMULA, row_norm=6**0.5, method="M_LS", **price).params for _ in range(3)
        ]
    paper = np.sqrt(
        np.mean([((one - against.params) / against.bse) ** 2 for one in sketched if one is not None])
    )
    assert paper > 8


def test_any_reference_level_gives_the_same_contrasts(
    rand: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = row_moments(rand, SCHEMA)
    monkeypatch.setattr(local_rows, "row_moments", lambda *_: exact)
    gram = local.gram(rand, schema=SCHEMA, epsilon=1.0, delta=1e-6, source=np.random.default_rng(2))
    seen = []
    for level in LEVELS:
        model = fit.ols(gram, f"{FORMULA} + C(health, ref={level})")
        effect = {level: 0.0} | {one: model.params[f"C(health)[{one}]"] for one in LEVELS if one != level}
        seen.append([effect[a] - effect[b] for a in LEVELS for b in LEVELS])
    assert np.ptp(np.array(seen), axis=0).max() < 1e-9
    assert fit.describe(gram, ["health"]).shares["estimate"].sum() == pytest.approx(1, abs=1e-12)
