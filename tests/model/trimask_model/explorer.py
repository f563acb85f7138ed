"""Tries every order of events of a small model, and gives the shortest way to a state that must not be.

A model is a first state, what can happen in a state, and what must never hold. States are compared by value, so each is
looked at once. Breadth first: the first violation found is one of the shortest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Model(Generic[S]):
    """`events` gives (what happens, the state after it); `broken` the property that a state breaks; `over` whether the
    study has come to its end there; `alone` whether honest parties can do that event without the others' help."""

    first: S
    events: Callable[[S], Iterable[tuple[str, S]]]
    broken: Callable[[S], str | None]
    over: Callable[[S], bool]
    alone: Callable[[str], bool]


@dataclass(frozen=True)
class Found:
    """What was looked at, and what was found: a property with the events that break it, or nothing."""

    states: int
    steps: int
    broken: str | None = None
    events: tuple[str, ...] = ()

    def __str__(self) -> str:
        seen = f"{self.states:,} states, {self.steps:,} steps"
        return f"{self.broken}: {'; '.join(self.events)}" if self.broken else f"{seen}, every property holds"


def explore(model: Model[S]) -> Found:
    """Every state that can be reached. From each, honest parties alone must be able to come to the end: none is stuck."""
    came: dict[S, tuple[S, str] | None] = {model.first: None}
    before: dict[S, list[S]] = {}
    waiting, steps = deque([model.first]), 0
    while waiting:
        state = waiting.popleft()
        broken = model.broken(state)
        if broken:
            return Found(len(came), steps, broken, _way(came, state))
        for event, after in model.events(state):
            if after == state:
                continue
            steps += 1
            if model.alone(event):
                before.setdefault(after, []).append(state)
            if after not in came:
                came[after] = (state, event)
                waiting.append(after)
    ends = {state for state in came if model.over(state)}
    waiting = deque(ends)
    while waiting:
        for earlier in before.get(waiting.popleft(), ()):
            if earlier not in ends:
                ends.add(earlier)
                waiting.append(earlier)
    for state in came:  # in the order they were found: a shortest way first
        if state not in ends:
            return Found(len(came), steps, "a study is stuck", _way(came, state))
    return Found(len(came), steps)


def _way(came: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    events: list[str] = []
    while (step := came[state]) is not None:
        state, event = step
        events.append(event)
    return tuple(reversed(events))
