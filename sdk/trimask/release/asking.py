"""Asking a collector: one function a mechanism, each paid once.

A request carries a random id. If the reply is lost, the same id sent again brings the same answer at no further cost:
that is done here a few times, and after that the error says which id to ask again with.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from trimask.catalogue import study_key
from trimask.errors import ConnectionFailed, ParameterError
from trimask.release.answer import Answer
from trimask.release.results import (
    PrivateComponents,
    PrivateFit,
    PrivateGram,
    PrivateProjection,
    PrivateSum,
)
from trimask.release.solving import original_units, solve_gram
from trimask.release.stub import release_stub
from trimask_client.grpc_status import plain_errors
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2

if TYPE_CHECKING:
    from trimask.connection import Connection
    from trimask.release.gathered import Gathered
    from trimask_theory.moments_question import QuestionKind

__all__ = ["gram", "ols", "pca", "projection", "sum"]

_Price: TypeAlias = tuple[float | None, float | None, float | None]
_TRIES = 3
_SUMS = {
    "gaussian": release_pb2.SUM_METHOD_GAUSSIAN,
    "elliptical": release_pb2.SUM_METHOD_ELLIPTICAL,
    "clipped": release_pb2.SUM_METHOD_CLIPPED,
}
_FITS = {
    "LS": release_pb2.LEAST_SQUARES_METHOD_LS,
    "ALS": release_pb2.LEAST_SQUARES_METHOD_ALS,
    "noisy_gram": release_pb2.LEAST_SQUARES_METHOD_NOISY_GRAM,
}
_COMPONENTS = {
    "exponential": release_pb2.PRINCIPAL_COMPONENTS_METHOD_EXPONENTIAL,
    "adaptive": release_pb2.PRINCIPAL_COMPONENTS_METHOD_ADAPTIVE,
}


def sum(  # noqa: A001 - release.sum
    connection: Connection,
    study_id: str | bytes,
    columns: Sequence[str] = (),
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    method: str = "elliptical",
    request_id: bytes | str | None = None,
) -> PrivateSum:
    """Sums of columns (all when none is named), in original units."""
    import pandas as pd

    asked = release_pb2.SumMechanism(columns=columns, method=_word("method", method, _SUMS))  # type: ignore[arg-type]
    study, answer = _ask(connection, study_id, (epsilon, delta, mu), request_id, sum=asked)
    if study.suite.name == "moments":
        return _gathered(study, answer, "sums", columns, (epsilon, delta, mu)).sums()
    names = answer.parameters["columns"]
    return PrivateSum(
        pd.Series(answer.values["sum"], index=names, dtype=float),
        pd.Series(answer.parameters["noise"], index=names, dtype=float),
        answer.rows,
        answer.guarantee,
        answer,
    )


def projection(
    connection: Connection,
    study_id: str | bytes,
    columns: Sequence[str] = (),
    *,
    epsilon: float,
    delta: float,
    reduced_dim: int = 1,
    floor_share: float = 0.0,
    request_id: bytes | str | None = None,
) -> PrivateProjection:
    """X^T G plus noise (M_RP), in scaled units; `reduced_dim` = 1 is a random linear combination (M_RLC).

    With `floor_share`, that part of the price buys a private floor under the spectrum, and less noise is needed.
    """
    import pandas as pd

    asked = release_pb2.ProjectionMechanism(
        columns=columns, reduced_dimension=reduced_dim, floor_share=floor_share
    )
    _, answer = _ask(connection, study_id, (epsilon, delta, None), request_id, projection=asked)
    values = pd.DataFrame(answer.values["projection"], index=answer.parameters["columns"])
    return PrivateProjection(values, answer.values["sigma"], answer.guarantee, answer)


def ols(
    connection: Connection,
    study_id: str | bytes,
    response: str,
    features: Sequence[str],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    method: str | None = None,
    reduced_dim: int | None = None,
    floor_share: float = 0.0,
    request_id: bytes | str | None = None,
) -> PrivateFit:
    """Least squares: "LS" (M_LS), "ALS" (M_ALS) or "noisy_gram"; name `one` among the features for an intercept.

    The default is "LS", and "noisy_gram" for the moments suite, which has nothing else and gives standard errors with it.
    `reduced_dim` is the r of the paper, ten times the number of columns by default. Coefficients are in original
    units for the moments suite and where there is an intercept to hold the centres, in scaled units otherwise.
    """
    import pandas as pd

    if method is None:
        method = "noisy_gram" if connection.study(study_id).suite.name == "moments" else "LS"
    if reduced_dim is None:
        reduced_dim = 0 if method == "noisy_gram" else 10 * (len(features) + 1)
    asked = release_pb2.LeastSquaresMechanism(
        response=response,
        features=features,
        method=_word("method", method, _FITS),  # type: ignore[arg-type]
        reduced_dimension=reduced_dim,
        floor_share=floor_share,
    )
    study, answer = _ask(connection, study_id, (epsilon, delta, mu), request_id, least_squares=asked)
    names = [*features, response]
    if study.suite.name == "moments":
        return _gathered(study, answer, "moments", names, (epsilon, delta, mu)).fit()
    gram = None
    if method == "noisy_gram":
        noisy = np.array(answer.values["gram"])
        gram = pd.DataFrame(noisy, index=names, columns=names)
        scaled, sigma = solve_gram(noisy), answer.parameters["sigma"]
    else:
        scaled, sigma = np.array(answer.values["coefficients"]), answer.values["sigma"]
    columns = {column.name: column for column in study.schema.columns}
    params, units = (None, "scaled")
    if scaled is not None:
        values, units = original_units(scaled, [columns[name] for name in features], columns[response])
        params = pd.Series(values, index=list(features), dtype=float)
    return PrivateFit(response, params, units, sigma, answer.guarantee, gram, answer)


def gram(
    connection: Connection,
    study_id: str | bytes,
    columns: Sequence[str],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> PrivateGram:
    """X^T X of two columns or more with Gaussian noise: in original units for the moments suite, scaled for rows.

    It is what `ols` with "noisy_gram" asks for. For the moments suite the same columns at the same price are the same
    question, with one answer, paid for once.
    """
    import pandas as pd

    if len(columns) < 2:
        raise ParameterError("columns", "two or more; name `one` for sums beside squares", list(columns))
    asked = release_pb2.LeastSquaresMechanism(
        features=columns[:-1],
        response=columns[-1],
        method=release_pb2.LEAST_SQUARES_METHOD_NOISY_GRAM,
    )
    study, answer = _ask(connection, study_id, (epsilon, delta, mu), request_id, least_squares=asked)
    if study.suite.name == "moments":
        return _gathered(study, answer, "moments", columns, (epsilon, delta, mu)).moments()
    names = list(columns)
    sigma = answer.parameters["sigma"]
    off = np.full((len(columns),) * 2, sigma / np.sqrt(2))
    np.fill_diagonal(off, sigma)
    return PrivateGram(
        pd.DataFrame(answer.values["gram"], names, names),
        pd.DataFrame(off, names, names),
        "scaled",
        answer.rows,
        answer.guarantee,
        answer,
    )


def pca(
    connection: Connection,
    study_id: str | bytes,
    components: int,
    columns: Sequence[str] = (),
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    method: str = "adaptive",
    test_share: float = 0.2,
    request_id: bytes | str | None = None,
) -> PrivateComponents:
    """The first principal components of X^T X / n, in scaled units.

    "adaptive" is paid with mu (or epsilon and delta), `test_share` of mu^2 for choosing beta; its guarantee is
    asymptotic. "exponential" is paid with epsilon and delta = 0; its guarantee is proved for one component.
    """
    import pandas as pd

    word = _word("method", method, _COMPONENTS)
    asked = release_pb2.PrincipalComponentsMechanism(
        columns=columns,
        components=components,
        method=word,  # type: ignore[arg-type]
        test_share=test_share if method == "adaptive" else 0.0,
    )
    if method == "exponential" and delta is None:
        delta = 0.0
    _, answer = _ask(connection, study_id, (epsilon, delta, mu), request_id, principal_components=asked)
    found = answer.values["components"]
    frame = None if found is None else pd.DataFrame(found, index=answer.parameters["columns"])
    return PrivateComponents(frame, answer.values["beta"], answer.guarantee, answer)


def _gathered(
    study: Study, answer: Answer, kind: QuestionKind, names: Sequence[str], price: _Price
) -> Gathered:
    # Here and not above: it is for one suite alone, and the rest of this module does without it.
    from trimask.release.gathered import read_gathered

    paid = dict(zip(("epsilon", "delta", "mu"), price, strict=True))
    return read_gathered(study, answer, kind, names, paid)


def _word(name: str, value: str, known: Mapping[str, int]) -> int:
    if value not in known:
        raise ParameterError(name, "one of " + ", ".join(known), value)
    return known[value]


def _request_id(given: bytes | str | None) -> bytes:
    if given is None:
        return os.urandom(16)
    try:
        key = bytes.fromhex(given) if isinstance(given, str) else builtins.bytes(given)
    except ValueError:
        key = b""
    if len(key) != 16:
        raise ParameterError("request_id", "32 hexadecimal digits, or 16 bytes", given)
    return key


def _ask(
    connection: Connection,
    study_id: str | bytes,
    price: _Price,
    request_id: bytes | str | None,
    **mechanism: Any,
) -> tuple[Study, Answer]:
    epsilon, delta, mu = price
    request = release_pb2.AskReleaseRequest(
        study_id=study_key(study_id), request_id=_request_id(request_id), **mechanism
    )
    if mu is not None and epsilon is None and delta is None:
        request.gaussian.mu = mu
    elif mu is None and epsilon is not None and delta is not None:
        request.approximate.epsilon, request.approximate.delta = epsilon, delta
        request.approximate.SetInParent()
    else:
        raise ParameterError("price", "epsilon and delta, or mu")
    study = connection.study(study_id)
    stub, timeout = release_stub(connection)
    for left in reversed(range(_TRIES)):
        try:
            with plain_errors(connection.target):
                response = stub.AskRelease(request, timeout=timeout)
        except ConnectionFailed as error:
            if left:
                continue
            raise ConnectionFailed(
                f"{error}. If the collector had answered it is paid for: ask again with "
                f"request_id={request.request_id.hex()!r}, which costs nothing more"
            ) from None
        else:
            return study, Answer.read(study, request, response)
    raise AssertionError  # the loop returns or raises
