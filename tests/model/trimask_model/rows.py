"""One honest right provider in the draw of blocks (suite `rows`); collector and the other right provider were changed.

The other one lists, judges and holds its coin back as it likes, and the collector asks for any step at any time; only the
owner closes the study or gives a draw up. Blocks have one row here, so a draw of an open study needs two. An order of
the accepted rows is anything at all, but only one: what it is made of must not change once the coin is shown
(`suites/rows/right_draw.py`, `right/rows.py`). A restored store is not in this model: what is left of it is in
docs/theory/collection.md#draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from trimask_model.explorer import Model
from trimask_server.store.held_blocks import HeldState

RULES = {
    ("the lists of a draw stay",): "a coin is shown for two orders",
    ("the verdicts of a draw stay",): "a coin is shown for two orders",
    ("coins are shown for two blocks or more",): "a block is drawn out of too few",
    ("a study closes by its owner's order",): "a block is drawn out of too few",
    ("a draw begins when the one before is settled",): "a second toss",
    ("an abandoned draw is erased",): "a second toss",
    ("a drawn block is never cancelled",): "a second toss",
    ("an erasure takes no row of another block",): "a row is taken out of its block",
    # Two that say the same twice, on purpose: with either the other may go.
    (
        "an erasure takes no row of another block",
        "masking starts with exactly the rows of the plan",
    ): "a block is masked without a row of it",
    ("the owner can give a draw up",): "a study is stuck",
    ("a block can be given up",): "a study is stuck",
}
_NAMES, _DRAWS, _N = "abcd", 2, 1
_OTHERS = "(R2 takes part)"
HERE, FIXED, GONE, WITHDRAWN = "here", "fixed", "gone", "withdrawn"
People = frozenset[str]


class Draw(NamedTuple):
    """A draw at this provider: what it has said, and taken for the draw's for ever."""

    own: People
    closing: bool
    pool: People | None = None  # what follows from the lists
    accepted: People | None = None  # what follows from the verdicts
    over: bool = False


class Block(NamedTuple):
    """A drawn block."""

    people: People
    state: HeldState
    toss: int


class State(NamedTuple):
    """The provider, and what it has let others see."""

    rows: tuple[str | int, ...]  # a person's row: not there, HERE, FIXED, its block, GONE, WITHDRAWN
    closing: bool = False
    ordered: bool = False  # by the owner
    number: int = 0
    draw: Draw | None = None
    blocks: tuple[Block, ...] = ()
    shown: frozenset[tuple[int, People, People, bool]] = frozenset()  # a draw's coin, and for what
    tossed: People = (
        frozenset()
    )  # rows whose order a shown coin has decided, and that no block or erasure has
    masked: frozenset[tuple[int, People]] = frozenset()
    again: bool = False  # such a row came into another draw


def model(people: int, without: tuple[str, ...] = ()) -> Model[State]:
    """The model for so many people, without some rules."""
    provider = _Provider(without)
    # Without both of the two rules the shorter way to the same end is not looked for.
    broken = _broken if len(without) > 1 else lambda state: _broken(state) or _lost(state)
    return Model(
        State(("",) * people), provider.events, broken, _over, lambda event: not event.endswith(_OTHERS)
    )


def _broken(state: State) -> str | None:
    if len({number for number, *_ in state.shown}) < len(state.shown):
        return "a coin is shown for two orders"
    if any(len(accepted) < (_N if closing else 2 * _N) for _, _, accepted, closing in state.shown):
        return "a block is drawn out of too few"
    if any(closing for *_, closing in state.shown) and not state.ordered:
        return "a block is drawn out of too few"
    if state.again:
        return "a second toss"
    if any(people != state.blocks[place].people for place, people in state.masked):
        return "a block is masked without a row of it"
    return None


def _lost(state: State) -> str | None:
    for place, block in enumerate(state.blocks):
        there = frozenset(name for name in block.people if state.rows[_NAMES.index(name)] == place)
        if block.state in (HeldState.BOUND, HeldState.STARTED) and there != block.people:
            return "a row is taken out of its block"
    return None


def _over(state: State) -> bool:
    """No draw is under way and no block waits."""
    ended = (HeldState.ERASED, HeldState.CANCELLED)
    return (state.draw is None or state.draw.over) and all(block.state in ended for block in state.blocks)


def _subsets(people: People) -> Iterator[People]:
    for size in range(len(people) + 1):
        yield from map(frozenset, combinations(sorted(people), size))


def _set(state: State, people: People, row: str | int) -> State:
    rows = tuple(row if name in people else old for name, old in zip(_NAMES, state.rows, strict=False))
    return state._replace(rows=rows)


def _named(people: People) -> str:
    return "+".join(sorted(people)) or "nobody"


class _Provider:
    """What the honest provider answers to each thing that can be asked."""

    def __init__(self, without: tuple[str, ...]) -> None:
        known = {rule for rules in RULES for rule in rules}
        if unknown := set(without) - known:
            raise ValueError(str(unknown))
        self._known, self._without = known, without

    def _keeps(self, rule: str) -> bool:
        if rule not in self._known:
            raise ValueError(rule)
        return rule not in self._without

    def events(self, state: State) -> Iterator[tuple[str, State]]:
        for name, row in zip(_NAMES, state.rows, strict=False):
            if row == "" and not state.closing:
                yield f"{name} submits", _set(state, frozenset(name), HERE)
            if row == HERE:
                yield f"{name} withdraws", _set(state, frozenset(name), WITHDRAWN)
        if not state.closing:
            yield "the owner closes", state._replace(closing=True, ordered=True)
            if not self._keeps("a study closes by its owner's order"):
                yield "the collector closes", state._replace(closing=True)
        yield from self._frozen(state)
        if state.draw is not None:
            yield from self._drawn(state, state.draw)
        yield from self._worked(state)

    def _frozen(self, state: State) -> Iterator[tuple[str, State]]:
        unbound = any(block.state is HeldState.UNBOUND for block in state.blocks)
        waits = (state.draw is not None and not state.draw.over) or unbound
        if state.number == _DRAWS or (waits and self._keeps("a draw begins when the one before is settled")):
            return
        free = (HERE, FIXED) if waits else (HERE,)
        own = frozenset(name for name, row in zip(_NAMES, state.rows, strict=False) if row in free)
        if not own:
            return  # nothing follows from an empty list
        after = _set(state, own, FIXED)._replace(
            number=state.number + 1,
            draw=Draw(own, state.closing),
            again=state.again or bool(own & state.tossed),
        )
        yield f"draw {after.number} fixes {_named(own)}", after

    def _drawn(self, state: State, draw: Draw) -> Iterator[tuple[str, State]]:
        number = state.number
        if draw.over:
            return
        if self._keeps("the owner can give a draw up"):
            fixed = frozenset(n for n, row in zip(_NAMES, state.rows, strict=False) if row == FIXED)
            erases = self._keeps("an abandoned draw is erased")
            after = _set(state, fixed, GONE if erases else HERE)._replace(draw=draw._replace(over=True))
            if erases:
                after = after._replace(tossed=after.tossed - fixed)
            yield f"the owner abandons draw {number}", after
        for pool in _subsets(draw.own):
            if draw.pool is None or not self._keeps("the lists of a draw stay"):
                after = _set(state, draw.own - pool, HERE)._replace(
                    draw=draw._replace(pool=pool, accepted=None)
                )
                yield f"lists of draw {number}: {_named(pool)} {_OTHERS}", after
        if draw.pool is None:
            return
        for accepted in _subsets(draw.pool):
            if draw.accepted is None or (
                accepted != draw.accepted and not self._keeps("the verdicts of a draw stay")
            ):
                yield (
                    f"verdicts of draw {number}: {_named(accepted)} {_OTHERS}",
                    self._opened(state, draw._replace(accepted=accepted)),
                )
        if draw.accepted is not None:
            yield from self._settled(state, draw, draw.accepted)

    def _opened(self, state: State, draw: Draw) -> State:
        """Verdicts of all are taken for the draw's; with rows enough the coin is shown, else the rows go back."""
        accepted, pool = draw.accepted or frozenset(), draw.pool or frozenset()
        least = _N if draw.closing else 2 * _N
        if len(accepted) < least and (self._keeps("coins are shown for two blocks or more") or not accepted):
            return _set(state, pool, HERE)._replace(draw=draw._replace(over=True))
        return state._replace(
            draw=draw,
            shown=state.shown | {(state.number, pool, accepted, draw.closing)},
            tossed=state.tossed | accepted,
        )

    def _settled(self, state: State, draw: Draw, accepted: People) -> Iterator[tuple[str, State]]:
        """Coins of all are there. What the order is nobody chose: here it may be any."""
        count = len(accepted) // _N - (0 if draw.closing else 1)
        for drawn in map(frozenset, combinations(sorted(accepted), count * _N)):
            after = _set(state, (draw.pool or frozenset()) - drawn, HERE)
            blocks = list(state.blocks)
            for name in sorted(drawn):
                after = _set(after, frozenset(name), FIXED)
                blocks.append(Block(frozenset(name), HeldState.UNBOUND, state.number))
            yield (
                f"draw {state.number} has blocks of {_named(drawn)} {_OTHERS}",
                after._replace(
                    draw=draw._replace(over=True),
                    blocks=tuple(blocks),
                    tossed=after.tossed - (accepted - drawn),
                ),
            )

    def _worked(self, state: State) -> Iterator[tuple[str, State]]:
        for place, block in enumerate(state.blocks):
            people, name = block.people, f"block {_named(block.people)}"
            fixed = all(state.rows[_NAMES.index(person)] == FIXED for person in people)
            if block.state is HeldState.UNBOUND and fixed:
                yield f"{name} is bound", _moved(_set(state, people, place), place, HeldState.BOUND)
            if block.state is HeldState.BOUND:
                there = frozenset(p for p in people if state.rows[_NAMES.index(p)] == place)
                if there == people or not self._keeps("masking starts with exactly the rows of the plan"):
                    started = state._replace(masked=state.masked | {(place, there)})
                    yield f"{name} is masked", _moved(started, place, HeldState.STARTED)
                if not self._keeps("a drawn block is never cancelled"):
                    back = _set(state, people, HERE)
                    yield f"{name} is cancelled", _moved(back, place, HeldState.CANCELLED)
            if block.state.value in HeldState.ERASED.before and self._keeps("a block can be given up"):
                own = frozenset(p for p in people if state.rows[_NAMES.index(p)] in (place, FIXED))
                gone = _set(state, own, GONE)._replace(tossed=state.tossed - people)
                yield f"{name} is erased", _moved(gone, place, HeldState.ERASED)
        if not self._keeps("an erasure takes no row of another block"):
            for name, row in zip(_NAMES, state.rows, strict=False):
                if isinstance(row, int):
                    yield f"a block nobody knows is erased, with {name}", _set(state, frozenset(name), GONE)


def _moved(state: State, place: int, to: HeldState) -> State:
    block = state.blocks[place]._replace(state=to)
    return state._replace(blocks=(*state.blocks[:place], block, *state.blocks[place + 1 :]))
