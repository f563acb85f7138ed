"""Random projection and least squares (Lu, Magdon-Ismail, Wei, Zikas), and the noisy Gram matrix beside them.

Statements: docs/theory/mechanisms.md#projection, docs/theory/mechanisms.md#least-squares and
docs/theory/mechanisms.md#noisy-gram.

The papers' neighbours add or remove a row; here a record is replaced, which `trimask_theory.record` pays as two steps.
With a floor share, part of the price buys a private lower bound on the spectrum, and a row's leverage, at most R^2 over
it, needs that much less noise: the relative form, without its leak (`trimask_theory.eigenvalue_floor`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from trimask_core.errors import ParameterError
from trimask_core.guarantee import Guarantee
from trimask_core.rows.rotation import Matrix
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2
from trimask_server.collector.releases.columns import Selection, refuse_collinear, select
from trimask_server.collector.releases.plan import (
    MOST_VALUES,
    Drawn,
    Plan,
    SplitPrice,
    as_lists,
    gaussian_scale,
    split_price,
)
from trimask_server.protocol.accounting import Price
from trimask_theory import grid_gaussian, least_squares, noisy_gram, projection, record
from trimask_theory.eigenvalue_floor import reduced_sigma
from trimask_theory.normal_source import NormalSource

__all__ = ["plan_least_squares", "plan_projection"]

_MOST_SKETCH = 1 << 22
_LS_METHODS = {
    release_pb2.LEAST_SQUARES_METHOD_LS: "LS",
    release_pb2.LEAST_SQUARES_METHOD_ALS: "ALS",
    release_pb2.LEAST_SQUARES_METHOD_NOISY_GRAM: "noisy_gram",
}


def plan_projection(study: Study, asked: release_pb2.ProjectionMechanism, price: Price) -> Plan:
    """M_RP: X^T G plus noise; one column is M_RLC."""
    selection = select(study, list(asked.columns) or [column.name for column in study.schema.columns])
    r = _size(asked.reduced_dimension, MOST_VALUES // len(selection.names), 1)
    split = split_price(price, asked.floor_share, selection, "a random projection")
    calibrated = projection.calibrate(
        *record.one_step(split.epsilon, split.delta), r, selection.row_norm, "sharp"
    )
    guarantee = _as_record(calibrated.guarantee, selection, split, price)

    def draw(factor: Matrix, normals: NormalSource) -> Drawn:
        sigma = _sigma_above_floor(calibrated.sigma, split, selection.gram(factor), normals)
        projected = projection.release(selection.of(factor), r, sigma, normals)
        # Noise and floor together have at least the calibrated deviation in every direction, which is public.
        shown = grid_gaussian.on_steps(projected, calibrated.sigma)
        return Drawn({"projection": as_lists(shown), "sigma": sigma}, guarantee)

    parameters = {
        "columns": selection.names,
        "units": "scaled",
        "reduced_dimension": r,
        "floor_share": asked.floor_share,
        "largest_sigma": calibrated.sigma,
    }
    return Plan("projection", parameters, draw)


def plan_least_squares(
    study: Study, rows: int, asked: release_pb2.LeastSquaresMechanism, price: Price
) -> Plan:
    """M_LS, M_ALS, or the noisy Gram matrix of the features and the response, which comes last."""
    method = _LS_METHODS.get(asked.method)
    if method is None:
        raise ParameterError("method", "LS, ALS or noisy_gram", asked.method)
    if not asked.features:
        raise ParameterError("features", "at least one column")
    selection = select(study, [*asked.features, asked.response])
    refuse_collinear(study, selection.names)
    parameters: dict[str, Any] = {
        "response": asked.response,
        "features": list(asked.features),
        "method": method,
        "units": "scaled",
    }
    if method == "noisy_gram":
        # A setting that would be ignored is refused: who asked believes it counts.
        if asked.floor_share or asked.reduced_dimension:
            raise ParameterError("floor_share and reduced_dimension", "left out for the noisy Gram matrix")
        return _plan_noisy_gram(selection, price, parameters)
    d = len(asked.features)
    r = _size(asked.reduced_dimension, _MOST_SKETCH // (d + 1), 1 if method == "LS" else d + 1)
    split = split_price(price, asked.floor_share, selection, "this fit")
    calibrated = least_squares.calibrate(
        *record.one_step(split.epsilon, split.delta), r, d, selection.row_norm, "sharp", method
    )
    guarantee = _as_record(calibrated.guarantee, selection, split, price)
    # |e| (B'B)^{-1/2}/sqrt(r) is at least this in every direction: |e| >= S, and rows are at most R long.
    least = calibrated.sigma / math.sqrt(r * (rows * selection.row_norm**2 + calibrated.sigma**2))

    def draw(factor: Matrix, normals: NormalSource) -> Drawn:
        gram = selection.gram(factor)
        sigma = _sigma_above_floor(calibrated.sigma, split, gram, normals)
        if method == "LS":
            solution = least_squares.release(gram, r, sigma, normals)
        else:
            solution = least_squares.sketch(selection.of(factor), r, sigma, normals)
        return Drawn(
            {"coefficients": as_lists(grid_gaussian.on_steps(solution, least)), "sigma": sigma}, guarantee
        )

    parameters |= {
        "reduced_dimension": r,
        "floor_share": asked.floor_share,
        "largest_sigma": calibrated.sigma,
    }
    return Plan(f"least_squares_{method}", parameters, draw)


def _plan_noisy_gram(selection: Selection, price: Price, parameters: dict[str, Any]) -> Plan:
    calibrated = noisy_gram.calibrate_mu(1 / gaussian_scale(price), selection.row_norm)
    guarantee = replace(calibrated.guarantee, epsilon=price.epsilon, delta=price.delta)

    def draw(factor: Matrix, normals: NormalSource) -> Drawn:
        noisy = noisy_gram.release(selection.gram(factor), calibrated.sigma, selection.row_norm, normals)
        return Drawn({"gram": as_lists(noisy)}, guarantee)

    return Plan("least_squares_noisy_gram", parameters | {"sigma": calibrated.sigma}, draw)


def _sigma_above_floor(sigma: float, split: SplitPrice, gram: Matrix, normals: NormalSource) -> float:
    return sigma if split.floor is None else reduced_sigma(sigma, split.floor.floor(gram, normals))


def _as_record(found: Guarantee, selection: Selection, split: SplitPrice, price: Price) -> Guarantee:
    stated = record.two_steps(found, selection.row_norm, epsilon=price.epsilon, delta=price.delta)
    if split.floor is None:
        return stated
    part = f"epsilon {split.floor.epsilon:.3g} and delta {split.floor.delta:.3g} bought a private floor under the spectrum"
    return replace(stated, because=f"{stated.because}; {part}, and the noise is what is needed above it")


def _size(asked: int, most: int, least: int) -> int:
    if not least <= asked <= most:
        raise ParameterError("reduced_dimension", f"between {least} and {most} for these columns", asked)
    return asked
