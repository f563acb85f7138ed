"""What a study of the moments suite would cost and show, before it exists, for the same `Target` as the rows suite.

Statement. `rows` = n people in releases of N: the pooled Gram matrix has the noise of ceil(n / N) releases, each of
sigma_tot = sigma sqrt(K1 / h) on the diagonal and that over sqrt(2) off it. With G = n v on the diagonal, theta = (-beta, 1)
and RSS the residual sum of squares of q predictors, a coefficient's variance is
    ceil(n / N) sigma_tot^2 / 2 (|theta|^2 + theta_j^2) / G_jj^2 + RSS / (n - q) / G_jj.
Assumptions: the reference model of `planner`; every column but the constant is bounded and has `steps` steps; R^2 is p1, or
the given norm's, which devices clip to. The bias of clipping is not in it (`ball.recommend_ball` weighs it).
Basis: sigma as in `moments_noise` (proved); the standard error is first order in the noise (asymptotic).

Operations of a right provider for one report, leading term: five forms of all elements, each product of two field elements
as nine of 21-bit limbs in floating point: 90 times the elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trimask_core.errors import ParameterError
from trimask_core.moments.collusion import MomentsCollusion
from trimask_core.moments.layout import MomentsLayout
from trimask_core.schema import Attribute, Schema
from trimask_core.upload import upload_bytes
from trimask_theory import _checks, moments_noise
from trimask_theory.planner import Target, sizes_of_releases

__all__ = ["MomentsPlan", "MomentsRelease", "make_moments_plan", "moments_standard_error"]

STEPS = 1000
_FORMS = 5
_LIMB_PRODUCTS = 9
_ELEMENT_BYTES = 8


@dataclass(frozen=True)
class MomentsRelease:
    """A coefficient's standard error with releases of one size."""

    release_rows: int
    standard_error: float


@dataclass(frozen=True)
class MomentsPlan:
    """The whole answer. `sigma` is what `honest` providers add together, `total_sigma` what a release has in all.

    Bytes are payload: `right_bytes` is a report at rest.
    """

    target: Target
    honest: int
    sigma: float
    total_sigma: float
    releases: tuple[MomentsRelease, ...]
    bits: int
    elements: int
    upload_bytes: int
    right_bytes: int
    right_flops: float
    largest_safe: int
    collusion: str

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form, without the target."""
        data = asdict(self)
        del data["target"]
        return data


def moments_standard_error(target: Target, total_sigma: float, releases: int = 1) -> float:
    """A coefficient's standard error in the reference model, scaled units, with so many releases pooled."""
    total_sigma = _checks.non_negative("total_sigma", total_sigma)
    diagonal = target.rows * target.second_moment
    theta_square = 1 + target.r_squared
    noise = releases * total_sigma**2 / 2 * (theta_square + target.coefficient**2) / diagonal**2
    residual = (1 - target.r_squared) / (target.rows - target.predictors)
    return math.sqrt(noise + residual)


def make_moments_plan(target: Target, sizes: Sequence[int] | None = None, honest: int = 1) -> MomentsPlan:
    """Noise, standard errors for each release size, and costs; refused for `protect` other than "record"."""
    if target.protect != "record":
        raise ParameterError("protect", "'record' in the moments suite", target.protect)
    given = target.norm if target.norm**2 < target.attributes * (1 - 1e-12) else None
    columns = tuple(
        Attribute(f"x{j}", "continuous", -1.0, 1.0, step=2.0 / STEPS) for j in range(1, target.predictors + 1)
    )
    layout = MomentsLayout.of(Schema(columns), given)
    found = moments_noise.calibrate(
        target.epsilon, target.delta, float(layout.radius_squared), target.right, honest
    )
    report = MomentsCollusion(target.right, honest)
    return MomentsPlan(
        target=target,
        honest=honest,
        sigma=found.sigma,
        total_sigma=found.total_sigma,
        releases=tuple(
            MomentsRelease(
                size, moments_standard_error(target, found.total_sigma, math.ceil(target.rows / size))
            )
            for size in sizes_of_releases(target, sizes)
        ),
        bits=layout.bits,
        elements=layout.elements,
        upload_bytes=upload_bytes(layout.elements, target.right),
        right_bytes=_ELEMENT_BYTES * layout.elements,
        right_flops=2.0 * _LIMB_PRODUCTS * _FORMS * layout.elements,
        largest_safe=report.largest_safe,
        collusion=report.summary,
    )
