"""A study's budget, for anybody to see: the total, what was spent on what, what is left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from trimask.data.catalogue import Shown, study_key
from trimask.release.asking import release_stub
from trimask_client.grpc_channel import plain_errors
from trimask_proto.v1 import release_pb2

if TYPE_CHECKING:
    from trimask.data.connection import Connection


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
    stub, timeout = release_stub(connection)
    with plain_errors(connection.target):
        found = stub.GetBudget(request, timeout=timeout)
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
