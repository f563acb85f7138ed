"""What a study of either suite would cost and show, before it exists: noise, standard errors, upload, server work.

Statement (rows). For `rows` = n people in releases of N, the noise on the pooled Gram matrix is that of sigma(N) on
every row. With G = Y^T Y - n sigma^2 I, theta = (-beta, 1), RSS the residual sum of squares and q predictors,
    Var[score_j] = sigma^2 |theta|^2 G_jj + sigma^2 RSS + n sigma^4 (|theta|^2 + theta_j^2) + RSS/(n-q) G_jj,
and with uncorrelated predictors a coefficient's standard error is sqrt(Var[score_j])/G_jj.
Assumptions, the reference model: every scaled column has second moment v (1/3: uniform over its bounds),
predictors are uncorrelated, and equal coefficients explain the share `r_squared` of the response.
Basis: sigma as in `masked_noise` and `local_noise`; the standard error is first order in 1/n (asymptotic).

Operations a block of n, leading terms. Left masking reflects K1 matrices of n x p: 2 n^2 K1 p;
right masking is the L of a thin LQ, 2 n^2 p - 2 n^3/3, and n reflections in p dimensions, 4 n^2 p - 2 n^3.
Derivation: docs/theory/masking-and-pooling.md#researcher.

Statement (moments, for the same `Target`). `rows` = n people in releases of N: the pooled Gram matrix has the noise of
ceil(n / N) releases, each of sigma_tot = sigma sqrt(K1 / h) on the diagonal and that over sqrt(2) off it. With G = n v on
the diagonal, theta = (-beta, 1) and RSS the residual sum of squares of q predictors, a coefficient's variance is
    ceil(n / N) sigma_tot^2 / 2 (|theta|^2 + theta_j^2) / G_jj^2 + RSS / (n - q) / G_jj.
Assumptions: the same reference model; every column but the constant is bounded and has `steps` steps; R^2 is p1, or
the given norm's, which devices clip to. The bias of clipping is not in it (`ball.recommend_ball` weighs it).
Basis: sigma as in `moments_noise` (proved); the standard error is first order in the noise (asymptotic).

Operations of a right provider for one report, leading term: five forms of all elements, each product of two field elements
as nine of 21-bit limbs in floating point: 90 times the elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trimask_core.basics.errors import ParameterError
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.study import MomentsCollusion
from trimask_core.rows.collusion import default_unmasking, key_holders
from trimask_core.rows.noise_columns import default_noise_columns
from trimask_core.rows.payloads import tag_bytes
from trimask_core.study.schema import Attribute, Schema
from trimask_core.submit.submission import upload_bytes
from trimask_theory import checks
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise
from trimask_theory.moments import moments_noise

METHODS = ("sharp", "bound", "theorem", "corollary", "local")
_FLOAT_BYTES = 8


@dataclass(frozen=True)
class Target:
    """What is asked for. `attributes` is p1: the ones column, one-hot columns and the response included."""

    epsilon: float
    delta: float
    attributes: int
    rows: int
    protect: masked_noise.Protection = "record"
    row_norm: float | None = None
    right: int = 4
    left: int = 2
    obfuscation_failure: float = 1e-9
    r_squared: float = 0.5
    second_moment: float = 1 / 3

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.probability("delta", self.delta)
        checks.whole("attributes", self.attributes, 2)
        checks.whole("rows", self.rows, self.attributes + 1)
        checks.whole("right", self.right, 2)
        checks.whole("left", self.left, 1)
        checks.probability("r_squared", self.r_squared)
        checks.probability("obfuscation_failure", self.obfuscation_failure)
        if self.row_norm is not None:
            checks.positive("row_norm", self.row_norm)
        if not 0 < self.second_moment <= 1:
            raise ParameterError("second_moment", "in (0, 1]", self.second_moment)

    @property
    def norm(self) -> float:
        """R: as given, or the largest a row of values in [-1, 1] can have."""
        return math.sqrt(self.attributes) if self.row_norm is None else self.row_norm

    @property
    def predictors(self) -> int:
        """q: every column but the response."""
        return self.attributes - 1

    @property
    def coefficient(self) -> float:
        """The size of each coefficient in the reference model."""
        return math.sqrt(self.r_squared / self.predictors)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return asdict(self) | {"row_norm": self.norm, "coefficient": self.coefficient}


@dataclass(frozen=True)
class ReleaseNoise:
    """sigma and a coefficient's standard error by method for releases of one size; None: does not apply."""

    release_rows: int
    sigma: Mapping[str, float | None]
    standard_error: Mapping[str, float | None]


@dataclass(frozen=True)
class BlockCost:
    """What blocks of one size cost. Bytes are payload, without what TLS and HTTP/2 add."""

    block_rows: int
    noise_columns: int
    columns: int
    upload_bytes: int
    right_bytes: int
    hop_bytes: int
    right_flops: float
    left_flops: float
    collector_epsilon: Mapping[int, float]


@dataclass(frozen=True)
class Plan:
    """The whole answer. `sampling_error` is the standard error without any noise."""

    target: Target
    sampling_error: float
    releases: tuple[ReleaseNoise, ...]
    blocks: tuple[BlockCost, ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return asdict(self) | {"target": self.target.to_dict()}


def sigma_by(target: Target, rows: int) -> dict[str, float | None]:
    """The noise each method asks for when one mask mixes `rows` rows."""
    given = (target.epsilon, target.delta, rows, target.attributes)
    # Corollary 3.5 is stated for the paper's neighbours and epsilon < 1 alone.
    stated = target.protect == "unit" and target.row_norm is None and target.epsilon < 1
    distance = 2 * target.norm if target.protect == "record" else 1.0
    return {
        "sharp": masked_noise.calibrate(*given, target.protect, target.norm).sigma,
        "bound": masked_noise.calibrate(*given, target.protect, target.norm, "bound").sigma,
        "theorem": masked_noise.calibrate(*given, target.protect, target.norm, "theorem").sigma,
        "corollary": masked_noise.corollary_sigma(*given) if stated else None,
        "local": local_noise.calibrate(target.epsilon, target.delta, distance).sigma,
    }


def standard_error(target: Target, sigma: float) -> float:
    """A coefficient's standard error in the reference model, scaled units, noise `sigma` on every row."""
    sigma = checks.non_negative("sigma", sigma)
    n, q = target.rows, target.predictors
    diagonal = n * target.second_moment
    residual = diagonal * (1 - target.r_squared)
    theta_square = 1 + target.r_squared
    noise = sigma**2 * (theta_square * diagonal + residual)
    noise += n * sigma**4 * (theta_square + target.coefficient**2)
    return math.sqrt(noise + residual / (n - q) * diagonal) / diagonal


def make_plan(
    target: Target, release_sizes: Sequence[int] | None = None, block_sizes: Sequence[int] | None = None
) -> Plan:
    """Noise for each release size and costs for each block size; without sizes, a sensible ladder of them."""
    releases = sizes_of_releases(target, release_sizes)
    blocks = _sizes("block_sizes", block_sizes, _block_ladder(target), target)
    noise = tuple(_release(target, rows) for rows in releases)
    return Plan(target, standard_error(target, 0.0), noise, tuple(_block(target, n, noise) for n in blocks))


def sizes_of_releases(target: Target, given: Sequence[int] | None = None) -> list[int]:
    """The given sizes in their order, if they can be; without any, everybody and a quarter and a sixteenth of them."""
    ladder = [target.rows // 4**step for step in (2, 1, 0)]
    return _sizes("release_sizes", given, [rows for rows in ladder if rows > target.attributes], target)


def _block_ladder(target: Target) -> list[int]:
    ladder = [n for n in (64, 128, 256, 512, 1024) if target.attributes < n <= target.rows]
    return ladder or [target.rows]


def _sizes(name: str, given: Sequence[int] | None, ladder: list[int], target: Target) -> list[int]:
    sizes = ladder if given is None else sorted({checks.whole(name, size, 1) for size in given})
    for size in sizes:
        if not target.attributes < size <= target.rows:
            raise ParameterError(name, f"more than attributes and at most rows = {target.rows}", size)
    return sizes


def _release(target: Target, rows: int) -> ReleaseNoise:
    sigma = sigma_by(target, rows)
    errors = {method: None if s is None else standard_error(target, s) for method, s in sigma.items()}
    return ReleaseNoise(rows, sigma, errors)


def _block(target: Target, n: int, releases: Sequence[ReleaseNoise]) -> BlockCost:
    noise_columns = default_noise_columns(n, target.obfuscation_failure)
    p, providers = target.attributes + noise_columns, target.right
    unmasking = default_unmasking(providers, target.left)
    # A release holds at least a block; with "sharp", the collector sees the same noise mixed over fewer rows.
    towards_collector = {
        release.release_rows: masked_noise.epsilon(
            target.delta, release.sigma["sharp"] or 0.0, n, target.attributes, target.protect, target.norm
        )
        for release in releases
        if release.release_rows >= n
    }
    return BlockCost(
        block_rows=n,
        noise_columns=noise_columns,
        columns=p,
        upload_bytes=upload_bytes(p, providers, tag_bytes(key_holders(unmasking))),
        right_bytes=_FLOAT_BYTES * n * p,
        hop_bytes=_FLOAT_BYTES * providers * n * p,
        right_flops=6.0 * n * n * p - 8 / 3 * n**3,
        left_flops=2.0 * n * n * providers * p,
        collector_epsilon=towards_collector,
    )


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
    total_sigma = checks.non_negative("total_sigma", total_sigma)
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
