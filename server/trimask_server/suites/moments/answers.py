"""Private answers of the moments suite: right providers add up, charge and add noise; the collector only asks.

Each provider keeps its own ledger outside its store and refuses what is over budget, whatever the collector says; the
collector's ledger is what everybody can see. A question is named by what is asked, at which price, of which reports:
it has one answer, and is charged once at each provider and here. Nothing is charged before every provider has
committed to its part. Where one is lost after that, the entry stays reserved, and the same question completes it
(docs/theory/verified-moments.md#ledgers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trimask_core.budget_chain import BudgetLink
from trimask_core.errors import ParameterError, Refused, TrimaskError
from trimask_core.moments.release import asked_hash
from trimask_core.refusals import Reason
from trimask_core.schema import ONES
from trimask_core.study import Study
from trimask_proto.v1 import moments_pb2, release_pb2, witness_pb2
from trimask_server.collector.releases.answering import NotBegun, Prepared, Unfinished
from trimask_server.collector.releases.columns import refuse_collinear, require_known
from trimask_server.collector.releases.plan import MOST_VALUES, Drawn
from trimask_server.node.context import NodeContext
from trimask_server.protocol.accounting import Price
from trimask_server.suites.moments.gathering import call_all, commit, deliver
from trimask_server.suites.moments.release_ledger import ReleaseLedger
from trimask_theory.moments_question import MomentsQuestion, QuestionKind

__all__ = ["MomentsAnswers"]

_SECONDS = 8.0
_NOWHERE = "no node holds this study's rows, nor a factor of them"


@dataclass(frozen=True)
class _Asked:
    """A question about an answerable release."""

    node: NodeContext
    study: Study
    mechanism: str
    parameters: Mapping[str, Any]
    asked: MomentsQuestion
    number: int
    batch_ids: list[bytes]

    @property
    def question(self) -> bytes:
        """As providers name it."""
        return asked_hash(self.study.id, self.number, b"".join(self.batch_ids), self.asked.canonical())

    async def draw(self) -> Drawn:
        """Commitments of all, then every delivery."""
        node, study, layout = self.node, self.study, self.study.moments.layout
        text = self.asked.canonical()
        try:
            committed = await commit(node, study, self.number, self.batch_ids, text, _SECONDS)
        except TrimaskError as error:
            raise NotBegun(error) from None
        try:
            gathered = await deliver(node, study, committed, _SECONDS)
        except Refused as error:
            raise Unfinished(Refused(error.reason, f"{error}. {_AGAIN}")) from None
        except TrimaskError as error:
            raise Unfinished(Refused(Reason.BATCH_DISAGREED, f"{error}. {_AGAIN}")) from None
        values = {
            "release": self.number,
            "batch_ids": [batch_id.hex() for batch_id in self.batch_ids],
            "accepted_hash": gathered.accepted_hash.hex(),
            "totals": gathered.totals,
            "deliveries": gathered.shown(),
        }
        providers, honest = len(study.right), study.moments.honest_providers
        return Drawn(values, self.asked.guarantee(layout, providers, honest))


_AGAIN = "Ask the same again: what was charged is not charged twice"


@dataclass(frozen=True)
class MomentsAnswers:
    """`collector.releases.answering.Answers`."""

    node: NodeContext

    async def prepare(
        self, study: Study, rows: int, request: release_pb2.AskReleaseRequest, price: Price
    ) -> Prepared:
        """Which totals are asked for, and with which noise."""
        number, batch_ids = await ReleaseLedger(self.node.database).answered_from(study.id)
        which = request.WhichOneof("mechanism")
        kind: QuestionKind
        if which == "sum":
            names, kind, mechanism = _sum_columns(study, rows, request.sum), "sums", "sum"
            about: dict[str, Any] = {"columns": names}
        elif which == "least_squares":
            names, kind = _fit_columns(study, request.least_squares), "moments"
            mechanism = "least_squares_noisy_gram"
            about = {"features": names[:-1], "response": names[-1]}
        else:
            raise _needs_factor(which)
        layout = study.moments.layout
        asked = MomentsQuestion.about(kind, names, layout, asdict(price))
        if len(asked.places(layout)) > MOST_VALUES:
            raise Refused(
                Reason.MALFORMED, f"an answer has at most {MOST_VALUES} numbers; ask for fewer columns"
            )
        asked.require_room(study, rows)
        noises = asked.noises(layout, study.moments.honest_providers)
        about |= {
            "method": "noisy_gram" if kind == "moments" else "elliptical",
            "units": "whole steps",
            "totals_of": list(asked.columns),
            "shifts": [noise.shift for noise in noises],
            "noise": [noise.variance(len(study.right)) ** 0.5 for noise in noises],
            "clipped_rows": layout.ball is not None,
        }
        return _Asked(self.node, study, mechanism, about, asked, number, batch_ids)

    @property
    def witnessed(self) -> bool:
        """Each right provider charges its own ledger, and refuses what is over budget."""
        return False

    async def witness(
        self, study: Study, links: Sequence[BudgetLink], number: int, answer: bytes
    ) -> witness_pb2.WitnessedSpend:
        """Not of this suite."""
        raise NotImplementedError

    async def erase(self, study: Study) -> None:
        """Have every right provider erase its share of the totals. Without one share the others are random numbers."""
        request = moments_pb2.EraseTotalsRequest(study_id=study.id)
        try:
            await call_all(self.node, study, lambda stub: stub.EraseTotals, request, _SECONDS)
        except Refused as error:
            raise Refused(
                error.reason,
                f"answers have ended, but not everybody has erased its share of the totals: {error}. "
                "End the releases again when it is back",
            ) from None


def _sum_columns(study: Study, rows: int, asked: release_pb2.SumMechanism) -> list[str]:
    known = [column.name for column in study.moments.layout.natural]
    if asked.method == release_pb2.SUM_METHOD_CLIPPED:
        raise Refused(
            Reason.NOT_DECLARED,
            "devices hold rows of this suite to a ball and prove it (row_norm); ask for an elliptical sum, whose noise "
            "is that of the ball",
        )
    if asked.method != release_pb2.SUM_METHOD_ELLIPTICAL:
        given = "gaussian" if asked.method == release_pb2.SUM_METHOD_GAUSSIAN else asked.method
        raise ParameterError("method", "elliptical, the only one of this suite: noise by range", given)
    names = list(asked.columns) or [name for name in known if name != ONES]
    require_known(names, known)
    if ONES in names:
        raise Refused(
            Reason.COLLINEAR_COLUMNS, f"the sum of {ONES} is the number of rows, {rows}, which is public"
        )
    return names


def _fit_columns(study: Study, asked: release_pb2.LeastSquaresMechanism) -> list[str]:
    if asked.method in (release_pb2.LEAST_SQUARES_METHOD_LS, release_pb2.LEAST_SQUARES_METHOD_ALS):
        raise _needs_factor("least_squares")
    if asked.method != release_pb2.LEAST_SQUARES_METHOD_NOISY_GRAM:
        raise ParameterError("method", "noisy_gram", asked.method)
    # A setting that would be ignored is refused: who asked believes it counts.
    if asked.floor_share or asked.reduced_dimension:
        raise ParameterError("floor_share and reduced_dimension", "left out for the noisy Gram matrix")
    if not asked.features:
        raise ParameterError("features", "at least one column")
    names = [*asked.features, asked.response]
    require_known(names, [column.name for column in study.moments.layout.natural])
    refuse_collinear(study, names)
    return names


def _needs_factor(which: str | None) -> Refused:
    if which == "least_squares":
        return Refused(
            Reason.NEEDS_FACTOR,
            f"M_LS and M_ALS draw from the pooled factor; {_NOWHERE}. Ask with method noisy_gram",
        )
    if which == "projection":
        return Refused(
            Reason.NEEDS_FACTOR,
            f"a random projection draws from the pooled factor; {_NOWHERE}. Ask for the Gram matrix (release.gram) "
            "and project that",
        )
    if which == "principal_components":
        return Refused(
            Reason.NEEDS_FACTOR,
            f"the exponential mechanism draws from the pooled factor; {_NOWHERE}. Ask for the Gram matrix "
            "(release.gram): its eigenvectors cost nothing more",
        )
    return Refused(Reason.MALFORMED, "name a mechanism: sum or least_squares")
