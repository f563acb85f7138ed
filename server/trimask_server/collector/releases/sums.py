"""Private sums: (A 1)^T (A X) with Gaussian noise on a grid (Poulsen 2023, Algorithms 1, 2 and 3).

Statements: docs/theory/mechanisms.md#sums and docs/theory/mechanisms.md#grid-noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimask_core.clipping import Clipping
from trimask_core.errors import ParameterError, Refused
from trimask_core.guarantee import Guarantee, Neighbours
from trimask_core.refusals import Reason
from trimask_core.rows.rotation import Matrix
from trimask_core.schema import ONES
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2
from trimask_server.collector.releases.columns import Selection, select
from trimask_server.collector.releases.plan import Drawn, Plan, as_lists, gaussian_scale
from trimask_server.protocol.accounting import Price
from trimask_theory import grid_gaussian
from trimask_theory.normal_source import NormalSource
from trimask_theory.vector_sum import bounded_scaling

__all__ = ["plan_sum"]

_METHODS = {
    release_pb2.SUM_METHOD_GAUSSIAN: "gaussian",
    release_pb2.SUM_METHOD_ELLIPTICAL: "elliptical",
    release_pb2.SUM_METHOD_CLIPPED: "clipped",
}


@dataclass(frozen=True)
class _Reach:
    """How far a replaced record can move the sums: |change / reach| <= 1 over the columns, in original units."""

    reach: NDArray[np.float64]
    because: str
    citation: str


def plan_sum(study: Study, rows: int, asked: release_pb2.SumMechanism, price: Price) -> Plan:
    """Sums in original units. The noise is set by what the study declares, the data have no part in it."""
    method = _METHODS.get(asked.method)
    if method is None:
        raise ParameterError("method", "gaussian, elliptical or clipped", asked.method)
    if not study.schema.ones:
        raise Refused(Reason.NOT_DECLARED, "sums need the ones column, which this study does not have")
    names = list(asked.columns) or _all_columns(study, method)
    if ONES in names:
        raise Refused(
            Reason.COLLINEAR_COLUMNS, f"the sum of {ONES} is the number of rows, {rows}, which is public"
        )
    selection, scale = select(study, names), gaussian_scale(price)
    reach = _clipped(study, selection) if method == "clipped" else _ranges(selection, method)
    noise = grid_gaussian.calibrate(scale * reach.reach, 1 / scale)
    guarantee = Guarantee(
        neighbours=Neighbours("record"),
        basis="proved",
        because=f"Gaussian mechanism with noise in whole steps; {reach.because}",
        citation=f"Poulsen 2023, {reach.citation}",
        epsilon=price.epsilon,
        delta=price.delta,
        mu=1 / scale,
    )
    ones = next(place for place, column in enumerate(study.schema.columns) if column.name == ONES)
    half = np.array([column.half_range for column in selection.columns])
    centre = np.array([column.center for column in selection.columns])

    def draw(factor: Matrix, normals: NormalSource) -> Drawn:
        noisy = noise.release(half * (selection.of(factor).T @ factor[:, ones]), normals)
        return Drawn({"sum": as_lists(rows * centre + noisy)}, guarantee)

    parameters = {
        "columns": selection.names,
        "method": method,
        "units": "original",
        "noise": noise.deviations.tolist(),
        "clipped_rows": study.protection.row_norm < study.schema.row_norm,
        # Whatever the method, these columns hold what devices made of the answers.
        "clipped_columns": [name for name in names if study.clipping and name in study.clipping.columns],
    }
    return Plan("sum", parameters, draw)


def _all_columns(study: Study, method: str) -> list[str]:
    if method == "clipped" and study.clipping is not None:
        return list(study.clipping.columns)
    return [column.name for column in study.schema.columns if column.name != ONES]


def _ranges(selection: Selection, method: str) -> _Reach:
    """Algorithms 1 and 2: a record moves each sum by its column's range."""
    spans = selection.ranges()
    because = "devices hold every value to its declared range"
    if method == "gaussian":
        return _Reach(np.full(spans.size, float(np.linalg.norm(spans))), because, "Algorithm 1")
    return _Reach(spans / bounded_scaling(spans), because, "Algorithm 2")


def _clipped(study: Study, selection: Selection) -> _Reach:
    """Algorithm 3: two points of the ball are at most 2 C apart, in units of 1/b_j; some of the columns still are."""
    clipping = study.clipping
    if clipping is None:
        raise Refused(
            Reason.NOT_DECLARED,
            "a clipped sum needs rows that devices scaled and clipped around a public centre; this study declares no such "
            "clipping. Ask for an elliptical sum",
        )
    scaling = dict(zip(clipping.columns, clipping.scaling, strict=True))
    for name in selection.names:
        if name not in scaling:
            raise Refused(
                Reason.NOT_DECLARED,
                f"devices do not clip {name}: a clipped sum is of {', '.join(clipping.columns)}",
            )
    reach = _diameter(clipping, selection) / np.array([scaling[name] for name in selection.names])
    return _Reach(reach, "devices clip every row to a public ball", "Algorithm 3")


def _diameter(clipping: Clipping, selection: Selection) -> float:
    """2 C, and what the roundings on a row's way can add to it."""
    scaling = dict(zip(clipping.columns, clipping.scaling, strict=True))
    widest = max(scaling[column.name] * column.half_range for column in selection.columns)
    # The ones column, by which a value of at most 1 is multiplied here, is rounded too.
    rounding = selection.rounding * (1 + math.sqrt(len(selection.columns))) * (1 + selection.rounding)
    return 2 * (clipping.radius + widest * rounding)
