"""How a suite answers private questions: what `service` asks of it between reserving a price and keeping an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trimask_core.basics.errors import Refused
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee
from trimask_proto.v1 import release_pb2
from trimask_server.protocol.accounting import Price


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


@dataclass(frozen=True)
class Drawn:
    """What came out: JSON-ready values, and the guarantee they carry."""

    values: Mapping[str, Any]
    guarantee: Guarantee


class Prepared(Protocol):
    """A question that can be answered: all checks that do not need the data have passed, so a refusal cost nothing."""

    @property
    def mechanism(self) -> str:
        """Its name."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What was asked and calibrated, JSON-ready."""
        ...

    @property
    def question(self) -> bytes:
        """Names the question. It has one answer, whoever asks and under any request id, and is charged once."""
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

    async def erase(self, study: Study) -> None:
        """Answers have ended: erase what they came from, wherever it is. May be repeated."""
        ...
