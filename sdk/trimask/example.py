"""A release to try things on: simulated people of a made-up study of blood pressure, collected by nobody."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trimask.errors import ParameterError
from trimask.simulation import Simulated, simulate

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["example"]

_STUDY = """
title = "Blood pressure and daily habits (made up)"
purpose = "An example to try fits on"
contact = "nobody"
privacy = {epsilon = 16, delta = 1e-6}
collection = {suite = "moments", release_rows = 100}
attributes = [
  {name = "age", kind = "integer", minimum = 20, maximum = 80, unit = "years"},
  {name = "salt", kind = "continuous", minimum = 0, maximum = 20, unit = "g/day"},
  {name = "smoker", kind = "binary"},
  {name = "leaflet", kind = "binary"},
  {name = "activity", kind = "categorical", levels = ["low", "medium", "high"]},
  {name = "systolic", kind = "continuous", minimum = 80, maximum = 200, unit = "mmHg"},
]
derived = [
  {name = "age_group", kind = "bins", of = ["age"], cuts = [35, 50, 65]},
  {name = "activity_age", kind = "product", of = ["activity", "age"]},
]
"""


@lru_cache(maxsize=8)
def example(people: int = 2000, epsilon: float = 16.0, seed: int = 1) -> Simulated:
    """What a release of a small study would be: a source for every `trimask.fit`, without a collector.

    Parameters
    ----------
    people : int
        How many people are made up, at least 100.
    epsilon : float
        The privacy a real release of this study would have, at delta = 1e-6. So few people show much only where it is
        weak: a study of ten times as many has no more noise in its numbers at a tenth of it.
    seed : int
        Of the people and of the noise; the same seed gives the same release.

    Returns
    -------
    Simulated
        In suite `moments`: age (and age_group, its bins), salt, smoker, leaflet, activity (low, medium, high; and its
        product with age) and systolic. `.raw` has the same people without noise.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> data
    <Simulated 2,000 people, suite moments: not collected>
    >>> trimask.fit.ols(data, "systolic ~ age + salt").names
    ('Intercept', 'age', 'salt')
    """
    if people < 100:
        raise ParameterError("people", "at least 100", people)
    return simulate(_people(people, seed), _STUDY, epsilon, seed=seed)


def _people(n: int, seed: int) -> pd.DataFrame:
    """A leaflet takes 3 g of salt off; systolic is 85 + 0.6 age + 1.5 salt + 4 smoker - 3 a step of activity."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    age, leaflet = rng.integers(20, 81, n), rng.random(n) < 0.5
    smoker, activity = rng.random(n) < 0.3 - 0.1 * (age > 50), rng.choice(3, n, p=[0.4, 0.35, 0.25])
    salt = np.clip(rng.normal(10, 3, n) - 3 * leaflet, 0, 20)
    systolic = 85 + 0.6 * age + 1.5 * salt + 4 * smoker - 3 * activity + rng.normal(0, 8, n)
    return pd.DataFrame(
        {
            "age": age, "salt": salt, "smoker": smoker.astype(int), "leaflet": leaflet.astype(int),
            "activity": np.array(["low", "medium", "high"])[activity], "systolic": np.clip(systolic, 80, 200),
        }
    )  # fmt: skip
