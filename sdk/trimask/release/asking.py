"""Asking a collector: one function a question, each paid once.

A request carries a random id. If the reply is lost, the same id sent again brings the same answer at no further cost:
that is done here a few times, and after that the error says which id to ask again with. It goes over a connection that is
open already.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from trimask.data.catalogue import study_key
from trimask.errors import ConnectionFailed, ParameterError
from trimask.release.answer import Answer
from trimask.release.fits import PrivateComponents, PrivateFit, centred_components, gram_fit
from trimask.release.results import PrivateGram, PrivateSum
from trimask.release.source import AskedColumns, columns_for, formula_of
from trimask_client.grpc_channel import plain_errors
from trimask_core.study.definition import Study
from trimask_core.study.derived import ONES
from trimask_proto.v1 import release_pb2
from trimask_proto.v1.release_pb2_grpc import ReleaseServiceStub

if TYPE_CHECKING:
    from trimask.data.connection import Connection
    from trimask.release.gathered import Gathered
    from trimask.release.tables import PrivateMeans, PrivateTable
    from trimask_theory.moments.moments_question import QuestionKind


def release_stub(connection: Connection) -> tuple[ReleaseServiceStub, float]:
    """The stub and the connection's timeout in seconds."""
    return ReleaseServiceStub(connection._channel), connection._timeout


Price: TypeAlias = tuple[float | None, float | None, float | None]
"""epsilon, delta and mu."""
_TRIES = 3


def _request_id(given: bytes | str | None) -> bytes:
    if given is None:
        return os.urandom(16)
    try:
        key = bytes.fromhex(given) if isinstance(given, str) else bytes(given)
    except ValueError:
        key = b""
    if len(key) != 16:
        raise ParameterError("request_id", "32 hexadecimal digits, or 16 bytes", given)
    return key


def ask_collector(
    connection: Connection,
    study_id: str | bytes,
    price: Price,
    request_id: bytes | str | None,
    **mechanism: Any,
) -> tuple[Study, Answer]:
    """Send one question at a price of epsilon and delta, or mu; the study, and the answer, checked."""
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


def table(
    connection: Connection,
    study_id: str | bytes,
    questions: Sequence[str],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> PrivateTable:
    """How many people gave each combination of answers, every level of every question.

    `questions` are choices, yes-or-no attributes, bins or thresholds. A table of two is in what every study collects; of
    more where the study declares products of them. A person is in one cell, so the noise is that of a sensitivity of
    sqrt 2 however many cells there are: less than a third of a Gram matrix's. Sums of cells add their noise up; ask for a
    margin by `histogram`.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> found = release.table(collector, study_id, ["health", "plan"], epsilon=0.5, delta=1e-7)  # doctest: +SKIP
    >>> found.counts, found.effects()["odds ratio"].table()                                  # doctest: +SKIP
    """
    asked = release_pb2.TableQuestion(questions=_named("questions", questions))
    return _ask_table(connection, study_id, "table", questions, (epsilon, delta, mu), request_id, table=asked)


def histogram(
    connection: Connection,
    study_id: str | bytes,
    questions: Sequence[str],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> PrivateTable:
    """How many people gave each answer, question by question: a sensitivity of sqrt 2 for one, sqrt(2 G) for G.

    `questions` are choices, yes-or-no attributes, bins or thresholds.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> release.histogram(collector, study_id, ["health"], mu=0.2).estimates.table()  # doctest: +SKIP
    """
    asked = release_pb2.HistogramQuestion(questions=_named("questions", questions))
    price = (epsilon, delta, mu)
    return _ask_table(connection, study_id, "histogram", questions, price, request_id, histogram=asked)


def group_means(
    connection: Connection,
    study_id: str | bytes,
    number: str,
    by: str | Sequence[str],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> PrivateMeans:
    """The mean of a number in each group, and how many people are in it.

    `number` is a number, a yes-or-no attribute or a logarithm; `by` a question as in `table`, or several whose product
    the study declares. With the number scaled to [-1, 1] the sensitivity is 2, however many groups there are.
    `connection` is to the collector of `study_id`. The price is `epsilon` and `delta`, or `mu`. The same
    `request_id` again gives the same answer at no further cost.

    >>> release.group_means(collector, study_id, "visits", by="health", mu=0.2).estimates.table()  # doctest: +SKIP
    """
    from trimask.release.gathered import read_group_means

    groups, price = _named("by", [by] if isinstance(by, str) else by), (epsilon, delta, mu)
    asked = release_pb2.GroupMeansQuestion(number=number, by=groups)
    study, answer = ask_collector(connection, study_id, price, request_id, group_means=asked)
    return read_group_means(study, answer, [*groups, number], _paid(price))


def _ask_table(
    connection: Connection,
    study_id: str | bytes,
    kind: QuestionKind,
    questions: Sequence[str],
    price: Price,
    request_id: bytes | str | None,
    **asked: Any,
) -> PrivateTable:
    from trimask.release.gathered import read_table

    study, answer = ask_collector(connection, study_id, price, request_id, **asked)
    return read_table(study, answer, kind, questions, _paid(price))


def _named(what: str, names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not names:
        raise ParameterError(what, "names of questions, in a list", names)
    return list(names)


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

    return read_gathered(study, answer, kind, names, _paid(price), shown)


def _paid(price: Price) -> dict[str, float | None]:
    return dict(zip(("epsilon", "delta", "mu"), price, strict=True))
