"""Does a study's promise follow from its noise? What a device computes itself, without a statistics library.

Institutions recompute a study's guarantees before they sign (`trimask_theory.study_plan.verify_guarantees`). A device
repeats it by other means: the rows suite by `rows.masked_delta`, the moments suite by the Gaussian mechanism's own curve.
A study that claims more than its sigma gives is refused. What cannot be computed here (`unit` neighbours, a single
column) is reported, not ignored. tau, and mu of the noise columns, are checked with the study itself.
"""

from __future__ import annotations

import math
from functools import lru_cache

from trimask_core.errors import StudyError
from trimask_core.guarantee import Guarantee
from trimask_core.rows import masked_delta
from trimask_core.rows.discrete import RELEASE_ENTRIES, discrete_epsilon, right_providers_mu
from trimask_core.rows.study import RowsSettings
from trimask_core.study import Study

__all__ = ["check_claims", "gaussian_delta"]

ALLOWED = 1e-3
"""A delta this part above the stated one passes: more than the arithmetic here errs upwards, nothing to a person."""

_FAR = 30.0  # beyond so many standard deviations a tail is given by its first two terms


def check_claims(study: Study) -> tuple[str, ...]:
    """Raise `StudyError` if the study claims more than its noise gives; what could not be checked here, in words."""
    protection = study.protection
    if not protection.sigma:
        if protection.public is not None or protection.collector is not None or protection.by_honest_rows:
            raise StudyError("this study promises differential privacy and adds no noise: take no part")
        return ()
    return _rows(study) if isinstance(study.suite, RowsSettings) else _moments(study)


def gaussian_delta(epsilon: float, s: float) -> float:
    """delta at `epsilon` of the Gaussian mechanism with s = sigma / sensitivity, never below the true one by rounding.

    docs/theory/gaussian-pairs.md#equal-covariance.
    """
    if not s > 0 or not math.isfinite(1 / s):
        return 1.0
    near, far = epsilon * s - 0.5 / s, epsilon * s + 0.5 / s
    first = 0.5 * math.erfc(near / math.sqrt(2))
    if far < _FAR:
        lost = math.exp(epsilon) * 0.5 * math.erfc(far / math.sqrt(2))
    else:  # e^epsilon phi(far) = phi(near), and 1/x - 1/x^3 is below Mills' ratio
        lost = math.exp(-0.5 * near * near) / math.sqrt(2 * math.pi) * (1 - 1 / far**2) / far
    return min(1.0, max(first * (1 + 1e-12) - lost, 0.0))


def _rows(study: Study) -> tuple[str, ...]:
    protection = study.protection
    norm = protection.row_norm
    _right_providers(study)
    for guarantee, rows, towards in (
        (protection.public, study.release_rows, "everybody"),
        (protection.collector, study.rows.block_rows, "the collector"),
    ):
        if guarantee is None:
            continue
        released = RELEASE_ENTRIES * rows
        _discrete(study, guarantee, released * study.attributes, released * study.rows.columns, towards)
        near = guarantee.neighbours
        if near.relation == "unit":
            return ("its numbers are for one row moved by a step, which this device does not work out",)
        if (near.relation, near.row_norm, near.distance) != ("record", norm, 2 * norm):
            raise StudyError(
                f"what this study promises towards {towards} is not about rows of its own norm: take no part"
            )
        if study.attributes < 2:
            return ("it has a single column, which this device does not work out",)
        epsilon, stated = _pair(guarantee, towards)
        _compare(stated, _masked(epsilon, protection.sigma, rows, study.attributes, norm), epsilon, towards)
    if protection.public is not None:
        _, stated = _pair(protection.public, "everybody")
        for rows, epsilon in protection.by_honest_rows:
            found = gaussian_delta(epsilon, protection.sigma / (math.sqrt(2) * norm))
            if found > stated * (1 + ALLOWED) and rows > study.attributes:
                found = _masked(epsilon, protection.sigma, rows, study.attributes, norm)
            _compare(stated, found, epsilon, f"everybody with {rows} honest people")
    return ()


def _right_providers(study: Study) -> None:
    """mu towards a party that sees a row with the row's own noise: exact and cheap, so it is computed for every study."""
    protection, stated = study.protection, study.protection.right_providers
    if stated is None:
        if protection.public is None and protection.collector is None:
            return
        raise StudyError("this study does not say what all right providers together could tell: take no part")
    near = stated.neighbours
    step = study.rows.grid.step
    if (near.relation, near.row_norm, near.distance) == (
        "record",
        protection.row_norm,
        2 * protection.row_norm,
    ):
        distance = 2 * protection.row_norm
    elif (near.relation, near.row_norm, near.distance) == ("unit", protection.row_norm, 1.0):
        distance = 1 + step * math.sqrt(study.attributes)
    else:
        raise StudyError(
            "what this study promises towards right providers is not about its own rows: take no part"
        )
    found = right_providers_mu(distance, protection.sigma, step)
    if stated.mu is None or not found <= stated.mu * (1 + ALLOWED):
        raise StudyError(
            f"towards all right providers this study states mu = {stated.mu}, but its noise gives {found:.4g}: take no part"
        )
    _discrete(study, stated, study.attributes, 0, "all right providers")


def _discrete(study: Study, guarantee: Guarantee, entries: int, masked: int, towards: str) -> None:
    """Check that the study states what noise on a grid adds to epsilon, and that it is small enough."""
    found = discrete_epsilon(math.ldexp(study.protection.sigma, -study.rows.grid_exponent), entries, masked)
    if guarantee.discrete_epsilon is None or not found <= guarantee.discrete_epsilon * (1 + ALLOWED):
        raise StudyError(
            f"towards {towards} this study does not state that noise on its grid adds {found:.2g} to epsilon: take no part"
        )


def _moments(study: Study) -> tuple[str, ...]:
    protection, square = study.protection, float(study.moments.layout.radius_squared)
    guarantee = protection.public
    if guarantee is None:
        return ()
    near = guarantee.neighbours
    if (near.relation, near.row_norm) != ("record", protection.row_norm) or protection.collector is not None:
        raise StudyError("what this study promises is not about records of its own norm: take no part")
    # docs/theory/verified-moments.md#sensitivity
    distance = math.sqrt(2) * (square if square >= 2 else 2 * math.sqrt(max(square - 1, 0.0)))
    s = protection.sigma / distance if distance else math.inf
    epsilon, stated = _pair(guarantee, "everybody")
    _compare(stated, gaussian_delta(epsilon, s) if math.isfinite(s) else 0.0, epsilon, "everybody")
    if guarantee.mu is not None and not 1 / s <= guarantee.mu * (1 + ALLOWED):
        raise StudyError(
            f"this study promises mu = {guarantee.mu:.4g}, but its noise gives {1 / s:.4g}: take no part"
        )
    return ()


def _pair(guarantee: Guarantee, towards: str) -> tuple[float, float]:
    if guarantee.epsilon is None or guarantee.delta is None:
        raise StudyError(f"this study states no epsilon and delta towards {towards}: take no part")
    return guarantee.epsilon, guarantee.delta


def _compare(stated: float, found: float, epsilon: float, towards: str) -> None:
    if not found <= stated * (1 + ALLOWED):
        raise StudyError(
            f"this study's noise is too small for what it promises towards {towards}: at epsilon {epsilon:.4g} it says "
            f"delta {stated:.3g}, and this device works out {found:.3g}. Take no part, and ask who invited you."
        )


@lru_cache(maxsize=64)
def _masked(epsilon: float, sigma: float, rows: int, attributes: int, row_norm: float) -> float:
    return masked_delta.delta(epsilon, sigma, rows, attributes, row_norm)
