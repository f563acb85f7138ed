"""The question behind `release.gram`, `ols` and `pca`: a noisy Gram matrix, read as a source of fits, in both suites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trimask.errors import ParameterError
from trimask.identities import schema_identities
from trimask.release.answer import Answer
from trimask.release.results import PrivateGram
from trimask.release.sending import Price, ask_collector
from trimask.release.source import AskedColumns, ObservedGram, gram_law
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2

if TYPE_CHECKING:
    from trimask.connection import Connection
    from trimask.release.gathered import Gathered
    from trimask_theory.moments_question import QuestionKind

__all__ = ["ask_gram", "read_answer"]


def ask_gram(
    connection: Connection, study: Study, asked: AskedColumns, price: Price, request_id: bytes | str | None
) -> PrivateGram:
    """Ask for the noisy Gram matrix of columns, by the collector or by the right providers, and read it."""
    if len(asked.names) < 2:
        raise ParameterError("columns", "two or more; name `one` for sums beside squares", list(asked.names))
    *features, response = asked.names
    sent = release_pb2.LeastSquaresMechanism(
        features=features, response=response, method=release_pb2.LEAST_SQUARES_METHOD_NOISY_GRAM
    )
    _, answer = ask_collector(connection, study.id, price, request_id, least_squares=sent)
    if study.suite.name == "moments":
        shown = [column.name for column in asked.schema.columns]
        return read_answer(study, answer, "moments", asked.names, price, shown).private_gram(asked)
    noisy, sigma = np.array(answer.values["gram"]), answer.parameters["sigma"]
    clipped = frozenset(() if study.clipping is None else study.clipping.columns)
    shortened = study.protection.row_norm < study.schema.row_norm
    identities = schema_identities(study.schema, shortened, asked.names, clipped)
    L = asked.from_scaled(study.schema.columns)
    observed = ObservedGram(
        asked.schema, noisy, gram_law(sigma, len(noisy)), identities, L, answer.rows, sigma, answer.guarantee
    )
    label = f"private Gram matrix {answer.request_id[:12]} of {study.title}"
    return PrivateGram(observed.moments(label), answer.guarantee, answer)


def read_answer(
    study: Study,
    answer: Answer,
    kind: QuestionKind,
    names: Sequence[str],
    price: Price,
    shown: Sequence[str] = (),
) -> Gathered:
    """An answer of the moments suite, every provider's delivery checked."""
    # Here and not above: it is for one suite alone, and the rest of this module does without it.
    from trimask.release.gathered import read_gathered

    paid = dict(zip(("epsilon", "delta", "mu"), price, strict=True))
    return read_gathered(study, answer, kind, names, paid, shown)
