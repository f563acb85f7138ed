"""The demo's simulated people for the bundled study, used when no table is given."""

from __future__ import annotations

import numpy as np

from trimask_cli.table.people import Answers

__all__ = ["blood_pressure_population"]


def blood_pressure_population(count: int, seed: int) -> list[Answers]:
    """Simulated answers to the bundled study, with known coefficients that the demo's fit should recover."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 81, count)
    bmi = np.clip(rng.normal(26, 4, count), 16, 42)
    salt = np.clip(rng.gamma(9, 1.0, count), 2, 18)
    smoker = rng.random(count) < 0.25
    activity = rng.choice(["low", "medium", "high"], count, p=[0.4, 0.4, 0.2])
    effect = {"low": 0.0, "medium": -3.0, "high": -6.0}
    mean = 72 + 0.55 * age + 0.75 * bmi + 0.9 * salt + 6.0 * smoker + np.array([effect[a] for a in activity])
    systolic = np.clip(np.rint(mean + rng.normal(0, 8, count)), 90, 180)
    return [
        {
            "systolic": int(systolic[i]),
            "age": int(age[i]),
            "bmi": float(round(bmi[i], 1)),
            "salt": float(round(salt[i], 1)),
            "smoker": bool(smoker[i]),
            "activity": str(activity[i]),
        }
        for i in range(count)
    ]
