"""How a suite answers private questions: what `service` asks of it between reserving a price and keeping an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from trimask_core.budget_chain import BudgetLink
from trimask_core.errors import Refused
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2, witness_pb2
from trimask_server.protocol.accounting import Price

if TYPE_CHECKING:
    from trimask_server.collector.releases.plan import Drawn

__all__ = ["Answers", "NotBegun", "Prepared", "Unfinished"]


class NotBegun(Exception):
    """Nothing was drawn, sent or charged: the price is returned, and the caller gets `refusal`."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class Unfinished(Exception):
    """Some providers may have drawn their noise: the price stays paid, and the same question completes the answer later."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class Prepared(Protocol):
    """A question that can be answered: all checks that do not need the data have passed."""

    @property
    def mechanism(self) -> str:
        """Its name."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What was asked and calibrated, JSON-ready."""
        ...

    @property
    def question(self) -> bytes | None:
        """Names the question where it has one answer, whoever asks: then it is charged once, under any request id.

        What `draw` gives must then be the same for all requests of the question.
        """
        ...

    async def draw(self) -> Drawn:
        """Make the answer. `NotBegun` and `Unfinished` say what happens to its price; any other error keeps it as failed."""
        ...


class Answers(Protocol):
    """A suite's answers."""

    async def prepare(
        self, study: Study, rows: int, request: release_pb2.AskReleaseRequest, price: Price
    ) -> Prepared:
        """Plan the question, or say why there is no answer to it."""
        ...

    @property
    def witnessed(self) -> bool:
        """Whether providers witness each price; not where they charge ledgers of their own."""
        ...

    async def witness(
        self, study: Study, links: Sequence[BudgetLink], number: int, answer: bytes
    ) -> witness_pb2.WitnessedSpend:
        """Have link `number` of the chain witnessed, the one that pays for `answer`. `Unfinished` if it cannot be now."""
        ...

    async def erase(self, study: Study) -> None:
        """Answers have ended: erase what they came from, beyond what is in the collector's own store. May be repeated."""
        ...
