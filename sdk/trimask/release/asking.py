"""Asking a collector: one function a question, each paid once (`trimask.release.sending`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimask.errors import ParameterError
from trimask.release.answer import Answer
from trimask.release.fits import PrivateComponents, PrivateFit, centred_components, gram_fit
from trimask.release.results import PrivateGram, PrivateSum
from trimask.release.sending import Price, ask_collector
from trimask.release.source import AskedColumns, columns_for, formula_of
from trimask_core.schema import ONES
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2

if TYPE_CHECKING:
    from trimask.connection import Connection
    from trimask.release.gathered import Gathered
    from trimask_theory.moments_question import QuestionKind

__all__ = ["gram", "ols", "pca", "sum"]


def sum(  # noqa: A001 - release.sum
    connection: Connection,
    study_id: str | bytes,
    columns: Sequence[str] = (),
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> PrivateSum:
    """Sums of columns (all when none is named), in original units, with noise by each column's range.

    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> print(release.sum(collector, study_id, ["dose"], mu=0.2))  # doctest: +SKIP
    """
    price = (epsilon, delta, mu)
    asked = release_pb2.SumQuestion(columns=columns)
    study, answer = ask_collector(connection, study_id, price, request_id, sum=asked)
    return _read_answer(study, answer, "sums", columns, price).sums()


def ols(
    connection: Connection,
    study_id: str | bytes,
    formula: str,
    features: Sequence[str] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> PrivateFit:
    """Least squares at a price: "y ~ x + C(group)", or a response and a list of features with `one` for an intercept.

    It asks for the Gram matrix of the formula's columns and fits that, with standard errors, tests and intervals; `.gram`
    of the result is a source for other models at no further cost. Everything that can be refused is refused before
    anything is paid.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> fit = release.ols(collector, study_id, "sbp ~ age", epsilon=0.5, delta=1e-7)  # doctest: +SKIP
    >>> print(fit.summary())                                                          # doctest: +SKIP
    """
    formula = formula_of(formula, features)
    study = connection.study(study_id)
    _, needed = columns_for(formula, study.schema)
    asked = AskedColumns.of(study.schema, needed)
    return gram_fit(_ask_gram(connection, study, asked, (epsilon, delta, mu), request_id), formula)


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
    """X^T X of columns with Gaussian noise: a source for every `trimask.fit`, one spend for all models.

    `columns` are columns, or attributes (a group stands for its levels); all by default. Fewer columns have less noise;
    name `one` for means and intercepts. The same columns at the same price are the same question, with one answer, paid
    for once.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> gram = release.gram(collector, study_id, ["one", "age", "sbp"], mu=0.5)  # doctest: +SKIP
    >>> trimask.fit.ols(gram, "sbp ~ age").summary()                            # doctest: +SKIP
    """
    study = connection.study(study_id)
    asked = AskedColumns.of(study.schema, columns)
    return _ask_gram(connection, study, asked, (epsilon, delta, mu), request_id)


def pca(
    connection: Connection,
    study_id: str | bytes,
    components: int,
    columns: Sequence[str] = (),
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> PrivateComponents:
    """The first principal components about the mean, in scaled units, with errors.

    It asks for the Gram matrix of the columns and `one`; `.gram` of the result is a source for other models.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> release.pca(collector, study_id, 2, mu=0.5)  # doctest: +SKIP
    """
    study = connection.study(study_id)
    known = [column.name for column in study.schema.columns if column.name != ONES]
    wanted = AskedColumns.of(study.schema, [ONES, *(columns or known)])
    found = _ask_gram(connection, study, wanted, (epsilon, delta, mu), request_id)
    return centred_components(found, components, [name for name in wanted.names if name != ONES])


def _ask_gram(
    connection: Connection, study: Study, asked: AskedColumns, price: Price, request_id: bytes | str | None
) -> PrivateGram:
    if len(asked.names) < 2:
        raise ParameterError("columns", "two or more; name `one` for sums beside squares", list(asked.names))
    sent = release_pb2.GramQuestion(columns=asked.names)
    _, answer = ask_collector(connection, study.id, price, request_id, gram=sent)
    shown = [column.name for column in asked.schema.columns]
    return _read_answer(study, answer, "moments", asked.names, price, shown).private_gram(asked)


def _read_answer(
    study: Study,
    answer: Answer,
    kind: QuestionKind,
    names: Sequence[str],
    price: Price,
    shown: Sequence[str] = (),
) -> Gathered:
    """An answer with every provider's delivery checked."""
    # Here and not above: `release.local` does without it.
    from trimask.release.gathered import read_gathered

    paid = dict(zip(("epsilon", "delta", "mu"), price, strict=True))
    return read_gathered(study, answer, kind, names, paid, shown)
