"""RAND's health insurance data (`statsmodels.datasets.randhie`) as answers to a study with groups in it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from statsmodels.datasets import randhie

from trimask_core.study.schema import Attribute, Schema

__all__ = ["RAND_PEOPLE", "RAND_SCHEMA", "rand_answers"]

RAND_PEOPLE = 20_190
RAND_SCHEMA = Schema(
    (
        Attribute("logvis", "continuous", 0, 5),
        Attribute("coins", "continuous", 0, 5),
        Attribute("plan", "binary"),
        Attribute("limited", "binary"),
        Attribute("disease", "continuous", 0, 60),
        Attribute("health", "categorical", levels=("excellent", "good", "fair", "poor")),
    )
)


def rand_answers(people: int, seed: int = 1) -> pd.DataFrame:
    """So many of its people."""
    data = randhie.load_pandas().data
    data = data if people >= len(data) else data.sample(people, random_state=seed)
    health = np.select(
        [data.hlthp == 1, data.hlthf == 1, data.hlthg == 1], ["poor", "fair", "good"], "excellent"
    )
    return pd.DataFrame(
        {"logvis": np.log1p(data.mdvis).clip(0, 5), "coins": data.lncoins, "plan": data.idp.astype(int),
         "limited": (data.physlm > 0.5).astype(int), "disease": data.disea.clip(0, 60), "health": health}
    )  # fmt: skip
