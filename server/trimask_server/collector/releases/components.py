"""Private principal components (docs/theory/mechanisms.md#pca; Yun and Dudeja 2025) of X^T X / n.

Exponential: beta is the one that costs epsilon for any data whatever: with n rows of norm at most R, the density
exp((epsilon / (2 R^2)) tr V^T X^T X V) changes by a factor e^epsilon at most when a record is replaced. Proved, delta = 0.
Adaptive: beta is chosen privately from the spectrum, far larger for the same price, and the guarantee is asymptotic.
"""

from __future__ import annotations

import math

import numpy as np

from trimask_core.errors import ParameterError, Refused
from trimask_core.guarantee import Guarantee, Neighbours
from trimask_core.refusals import Reason
from trimask_core.rows.rotation import Matrix
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2
from trimask_server.collector.releases.columns import Selection, select
from trimask_server.collector.releases.plan import Drawn, Plan, as_lists, pair
from trimask_server.protocol.accounting import Price
from trimask_theory import gdp, pca, record
from trimask_theory.normal_source import NormalSource

__all__ = ["plan_components"]

_MOST_COLUMNS = 200
_SWEEPS = 200


def plan_components(
    study: Study, rows: int, asked: release_pb2.PrincipalComponentsMechanism, price: Price
) -> Plan:
    """The first components of the named columns, as an orthonormal frame in scaled units."""
    selection = select(study, list(asked.columns) or [column.name for column in study.schema.columns])
    p, k = len(selection.names), asked.components
    if p > _MOST_COLUMNS:
        raise ParameterError("columns", f"at most {_MOST_COLUMNS}", p)
    if not 1 <= k < p:
        raise ParameterError("components", f"between 1 and {p - 1}, one less than the columns", k)
    if asked.method == release_pb2.PRINCIPAL_COMPONENTS_METHOD_EXPONENTIAL:
        if asked.test_share:
            raise ParameterError("test_share", "left out for the exponential mechanism", asked.test_share)
        return _plan_exponential(selection, rows, k, price)
    if asked.method == release_pb2.PRINCIPAL_COMPONENTS_METHOD_ADAPTIVE:
        return _plan_adaptive(selection, rows, k, price, asked.test_share)
    raise ParameterError("method", "exponential or adaptive", asked.method)


def _covariance(selection: Selection, factor: Matrix, rows: int) -> Matrix:
    """Sigma of the paper, whose rows have norm at most sqrt(p)."""
    return selection.gram(factor) * (len(selection.names) / selection.row_norm**2 / rows)


def _plan_exponential(selection: Selection, rows: int, k: int, price: Price) -> Plan:
    if price.epsilon is None:
        raise Refused(
            Reason.PAY_WITH_EPSILON, "the exponential mechanism is paid with epsilon, and delta = 0"
        )
    if price.delta:
        raise ParameterError("delta", "0: the exponential mechanism needs none", price.delta)
    p = len(selection.names)
    beta = price.epsilon * rows / p**2
    exact = "drawn exactly by rejection"
    sampled = f"drawn by {_SWEEPS} sweeps of a Gibbs chain, which reaches the law only in the limit"
    guarantee = Guarantee(
        neighbours=Neighbours("record", row_norm=selection.row_norm),
        basis="proved" if k == 1 else "asymptotic",
        because="exponential mechanism with the utility tr V^T X^T X V, of sensitivity R^2; "
        + (exact if k == 1 else sampled),
        citation="McSherry and Talwar 2007; Chaudhuri, Sarwate, Sinha 2013; Yun and Dudeja 2025, Algorithm 1",
        epsilon=price.epsilon,
        delta=0.0,
    )

    def draw(factor: Matrix, normals: NormalSource) -> Drawn:
        values, vectors = np.linalg.eigh(_covariance(selection, factor, rows))
        # Not `pca.from_covariance`: this law needs no gap, and a refusal for lack of one would reveal something about the
        # data.
        spectrum = pca.Spectrum(values[::-1].copy(), vectors[:, ::-1].copy(), rows, k)
        frame = pca.gibbs(spectrum, beta, normals, _SWEEPS)[0]
        return Drawn({"components": as_lists(frame), "beta": beta}, guarantee)

    parameters = {
        "columns": selection.names,
        "components": k,
        "method": "exponential",
        "units": "scaled",
        "beta": beta,
    }
    return Plan("principal_components_exponential", parameters, draw)


def _plan_adaptive(selection: Selection, rows: int, k: int, price: Price, share: float) -> Plan:
    if not (math.isfinite(share) and 0 < share < 1):
        raise ParameterError("test_share", "a number in (0, 1)", share)
    total = price.mu if price.mu is not None else gdp.mu(*pair(price, "adaptive components"))
    step = record.one_step_mu(total)
    test, target = step * math.sqrt(share), step * math.sqrt(1 - share)
    without = Guarantee(
        neighbours=Neighbours("record", row_norm=selection.row_norm),
        basis="asymptotic",
        because="in the limit of many attributes; the private test found no gap to tell components by",
        citation="Yun and Dudeja 2025, Theorem 6",
        epsilon=price.epsilon,
        delta=price.delta,
        mu=total,
    )

    def draw(factor: Matrix, normals: NormalSource) -> Drawn:
        try:
            spectrum = pca.from_covariance(_covariance(selection, factor, rows), rows, k)
        except ParameterError:
            # Without a gap nothing is achievable: said as the test would say it, so that no question fails on its data.
            return Drawn({"components": None, "beta": None, "achievable": False}, without)
        found = pca.adaptive(spectrum, test, target, normals)
        guarantee = record.two_steps(
            found.guarantee, selection.row_norm, epsilon=price.epsilon, delta=price.delta, mu=total
        )
        frame = None if found.components is None else as_lists(found.components)
        return Drawn({"components": frame, "beta": found.beta, "achievable": found.achievable}, guarantee)

    parameters = {
        "columns": selection.names,
        "components": k,
        "method": "adaptive",
        "units": "scaled",
        "test_share": share,
    }
    return Plan("principal_components_adaptive", parameters, draw)
