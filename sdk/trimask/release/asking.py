"""Asking a collector: one function a mechanism, each paid once (`trimask.release.sending`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trimask.errors import ParameterError
from trimask.fit.design import build
from trimask.release.asking_gram import ask_gram, read_answer
from trimask.release.fits import PrivateComponents, PrivateFit, centred_components, gram_fit
from trimask.release.papers import FIT_METHODS, warn_of_projection, warn_of_sketch
from trimask.release.results import PrivateGram, PrivateProjection, PrivateSum
from trimask.release.sending import ask_collector
from trimask.release.solving import original_units
from trimask.release.source import AskedColumns, columns_for, formula_of
from trimask_core.schema import ONES
from trimask_proto.v1 import release_pb2

if TYPE_CHECKING:
    from trimask.connection import Connection

__all__ = ["gram", "ols", "pca", "projection", "sum"]

_SUMS = {
    "gaussian": release_pb2.SUM_METHOD_GAUSSIAN,
    "elliptical": release_pb2.SUM_METHOD_ELLIPTICAL,
    "clipped": release_pb2.SUM_METHOD_CLIPPED,
}
_FITS = {
    "M_LS": release_pb2.LEAST_SQUARES_METHOD_LS,
    "M_ALS": release_pb2.LEAST_SQUARES_METHOD_ALS,
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
    """Sums of columns (all when none is named), in original units.

    `method` is "elliptical" (noise by each column's range), "gaussian" (the same noise for every column) or
    "clipped" (where the study declares clipping).
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> print(release.sum(collector, study_id, ["dose"], mu=0.2))  # doctest: +SKIP
    """
    import pandas as pd

    asked = release_pb2.SumMechanism(columns=columns, method=_word("method", method, _SUMS))  # type: ignore[arg-type]
    study, answer = ask_collector(connection, study_id, (epsilon, delta, mu), request_id, sum=asked)
    if study.suite.name == "moments":
        return read_answer(study, answer, "sums", columns, (epsilon, delta, mu)).sums()
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
    `columns` are all by default. It is offered as its paper states it, with a warning: `gram` has less error at the
    same price.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`. The same `request_id` again
    gives the same answer at no further cost.

    >>> release.projection(collector, study_id, epsilon=0.5, delta=1e-7, reduced_dim=20)  # doctest: +SKIP
    """
    import pandas as pd

    if connection.study(study_id).suite.name == "rows":
        warn_of_projection(reduced_dim)
    asked = release_pb2.ProjectionMechanism(
        columns=columns, reduced_dimension=reduced_dim, floor_share=floor_share
    )
    _, answer = ask_collector(connection, study_id, (epsilon, delta, None), request_id, projection=asked)
    values = pd.DataFrame(answer.values["projection"], index=answer.parameters["columns"])
    return PrivateProjection(values, answer.values["sigma"], answer.guarantee, answer)


def ols(
    connection: Connection,
    study_id: str | bytes,
    formula: str,
    features: Sequence[str] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    method: str = "noisy_gram",
    reduced_dim: int | None = None,
    floor_share: float = 0.0,
    request_id: bytes | str | None = None,
) -> PrivateFit:
    """Least squares at a price: "y ~ x + C(group)", or a response and a list of features with `one` for an intercept.

    `method` is the mechanism. "noisy_gram" asks for the Gram matrix of the formula's columns and fits that, with standard
    errors, tests and intervals, in both suites; `.gram` of the result is a source for other models at no further cost.
    "M_LS" and "M_ALS" are the papers' (rows suite only): coefficients alone, with a `PaperMechanism` warning of their
    error; `reduced_dim` is the r of the paper, ten times the number of columns by default, and `floor_share` the part of
    the price for a private floor. Everything that can be refused is refused before anything is paid.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> fit = release.ols(collector, study_id, "sbp ~ age", epsilon=0.5, delta=1e-7)  # doctest: +SKIP
    >>> print(fit.summary())                                                          # doctest: +SKIP
    """
    if method not in FIT_METHODS:
        raise ParameterError("method", "one of " + ", ".join(FIT_METHODS), method)
    formula = formula_of(formula, features)
    study = connection.study(study_id)
    asked, needed = columns_for(formula, study.schema)
    if method == "noisy_gram":
        if reduced_dim is not None or floor_share:
            raise ParameterError("reduced_dim and floor_share", "left out for the noisy Gram matrix")
        paid = (epsilon, delta, mu)
        return gram_fit(
            ask_gram(connection, study, AskedColumns.of(study.schema, needed), paid, request_id), formula
        )
    design = build(asked, study.schema)
    columns = {column.name: column for column in study.schema.columns}
    order = list(design.columns)
    reduced = 10 * (len(order) + 1) if reduced_dim is None else reduced_dim
    if study.suite.name == "rows":
        warn_of_sketch(method, reduced)
    sent = release_pb2.LeastSquaresMechanism(
        response=design.response,
        features=order,
        method=_word("method", method, _FITS),  # type: ignore[arg-type]
        reduced_dimension=reduced,
        floor_share=floor_share,
    )
    _, answer = ask_collector(connection, study_id, (epsilon, delta, mu), request_id, least_squares=sent)
    import pandas as pd

    scaled = np.array(answer.values["coefficients"])
    values, units = original_units(scaled, [columns[name] for name in order], columns[design.response])
    params = pd.Series(values, index=list(design.names), dtype=float)
    return PrivateFit(formula, method, params, units, answer.values["sigma"], answer.guarantee, None, answer)


def gram(
    connection: Connection,
    study_id: str | bytes,
    columns: Sequence[str] = (),
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> PrivateGram:
    """X^T X of columns with Gaussian noise: a source for every `trimask.fit`, one spend for all models, in both suites.

    `columns` are columns, or attributes (a group stands for its levels); all by default. Fewer columns have less noise;
    name `one` for means and intercepts. In the rows suite the collector answers, in the moments suite the right providers
    do, and there the same columns at the same price are the same question, with one answer, paid for once.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> gram = release.gram(collector, study_id, ["one", "age", "sbp"], mu=0.5)  # doctest: +SKIP
    >>> trimask.fit.ols(gram, "sbp ~ age").summary()                            # doctest: +SKIP
    """
    study = connection.study(study_id)
    asked = AskedColumns.of(study.schema, columns)
    return ask_gram(connection, study, asked, (epsilon, delta, mu), request_id)


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
    """The first principal components, in scaled units.

    `method` is the mechanism. "noisy_gram" asks for the Gram matrix of the columns and `one`: components about the
    mean, with errors, in both suites; paid with either price. The others are the papers', of X^T X / n about the
    origin, from the rows suite: "adaptive" is paid with mu (or epsilon and delta), `test_share` of mu^2 for choosing
    beta, and its guarantee is asymptotic; "exponential" is paid with epsilon and delta = 0, and its guarantee is
    proved for one component.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> release.pca(collector, study_id, 2, mu=0.5, method="noisy_gram")  # doctest: +SKIP
    """
    import pandas as pd

    if method == "noisy_gram":
        study = connection.study(study_id)
        known = [column.name for column in study.schema.columns if column.name != ONES]
        wanted = AskedColumns.of(study.schema, [ONES, *(columns or known)])
        if not study.schema.ones:
            raise ParameterError(
                "method", "adaptive or exponential: this study has no ones column to centre with"
            )
        found_gram = ask_gram(connection, study, wanted, (epsilon, delta, mu), request_id)
        shown = [name for name in wanted.names if name != ONES]
        return centred_components(found_gram, components, shown)
    word = _word("method", method, {**_COMPONENTS, "noisy_gram": 0})
    asked = release_pb2.PrincipalComponentsMechanism(
        columns=columns,
        components=components,
        method=word,  # type: ignore[arg-type]
        test_share=test_share if method == "adaptive" else 0.0,
    )
    if method == "exponential" and delta is None:
        delta = 0.0
    _, answer = ask_collector(
        connection, study_id, (epsilon, delta, mu), request_id, principal_components=asked
    )
    found = answer.values["components"]
    frame = None if found is None else pd.DataFrame(found, index=answer.parameters["columns"])
    return PrivateComponents(frame, answer.values["beta"], answer.guarantee, answer)


def _word(name: str, value: str, known: Mapping[str, int]) -> int:
    if value not in known:
        raise ParameterError(name, "one of " + ", ".join(known), value)
    return known[value]
