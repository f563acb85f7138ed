"""Private sums: (A 1)^T (A X) with Gaussian noise (note 3; Poulsen 2023, Algorithms 1 and 2)."""

from __future__ import annotations

import numpy as np

from trimask_core.errors import ParameterError, Refused
from trimask_core.guarantee import Guarantee, Neighbours
from trimask_core.rotation import Matrix
from trimask_core.schema import ONES
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2
from trimask_server.collector.releases.accounting import Price
from trimask_server.collector.releases.columns import select
from trimask_server.collector.releases.plan import Drawn, Plan, as_lists, gaussian_scale
from trimask_theory.normal_source import NormalSource
from trimask_theory.vector_sum import bounded_scaling

__all__ = ["plan_sum"]


def plan_sum(study: Study, rows: int, asked: release_pb2.SumMechanism, price: Price) -> Plan:
    """Sums in original units. The noise is set by the columns' declared ranges, the data have no part in it."""
    methods = {release_pb2.SUM_METHOD_GAUSSIAN: "gaussian", release_pb2.SUM_METHOD_ELLIPTICAL: "elliptical"}
    if asked.method == release_pb2.SUM_METHOD_CLIPPED:
        raise Refused(
            "not_declared",
            "a clipped sum needs rows that devices scaled and clipped around a public centre; this study declares no such "
            "scaling. Ask for an elliptical sum",
        )
    if asked.method not in methods:
        raise ParameterError("method", "gaussian or elliptical", asked.method)
    if not study.schema.ones:
        raise Refused("not_declared", "sums need the ones column, which this study does not have")
    names = list(asked.columns) or [column.name for column in study.schema.columns if column.name != ONES]
    if ONES in names:
        raise Refused(
            "collinear_columns", f"the sum of {ONES} is the number of rows, {rows}, which is public"
        )
    selection = select(study, names)
    spans, scale = selection.ranges(), gaussian_scale(price)
    method = methods[asked.method]
    if method == "gaussian":
        noise = np.full(spans.size, scale * float(np.linalg.norm(spans)))
    else:
        noise = scale * spans / bounded_scaling(spans)
    guarantee = Guarantee(
        neighbours=Neighbours("record"),
        basis="proved",
        because="Gaussian mechanism; devices hold every value to its declared range",
        citation="Poulsen 2023, Algorithm 1" if method == "gaussian" else "Poulsen 2023, Algorithm 2",
        epsilon=price.epsilon,
        delta=price.delta,
        mu=1 / scale,
    )
    ones = next(place for place, column in enumerate(study.schema.columns) if column.name == ONES)
    half = np.array([column.half_range for column in selection.columns])
    centre = np.array([column.center for column in selection.columns])

    def draw(factor: Matrix, normals: NormalSource) -> Drawn:
        scaled = selection.of(factor).T @ factor[:, ones]
        total = rows * centre + half * scaled + noise * normals.standard_normal(noise.shape)
        return Drawn({"sum": as_lists(total)}, guarantee)

    parameters = {
        "columns": selection.names,
        "method": method,
        "units": "original",
        "noise": noise.tolist(),
        "clipped_rows": study.protection.row_norm < study.schema.row_norm,
    }
    return Plan("sum", parameters, draw)
