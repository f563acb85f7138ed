"""An attacker with the likelihood ratio against the real pipeline: discrete noise, grid, masks, noise of publishing.

It knows everybody's answers but one person's, and that person's up to two. At the calibrated sigma what it reaches stays
under the delta stated, at every epsilon looked at; at nine tenths of sigma it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trimask_audit import Audit
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.study.definition import Study
from trimask_core.study.schema import Attribute, Schema
from trimask_pipeline import releases
from trimask_theory.masking import masked_noise
from trimask_theory.masking.hypergeometric import log_0f1

SCHEMA = Schema((Attribute("u", "continuous", -1, 1), Attribute("v", "continuous", -1, 1)), ones=False)
ROWS, NORM = 16, math.sqrt(2)
ONE, OTHER = (
    {"u": 1.0, "v": 1.0},
    {"u": 1.0, "v": -1.0},
)  # at right angles, as long as rows may be: the worst pair
EPSILONS = (0.25, 0.5, 1.0, 2.0)
EPSILON, DELTA = 1.0, 0.2

Make = Callable[..., Any]
Vector = NDArray[np.float64]


def _loss(study: Study, person: dict[str, float], count: int, label: str) -> Vector:
    """The privacy loss (docs/theory/sharp-calibration.md#privacy-loss) of releases with this person in them."""
    source = DeterministicRandom(f"{label} {person['v']}")
    rest = [{"u": 0.0, "v": 0.0}] * (ROWS - 1)
    lengths = np.array(
        [
            [np.linalg.norm(rows @ np.array([row["u"], row["v"]])) for row in (ONE, OTHER)]
            for rows in releases(study, [person, *rest], count, source)
        ]
    )
    scores = log_0f1(0.5 * ROWS, lengths / study.protection.sigma**2)
    return np.asarray(scores[:, 0] - scores[:, 1])


def _losses(study: Study, count: int, label: str) -> tuple[Vector, Vector]:
    """Of releases with ONE, and of releases with OTHER, in them."""
    return _loss(study, ONE, count, label), _loss(study, OTHER, count, label)


def _audit(losses: tuple[Vector, Vector], epsilon: float, confidence: float) -> Audit:
    hits, false_hits = (int((loss > epsilon).sum()) for loss in losses)
    return Audit(epsilon, len(losses[0]), hits, false_hits, confidence)


def _study(make_study: Make, part: float) -> Study:
    """With this part of the noise that (EPSILON, DELTA) asks for."""
    sigma = masked_noise.calibrate(EPSILON, DELTA, ROWS, 2, row_norm=NORM).sigma
    study: Study = make_study(
        schema=SCHEMA, right=2, left=1, block_rows=ROWS, release_rows=ROWS, sigma=part * sigma
    ).study
    return study


def _stays_under(study: Study, losses: tuple[Vector, Vector], confidence: float) -> None:
    for epsilon in EPSILONS:
        stated = masked_noise.delta(epsilon, study.protection.sigma, ROWS, 2, row_norm=NORM)
        assert _audit(losses, epsilon, confidence).lower <= stated


def test_at_sigma_and_at_half_of_it(make_study: Make) -> None:
    # Four statements at confidence 1 - 1e-4: a false failure in one seed of 2,500.
    study = _study(make_study, 1.0)
    _stays_under(study, _losses(study, 100, "sigma"), 1 - 1e-4)
    losses = _losses(_study(make_study, 0.5), 100, "half")
    assert _audit(losses, EPSILON, 1 - 1e-4).lower > DELTA


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_at_sigma_and_at_nine_tenths_of_it(make_study: Make) -> None:
    # Four statements at confidence 0.99; the seeds are fixed, and were not chosen. At 0.9 sigma delta is 0.268, not 0.2.
    study = _study(make_study, 1.0)
    at_sigma = _losses(study, 6_000, "sigma")
    below = _losses(_study(make_study, 0.9), 6_000, "nine tenths")
    for epsilon in EPSILONS:
        stated = masked_noise.delta(epsilon, study.protection.sigma, ROWS, 2, row_norm=NORM)
        one, two = (_audit(losses, epsilon, 0.99) for losses in (at_sigma, below))
        print(f"epsilon {epsilon}: stated {stated:.4f}; at sigma {one.estimate:.4f} [{one.lower:.4f}, {one.upper:.4f}]; "
              f"at 0.9 sigma {two.estimate:.4f} [{two.lower:.4f}, {two.upper:.4f}]")  # fmt: skip
    _stays_under(study, at_sigma, 0.99)
    assert _audit(below, EPSILON, 0.99).lower > DELTA
