"""How a study closes: what its owner was told, what is counted, and what is published, while people come and withdraw.

Everybody is honest here; messages are late, repeated and out of order. There are two right providers, a collector, and an
owner, who may be told something twice and may end the study whatever is erased. A release has two people or more, as in a
study whose blocks have two rows (`collector/driver.py`, `BatchDriver._count_before_closing`; `right/batches.py`,
`PauseIntake`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trimask_model.explorer import Model

_LESS = "less is published than was announced, and more erased"
_OTHER = "what was counted is not what is published"
RULES = {
    "intake pauses before anybody counts": _OTHER,
    "every right provider has paused before anybody counts": _OTHER,
    "pauses are numbered": _OTHER,
    "a paused provider takes no withdrawal": _OTHER,
    "what is there is counted anew": _OTHER,
    "a study goes on if less would be published": _LESS,
    "a study can go on after a pause": "a study is stuck",
}
_LEAST, _TOLD = 2, 2


class State(NamedTuple):
    """All parties."""

    rows: tuple[tuple[str, str], ...]  # a person's row at each provider: "", "here" or "withdrawn"
    leaving: tuple[bool, ...]  # a person has asked to be taken out
    known: int = 0  # complete rows, when the collector last looked
    orders: int = 0
    announced: tuple[int, int] | None = None  # to be published, and erased
    collector: str = "open"
    turn: int = 0
    intake: tuple[int, int] = (0, 0)  # the turn that each provider follows; odd: paused
    answered: tuple[int, int] = (0, 0)  # the last turn that each has confirmed to the collector
    counted: int | None = None
    published: int | None = None


def model(people: int, without: str | None = None) -> Model[State]:
    """The model for so many people, without one rule."""
    parties = _Parties(without)
    first = State((("", ""),) * people, (False,) * people)
    return Model(first, parties.events, _broken, lambda state: state.published is not None, _alone)


def _complete(state: State) -> int:
    return sum(row == ("here", "here") for row in state.rows)


def _outcome(state: State, complete: int) -> tuple[int, int]:
    """(published, erased) if the study closed with so many complete rows."""
    return (complete, 0) if complete >= _LEAST else (0, complete)


def _broken(state: State) -> str | None:
    if state.published is None or state.counted is None or state.announced is None:
        return None
    published, erased = _outcome(state, state.published)
    if (published, erased) != _outcome(state, state.counted):
        return _OTHER
    return _LESS if published < state.announced[0] and erased > state.announced[1] else None


def _alone(event: str) -> bool:
    return bool(event)  # everybody is honest


class _Parties:
    """What can happen."""

    def __init__(self, without: str | None) -> None:
        if without is not None and without not in RULES:
            raise ValueError(without)
        self._without = without

    def _keeps(self, rule: str) -> bool:
        if rule not in RULES:
            raise ValueError(rule)
        return rule != self._without

    def events(self, state: State) -> Iterator[tuple[str, State]]:
        if state.published is not None:
            return
        yield from self._devices(state)
        if state.collector == "open":
            yield "the collector looks", state._replace(known=_complete(state))
            if state.orders < _TOLD:
                announced = _outcome(state, state.known)
                ordered = _paused(state, announced)._replace(orders=state.orders + 1)
                yield f"the owner is told {announced} and orders it closed", ordered
            yield "the owner orders it closed, whatever is erased", _paused(state, (0, len(state.rows)))
        if state.collector in ("paused", "open"):
            for place, turn in enumerate(state.answered):
                if turn < state.turn:
                    told = state._replace(answered=_put(state.answered, place, state.turn))
                    yield (
                        _said(place, state.turn),
                        told._replace(intake=_put(state.intake, place, state.turn)),
                    )
                if not self._keeps("pauses are numbered"):  # a message that was late comes once more
                    for late in range(1, turn):
                        yield _said(place, late), state._replace(intake=_put(state.intake, place, late))
        if state.collector == "paused":
            yield from self._counted(state)
        if state.collector == "closing":
            yield "the rest is published", state._replace(published=_complete(state))

    def _devices(self, state: State) -> Iterator[tuple[str, State]]:
        closing = state.collector == "closing"
        for person, row in enumerate(state.rows):
            for place in (0, 1):
                paused = state.intake[place] % 2 == 1
                if row[place] == "" and not state.leaving[person] and not paused and not closing:
                    yield f"{person} submits to R{place + 1}", _row(state, person, place, "here")
                takes = not paused or not self._keeps("a paused provider takes no withdrawal")
                stopped = closing and paused and self._keeps("a paused provider takes no withdrawal")
                if state.leaving[person] and row[place] != "withdrawn" and takes and not stopped:
                    yield f"{person} withdraws at R{place + 1}", _row(state, person, place, "withdrawn")
            if not state.leaving[person] and "here" in row:
                leaving = (*state.leaving[:person], True, *state.leaving[person + 1 :])
                yield f"{person} wants to withdraw", state._replace(leaving=leaving)

    def _counted(self, state: State) -> Iterator[tuple[str, State]]:
        told = [turn == state.turn for turn in state.answered]
        if self._keeps("intake pauses before anybody counts"):
            enough = (
                all(told)
                if self._keeps("every right provider has paused before anybody counts")
                else any(told)
            )
            if not enough:
                return
        complete = _complete(state) if self._keeps("what is there is counted anew") else state.known
        published, erased = _outcome(state, complete)
        announced = state.announced or (0, 0)
        goes_on = published < announced[0] and erased > announced[1]
        if goes_on and self._keeps("a study goes on if less would be published"):
            if self._keeps("a study can go on after a pause"):
                resumed = state._replace(collector="open", turn=state.turn + 1, announced=None)
                yield f"{complete} are there: the study goes on", resumed
            return
        yield f"{complete} are there: the study closes", state._replace(collector="closing", counted=complete)


def _said(place: int, turn: int) -> str:
    return f"R{place + 1} {'pauses' if turn % 2 else 'resumes'} (turn {turn})"


def _put(pair: tuple[int, int], place: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if place == 0 else (pair[0], value)


def _paused(state: State, announced: tuple[int, int]) -> State:
    return state._replace(announced=announced, collector="paused", turn=state.turn + 1)


def _row(state: State, person: int, place: int, what: str) -> State:
    row = (what, state.rows[person][1]) if place == 0 else (state.rows[person][0], what)
    return state._replace(rows=(*state.rows[:person], row, *state.rows[person + 1 :]))
