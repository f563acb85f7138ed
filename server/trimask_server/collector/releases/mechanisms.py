"""The mechanisms on the pooled factor: sums, random projection, least squares, principal components.

R with R^T R = (A X)^T (A X) = X^T X is all they need (docs/theory/mechanisms.md#only-gram): sums are a row of it,
D^T G is R^T G in law, least squares and components read it directly. All are stated for a replaced record: the number
of rows is public.
"""

from __future__ import annotations

from trimask_core.errors import ParameterError, Refused
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2
from trimask_server.collector.releases.components import plan_components
from trimask_server.collector.releases.fits import plan_least_squares, plan_projection
from trimask_server.collector.releases.plan import Plan
from trimask_server.collector.releases.sums import plan_sum
from trimask_server.protocol.accounting import Price

__all__ = ["plan_release", "price_of"]


def price_of(request: release_pb2.AskReleaseRequest) -> Price:
    """What the request offers to pay."""
    which = request.WhichOneof("price")
    if which == "approximate":
        return Price(epsilon=request.approximate.epsilon, delta=request.approximate.delta)
    if which == "gaussian":
        return Price(mu=request.gaussian.mu)
    raise ParameterError("price", "epsilon and delta, or mu")


def plan_release(study: Study, rows: int, request: release_pb2.AskReleaseRequest, price: Price) -> Plan:
    """The plan of a request, or the reason there is none."""
    which = request.WhichOneof("mechanism")
    if which == "sum":
        return plan_sum(study, rows, request.sum, price)
    if which == "projection":
        return plan_projection(study, request.projection, price)
    if which == "least_squares":
        return plan_least_squares(study, rows, request.least_squares, price)
    if which == "principal_components":
        return plan_components(study, rows, request.principal_components, price)
    raise Refused(
        Reason.MALFORMED, "name a mechanism: sum, projection, least_squares or principal_components"
    )
