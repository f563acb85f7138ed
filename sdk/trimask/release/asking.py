"""Asking a collector: one function a question, each paid once; and what a study's budget was, spent and has left.

A request carries a random id. If the reply is lost, the same id sent again brings the same answer at no further cost:
that is done here a few times, and after that the error says which id to ask again with. It goes over a connection that is
open already.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack

from trimask.data.connection import study_key
from trimask.data.manifest import Shown
from trimask.errors import ConnectionFailed, ParameterError
from trimask.release.gathered import read_gathered, read_group_means, read_table
from trimask.release.results import (
    Answer,
    PrivateComponents,
    PrivateFit,
    PrivateGram,
    PrivateSum,
    centred_components,
    gram_fit,
)
from trimask.release.source import AskedColumns, columns_for, formula_of
from trimask.release.tables import PrivateMeans, PrivateTable
from trimask_client.grpc_channel import plain_errors
from trimask_core.study.definition import Study
from trimask_core.study.derived import ONES
from trimask_proto.v1 import release_pb2
from trimask_proto.v1.release_pb2_grpc import ReleaseServiceStub

if TYPE_CHECKING:
    from trimask.data.connection import Connection


_TRIES = 3


class Paid(TypedDict, total=False):
    """How an answer is paid for: `epsilon` and `delta`, or `mu`.

    The same `request_id` again (32 hexadecimal digits, or 16 bytes) gives the same answer at no further cost.
    """

    epsilon: float | None
    delta: float | None
    mu: float | None
    request_id: bytes | str | None


class Price(NamedTuple):
    """What `Paid` says, checked: epsilon, delta and mu by name, and the request's id."""

    amounts: Mapping[str, float | None]
    request_id: bytes


def price_of(
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    request_id: bytes | str | None = None,
) -> Price:
    """Check how an answer is paid for, and draw an id where none is given."""
    if (epsilon is None) != (delta is None) or (mu is None) == (epsilon is None):
        raise ParameterError("price", "epsilon and delta, or mu")
    amounts = {"epsilon": epsilon, "delta": delta, "mu": mu}
    if request_id is None:
        return Price(amounts, os.urandom(16))
    try:
        key = bytes.fromhex(request_id) if isinstance(request_id, str) else bytes(request_id)
    except ValueError:
        key = b""
    if len(key) != 16:
        raise ParameterError("request_id", "32 hexadecimal digits, or 16 bytes", request_id)
    return Price(amounts, key)


def ask_collector(
    connection: Connection, study_id: str | bytes, price: Price, **mechanism: Any
) -> tuple[Study, Answer]:
    """Send one question; the study, and the answer, checked."""
    request = release_pb2.AskReleaseRequest(
        study_id=study_key(study_id), request_id=price.request_id, **mechanism
    )
    paid = {name: amount for name, amount in price.amounts.items() if amount is not None}
    if "mu" in paid:
        request.gaussian.mu = paid["mu"]
    else:
        request.approximate.epsilon, request.approximate.delta = paid["epsilon"], paid["delta"]
        request.approximate.SetInParent()
    study = connection.study(study_id)
    stub = ReleaseServiceStub(connection._channel)
    for left in reversed(range(_TRIES)):
        try:
            with plain_errors(connection.target):
                response = stub.AskRelease(request, timeout=connection._timeout)
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
    connection: Connection, study_id: str | bytes, columns: Sequence[str] = (), **paid: Unpack[Paid]
) -> PrivateSum:
    """Sums of columns (all when none is named), in original units, with noise by each column's range.

    `connection` is to the collector of `study_id`; `paid` is `epsilon` and `delta`, or `mu`, and perhaps a `request_id`: the
    same one again gives the same answer at no further cost.

    >>> print(release.sum(collector, study_id, ["dose"], mu=0.2))  # doctest: +SKIP
    """
    price = price_of(**paid)
    asked = release_pb2.SumQuestion(columns=columns)
    study, answer = ask_collector(connection, study_id, price, sum=asked)
    return read_gathered(study, answer, "sums", columns, price.amounts).sums()


def ols(
    connection: Connection,
    study_id: str | bytes,
    formula: str,
    features: Sequence[str] | None = None,
    **paid: Unpack[Paid],
) -> PrivateFit:
    """Least squares at a price: "y ~ x + C(group)", or a response and a list of features with `one` for an intercept.

    It asks for the Gram matrix of the formula's columns and fits that, with standard errors, tests and intervals; `.gram`
    of the result is a source for other models at no further cost. Everything that can be refused is refused before
    anything is paid. `connection`, `study_id` and `paid` are as in `sum`.

    >>> fit = release.ols(collector, study_id, "sbp ~ age", epsilon=0.5, delta=1e-7)  # doctest: +SKIP
    >>> print(fit.summary())                                                          # doctest: +SKIP
    """
    price, formula = price_of(**paid), formula_of(formula, features)
    study = connection.study(study_id)
    _, needed = columns_for(formula, study.schema)
    return gram_fit(_ask_gram(connection, study, AskedColumns.of(study.schema, needed), price), formula)


def gram(
    connection: Connection, study_id: str | bytes, columns: Sequence[str] = (), **paid: Unpack[Paid]
) -> PrivateGram:
    """X^T X of columns with Gaussian noise: a source for every `trimask.fit`, one spend for all models.

    `columns` are columns, or attributes (a group stands for its levels); all by default. Fewer columns have less noise;
    name `one` for means and intercepts. The same columns at the same price are the same question, with one answer, paid
    for once. `connection`, `study_id` and `paid` are as in `sum`.

    >>> gram = release.gram(collector, study_id, ["one", "age", "sbp"], mu=0.5)  # doctest: +SKIP
    >>> trimask.fit.ols(gram, "sbp ~ age").summary()                            # doctest: +SKIP
    """
    price, study = price_of(**paid), connection.study(study_id)
    return _ask_gram(connection, study, AskedColumns.of(study.schema, columns), price)


def pca(
    connection: Connection,
    study_id: str | bytes,
    components: int,
    columns: Sequence[str] = (),
    **paid: Unpack[Paid],
) -> PrivateComponents:
    """The first principal components about the mean, in scaled units, with errors.

    It asks for the Gram matrix of the columns and `one`; `.gram` of the result is a source for other models.
    `connection`, `study_id` and `paid` are as in `sum`.

    >>> release.pca(collector, study_id, 2, mu=0.5)  # doctest: +SKIP
    """
    price, study = price_of(**paid), connection.study(study_id)
    known = [column.name for column in study.schema.columns if column.name != ONES]
    wanted = AskedColumns.of(study.schema, [ONES, *(columns or known)])
    found = _ask_gram(connection, study, wanted, price)
    return centred_components(found, components, [name for name in wanted.names if name != ONES])


def table(
    connection: Connection, study_id: str | bytes, questions: Sequence[str], **paid: Unpack[Paid]
) -> PrivateTable:
    """How many people gave each combination of answers, every level of every question.

    `questions` are choices, yes-or-no attributes, bins or thresholds. A table of two is in what every study collects; of
    more where the study declares products of them. A person is in one cell, so the noise is that of a sensitivity of
    sqrt 2 however many cells there are: less than a third of a Gram matrix's. Sums of cells add their noise up; ask for a
    margin by `histogram`. `connection`, `study_id` and `paid` are as in `sum`.

    >>> found = release.table(collector, study_id, ["health", "plan"], epsilon=0.5, delta=1e-7)  # doctest: +SKIP
    >>> found.counts, found.effects()["odds ratio"].table()                                  # doctest: +SKIP
    """
    price = price_of(**paid)
    asked = release_pb2.TableQuestion(questions=_named("questions", questions))
    study, answer = ask_collector(connection, study_id, price, table=asked)
    return read_table(study, answer, "table", questions, price.amounts)


def histogram(
    connection: Connection, study_id: str | bytes, questions: Sequence[str], **paid: Unpack[Paid]
) -> PrivateTable:
    """How many people gave each answer, question by question: a sensitivity of sqrt 2 for one, sqrt(2 G) for G.

    `questions` are choices, yes-or-no attributes, bins or thresholds. `connection`, `study_id` and `paid` are as in `sum`.

    >>> release.histogram(collector, study_id, ["health"], mu=0.2).estimates.table()  # doctest: +SKIP
    """
    price = price_of(**paid)
    asked = release_pb2.HistogramQuestion(questions=_named("questions", questions))
    study, answer = ask_collector(connection, study_id, price, histogram=asked)
    return read_table(study, answer, "histogram", questions, price.amounts)


def group_means(
    connection: Connection,
    study_id: str | bytes,
    number: str,
    by: str | Sequence[str],
    **paid: Unpack[Paid],
) -> PrivateMeans:
    """The mean of a number in each group, and how many people are in it.

    `number` is a number, a yes-or-no attribute or a logarithm; `by` a question as in `table`, or several whose product
    the study declares. With the number scaled to [-1, 1] the sensitivity is 2, however many groups there are.
    `connection`, `study_id` and `paid` are as in `sum`.

    >>> release.group_means(collector, study_id, "visits", by="health", mu=0.2).estimates.table()  # doctest: +SKIP
    """
    price, groups = price_of(**paid), _named("by", [by] if isinstance(by, str) else by)
    asked = release_pb2.GroupMeansQuestion(number=number, by=groups)
    study, answer = ask_collector(connection, study_id, price, group_means=asked)
    return read_group_means(study, answer, [*groups, number], price.amounts)


def _named(what: str, names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not names:
        raise ParameterError(what, "names of questions, in a list", names)
    return list(names)


def _ask_gram(connection: Connection, study: Study, asked: AskedColumns, price: Price) -> PrivateGram:
    if len(asked.names) < 2:
        raise ParameterError("columns", "two or more; name `one` for sums beside squares", list(asked.names))
    sent = release_pb2.GramQuestion(columns=asked.names)
    _, answer = ask_collector(connection, study.id, price, gram=sent)
    shown = [column.name for column in asked.schema.columns]
    found = read_gathered(study, answer, "moments", asked.names, price.amounts, shown)
    return found.private_gram(asked)


State = Literal["unspecified", "collecting", "answering", "closed"]
_STATES: tuple[State, ...] = ("unspecified", "collecting", "answering", "closed")
_ENTRY_STATES = ("unspecified", "reserved", "answered", "failed")


@dataclass(frozen=True, slots=True)
class Purses(Shown):
    """epsilon and delta add up, mu adds up in squares; None where there is no such purse."""

    epsilon: float | None
    delta: float | None
    mu: float | None

    @classmethod
    def from_proto(cls, message: release_pb2.Purses) -> Purses:
        """Read the collector's answer."""
        return cls(
            *(getattr(message, n) if message.HasField(n) else None for n in ("epsilon", "delta", "mu"))
        )

    def __str__(self) -> str:
        named = (("epsilon", self.epsilon), ("delta", self.delta), ("mu", self.mu))
        # Every digit: an amount rounded up for show could not be asked for.
        return ", ".join(f"{name} {value!r}" for name, value in named if value is not None)


@dataclass(frozen=True, slots=True)
class BudgetEntry(Shown):
    """One answer in the ledger. It counts in full whatever its state."""

    mechanism: str
    cost: Purses
    reserve_time_ms: int
    state: str


@dataclass(frozen=True, slots=True)
class BudgetStatus(Shown):
    """A study's budget."""

    state: State
    total: Purses
    spent: Purses
    left: Purses
    rows: int
    entries: tuple[BudgetEntry, ...]

    def __str__(self) -> str:
        people = f" from {self.rows:,} rows" if self.rows else ""
        lines = [
            f"Budget, {self.state}{people}: {self.total}",
            f"  spent  {self.spent}",
            f"  left   {self.left}",
        ]
        for entry in self.entries:
            when = datetime.fromtimestamp(entry.reserve_time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
            lines.append(f"  {when}  {entry.mechanism:<34} {entry.cost}  ({entry.state})")
        return "\n".join(lines)


def budget(connection: Connection, study_id: str | bytes) -> BudgetStatus:
    """What a study's budget was, what was spent on what, and what is left.

    `connection` is to the study's collector, `study_id` the study's id (bytes or hexadecimal digits). Asking costs nothing.

    >>> print(release.budget(collector, study_id))  # doctest: +SKIP
    """
    request = release_pb2.GetBudgetRequest(study_id=study_key(study_id))
    stub = ReleaseServiceStub(connection._channel)
    with plain_errors(connection.target):
        found = stub.GetBudget(request, timeout=connection._timeout)
    return BudgetStatus(
        state=_STATES[found.state] if found.state < len(_STATES) else "unspecified",
        total=Purses.from_proto(found.total),
        spent=Purses.from_proto(found.spent),
        left=Purses.from_proto(found.left),
        rows=found.rows,
        entries=tuple(
            BudgetEntry(
                item.mechanism, Purses.from_proto(item.cost), item.reserve_time_ms, _ENTRY_STATES[item.state]
            )
            for item in found.entries
        ),
    )
