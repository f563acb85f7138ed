"""Private answers of the moments suite: right providers add up, charge and add noise; the collector only asks.

Each provider keeps its own ledger outside its store and refuses what is over budget, whatever the collector says; the
collector's ledger is what everybody can see. A question is named by what is asked, at which price, of which reports:
it has one answer, and is charged once at each provider and here. Nothing is charged before every provider has
committed to its part. Where one is lost after that, the entry stays reserved, and the same question completes it
(docs/theory/verified-moments.md#ledgers).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trimask_core.basics.errors import Refused, TrimaskError
from trimask_core.basics.refusals import Reason
from trimask_core.moments.cells import MOST_CELLS, question_levels
from trimask_core.moments.totals import asked_hash
from trimask_core.study.definition import Study
from trimask_core.study.derived import ONES
from trimask_proto.v1 import release_pb2
from trimask_server.collector.accounting import Price
from trimask_server.collector.releases import Drawn, NotBegun, Prepared, Unfinished
from trimask_server.runtime.context import NodeContext
from trimask_server.suites.moments.publisher import ReleaseLedger, commit, deliver, erase_totals
from trimask_theory.moments.moments_question import MomentsQuestion, QuestionKind

_SECONDS = 8.0
_KINDS: dict[str, QuestionKind] = {
    "sum": "sums",
    "gram": "moments",
    "table": "table",
    "histogram": "histogram",
    "group_means": "group_means",
}
"""What providers call a question, by what it is called on the wire."""


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
        node, study = self.node, self.study
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
        return Drawn(values, self.asked.guarantee(providers, honest))


_AGAIN = "Ask the same again: what was charged is not charged twice"


@dataclass(frozen=True)
class MomentsAnswers:
    """`collector.releases.Answers`."""

    node: NodeContext

    async def prepare(
        self, study: Study, rows: int, request: release_pb2.AskReleaseRequest, price: Price
    ) -> Prepared:
        """Which totals are asked for, and with which noise."""
        number, batch_ids = await ReleaseLedger(self.node.database).answered_from(study.id)
        which = request.WhichOneof("question")
        if which is None:
            raise Refused(Reason.MALFORMED, f"ask a question: {', '.join(_KINDS)}")
        kind = _KINDS[which]
        if kind == "sums":
            names = _sum_columns(study, rows, request.sum.columns)
        elif kind == "moments":
            names = _gram_columns(study, request.gram.columns)
        else:
            names = _group_columns(study, request)
        layout = study.moments.layout
        asked = MomentsQuestion.about(kind, names, layout, asdict(price))
        if len(asked.cells(layout)) > MOST_CELLS:
            raise Refused(
                Reason.MALFORMED, f"an answer has at most {MOST_CELLS} numbers; ask for fewer columns"
            )
        asked.require_room(study, rows)
        noises = asked.noises(layout, study.moments.honest_providers)
        about: dict[str, Any] = {
            "columns": names,
            "units": "whole steps",
            "totals_of": list(asked.columns),
            "sensitivity": asked.sensitivity(layout),
            "shifts": [noise.shift for noise in noises],
            "noise": [noise.variance(len(study.right)) ** 0.5 for noise in noises],
            "clipped_rows": layout.ball is not None,
        }
        return _Asked(self.node, study, which, about, asked, number, batch_ids)

    async def erase(self, study: Study) -> None:
        """Have every right provider erase its share of the totals."""
        try:
            await erase_totals(self.node, study)
        except Refused as error:
            raise Refused(
                error.reason,
                f"answers have ended, but not everybody has erased its share of the totals: {error}. "
                "It is told again until it has",
            ) from None


def _sum_columns(study: Study, rows: int, columns: Sequence[str]) -> list[str]:
    known = [column.name for column in study.moments.layout.natural]
    names = list(columns) or [name for name in known if name != ONES]
    _require_known(names, known)
    if ONES in names:
        raise Refused(
            Reason.BAD_QUESTION, f"the sum of {ONES} is the number of rows, {rows}, which is public"
        )
    return names


def _gram_columns(study: Study, columns: Sequence[str]) -> list[str]:
    names = list(columns)
    _require_known(names, [column.name for column in study.moments.layout.natural], least=2)
    _refuse_collinear(study, names)
    return names


def _group_columns(study: Study, request: release_pb2.AskReleaseRequest) -> list[str]:
    """The questions of a table, of histograms or of means by group, and then the number."""
    by, tail = list(request.table.questions or request.histogram.questions), []
    if request.WhichOneof("question") == "group_means":
        by, tail = list(request.group_means.by), [request.group_means.number]
    _require_known(by, list(question_levels(study.schema)))
    return by + tail


def _require_known(names: Sequence[str], known: Sequence[str], least: int = 1) -> None:
    """Refuse names a study does not have, too few, and one given twice. What is refused here costs nothing: it follows from
    the signed study, and reveals nothing about anybody."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
            raise Refused(Reason.BAD_QUESTION, f"this study has no column {name!r}; {hint}")
    if len(set(names)) != len(names) or len(names) < least:
        raise Refused(Reason.BAD_QUESTION, f"name at least {least} columns, and each only once")


def _refuse_collinear(study: Study, chosen: Sequence[str]) -> None:
    """Refuse columns that are linear combinations of each other whatever is answered.

    The indicators of a categorical attribute add up to the ones column; so two whole groups, or one and the ones
    column, hold the same constant twice.
    """
    names = set(chosen)
    whole_groups = [
        group
        for group, levels in study.schema.groups.items()
        if names.issuperset(f"{group}_{level}" for level in levels)
    ]
    constants = ([ONES] if ONES in names else []) + whole_groups
    if len(constants) > 1:
        raise Refused(
            Reason.BAD_QUESTION,
            f"{' and '.join(constants)} hold the same constant: leave one level of {constants[-1]} out",
        )
