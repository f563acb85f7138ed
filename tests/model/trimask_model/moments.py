"""One honest right provider of a moments study; collector and the other right provider are programs somebody changed.

What the honest one does is written here as the product does it (`right/rows.py`, `suites/moments/`), a transaction a step;
whether a delivery is admitted is asked of the product's own `_admit` and ledger head. Everybody else may ask for
anything at any time: any plan, check, verdict, erasure and delivery of these people, batches and releases. The operator
backs the store up once, and restores it once, with the ledger of deliveries or without it.

Each name in `RULES` is something the product does for a reason. Taken out, a property breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_model.explorer import Model
from trimask_server.store.held_blocks import HeldState
from trimask_server.suites.moments.batch_store import LedgerHead, LockedLedger
from trimask_server.suites.moments.deliveries import _admit

RULES = {
    "a contribution to the challenge is the one committed to": "answers under two challenges",
    "rows of a batch are in no other": "a person is in two releases",
    "reports added up are erased": "a person is in two releases",
    "the ledger is forced to disk before anything is sent": "a person is in two releases",
    "a release has what no other release has": "two answers of one release",
    "a repeat is the same bytes or nothing": "two answers of one release",
    "a store older than the ledger releases nothing new": "a person is in two releases",
    "a restored store without its ledger delivers nothing": "a person is in two releases",
    "noise is a function of the secret and of what is asked": "two answers of one release",
    "a block that failed is erased on the collector's word": "a study is stuck",
}
BATCHES, RELEASES = (1, 2), (1, 2)
HERE = ("here",)
_NAMES = "abc"
_BY_BOTH = "(R2 signs)"
Batch = tuple[HeldState, frozenset[str]]
Delivered = tuple[int, tuple[tuple[int, frozenset[str]], ...], int]  # release, (batch, accepted), which noise


class Entry(NamedTuple):
    """A line of the ledger of deliveries."""

    release: int
    batches: tuple[int, ...]
    accepted: tuple[frozenset[str], ...]


class Store(NamedTuple):
    """What is in the database, and in its backup."""

    rows: tuple[tuple[Any, ...], ...]  # a person's report: () not there, HERE, (batch,), ("gone",)
    held: tuple[Batch | None, ...]
    decided: tuple[tuple[str, frozenset[str], int | None] | None, ...]  # state, accepted, release
    head: int  # how many lines the ledger had when this store last saw it


class State(NamedTuple):
    """The provider, and what it has let others see."""

    store: Store
    ledger: tuple[Entry, ...] = ()
    backup: Store | None = None
    restored: str = ""  # "kept" or "lost" ledger
    contribution: int | None = None  # the other's, as it is known since the start of this process
    sending: Entry | None = None  # written down; the store does not know yet
    answered: frozenset[tuple[str, int]] = frozenset()  # (person, challenge)
    delivered: frozenset[Delivered] = frozenset()


def model(people: int, without: str | None = None, *, there: bool = False) -> Model[State]:
    """The model for so many people, who may be there already, without one rule."""
    provider = _Provider(without)
    rows = ((HERE if there else ()),) * people
    first = State(Store(rows, (None,) * len(BATCHES), (None,) * len(BATCHES), 0))
    return Model(first, provider.events, _broken, _over, lambda event: not event.endswith(_BY_BOTH))


def _broken(state: State) -> str | None:
    asked = dict(state.answered)
    if len(asked) < len(state.answered):
        return "answers under two challenges"
    first: dict[int, Delivered] = {}
    for delivery in sorted(state.delivered, key=repr):
        if first.setdefault(delivery[0], delivery) != delivery:
            return "two answers of one release"
    people = [
        sorted(chain.from_iterable(accepted for _, accepted in found)) for _, found, _ in first.values()
    ]
    together = list(chain.from_iterable(people))
    return "a person is in two releases" if len(set(together)) < len(together) else None


def _over(state: State) -> bool:
    """Nothing waits here: no row is in a batch that is neither added up nor given up."""
    open_blocks = (HeldState.UNBOUND, HeldState.BOUND, HeldState.STARTED)
    return not any(batch is not None and batch[0] in open_blocks for batch in state.store.held)


def _subsets(people: frozenset[str]) -> Iterator[frozenset[str]]:
    return map(
        frozenset, chain.from_iterable(combinations(sorted(people), size) for size in range(len(people) + 1))
    )


def _put(items: tuple[Any, ...], place: int, item: object) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


class _Provider:
    """What the honest provider answers to each thing that can be asked."""

    def __init__(self, without: str | None) -> None:
        if without is not None and without not in RULES:
            raise ValueError(without)
        self._without = without
        self._erases = self._keeps("a block that failed is erased on the collector's word")

    def _keeps(self, rule: str) -> bool:
        if rule not in RULES:
            raise ValueError(rule)
        return rule != self._without

    def events(self, state: State) -> Iterator[tuple[str, State]]:
        store = state.store
        for place, row in enumerate(store.rows):
            if not row:
                yield f"{_NAMES[place]} submits", state._replace(store=_row(store, place, HERE))
        for place, batch in enumerate(BATCHES):
            yield from self._planned(state, place, batch)
            yield from self._checked(state, place, batch)
        for release in RELEASES:
            for batches in ((1,), (2,), (1, 2)):
                yield from self._asked(state, release, batches)
        if state.sending is not None:
            yield from self._sent(state, state.sending)
            yield "the process ends", state._replace(sending=None, contribution=None)
        if state.contribution is not None:
            yield "the process ends", state._replace(sending=None, contribution=None)
        if state.backup is None:
            yield "backup", state._replace(backup=store)
        elif not state.restored:
            again = state._replace(store=state.backup, sending=None, contribution=None)
            yield "restore", again._replace(restored="kept")
            yield "restore, ledger lost", again._replace(restored="lost", ledger=())

    # Plans

    def _planned(self, state: State, place: int, batch: int) -> Iterator[tuple[str, State]]:
        store, held = state.store, state.store.held[place]
        for people in _subsets(frozenset(_NAMES[: len(store.rows)])):
            if not people:
                continue
            named = f"batch {batch} of {'+'.join(sorted(people))}"
            rows = [store.rows[_NAMES.index(person)] for person in sorted(people)]
            free = all(
                row == HERE
                or (not self._keeps("rows of a batch are in no other") and row and row != ("gone",))
                for row in rows
            )
            if held is None and free:
                bound = _rows(store, people, (batch,))
                yield f"plan {named}", state._replace(store=_held(bound, place, HeldState.BOUND, people))
            elsewhere = any(row and row not in (HERE, ("gone",)) for row in rows)
            if held is None and self._erases and not elsewhere:
                gone = _rows(store, people, ("gone",))
                yield f"erase {named}", state._replace(store=_held(gone, place, HeldState.ERASED, people))
        if held is None:
            never = _held(store, place, HeldState.CANCELLED, frozenset())
            yield f"cancel batch {batch}", state._replace(store=never)
        elif held[0].value in HeldState.CANCELLED.before:
            back = _held(_rows(store, held[1], HERE), place, HeldState.CANCELLED, frozenset())
            yield f"cancel batch {batch}", state._replace(store=back)
        if held is not None and held[0].value in HeldState.ERASED.before and self._erases:
            yield f"erase batch {batch}", state._replace(store=_erased(store, place))

    # Checks

    def _checked(self, state: State, place: int, batch: int) -> Iterator[tuple[str, State]]:
        store, held, decided = state.store, state.store.held[place], state.store.decided[place]
        if held is not None and held[0] in (HeldState.BOUND, HeldState.STARTED):
            for contribution in (0, 1):  # 0 is the one that was committed to
                known = state.contribution
                if contribution and self._keeps("a contribution to the challenge is the one committed to"):
                    continue
                if known is not None and known != contribution:
                    continue
                yield (
                    f"batch {batch} is opened under challenge {contribution}",
                    state._replace(
                        store=_held(store, place, HeldState.STARTED, held[1]),
                        contribution=contribution,
                        answered=state.answered | {(person, contribution) for person in held[1]},
                    ),
                )
            if held[0] is HeldState.STARTED:
                for accepted in _subsets(held[1]):  # what the other says decides
                    if decided is None:  # the first stays
                        found = _put(store.decided, place, ("decided", accepted, None))
                        said = "+".join(sorted(accepted)) or "nobody"
                        yield (
                            f"batch {batch} decided: {said}",
                            state._replace(store=store._replace(decided=found)),
                        )
        if decided is not None and decided[0] == "decided":
            added = store._replace(decided=_put(store.decided, place, ("added", *decided[1:])))
            if self._keeps("reports added up are erased"):
                added = _erased(added, place)
            elif held is not None:  # as if it were an erasure, and the rows could be planned again
                added = _held(_rows(added, held[1], HERE), place, HeldState.ERASED, held[1])
            yield f"batch {batch} added up {_BY_BOTH}", state._replace(store=added)
            void = store._replace(decided=_put(store.decided, place, ("disagreed", *decided[1:])))
            yield f"batch {batch} void {_BY_BOTH}", state._replace(store=_erased(void, place))

    # Deliveries

    def _asked(self, state: State, release: int, batches: tuple[int, ...]) -> Iterator[tuple[str, State]]:
        entry = self._fixed(state, release, batches)
        if entry is None or state.sending is not None:
            return
        try:
            place = self._place(state, entry)
        except Refused:
            return
        said = f"release {release} of {'+'.join(map(str, batches))}"
        if not self._keeps("the ledger is forced to disk before anything is sent"):
            # It is sent, and the line would be on disk a little later: the process ends in between.
            yield f"{said} is sent, and the process ends", self._seen(state, entry)
            return
        ledger = state.ledger if place < len(state.ledger) else (*state.ledger, entry)
        yield f"{said} is written down", state._replace(ledger=ledger, sending=entry)

    def _fixed(self, state: State, release: int, batches: tuple[int, ...]) -> Entry | None:
        found = [state.store.decided[BATCHES.index(batch)] for batch in batches]
        accepted = []
        for batch in found:
            if batch is None or batch[0] != "added" or batch[2] not in (None, release):
                return None
            accepted.append(batch[1])
        return Entry(release, batches, tuple(accepted)) if any(accepted) else None

    def _place(self, state: State, entry: Entry) -> int:
        """The product's own answer, but for the rule that is left out."""
        if state.restored == "lost" and self._keeps("a restored store without its ledger delivers nothing"):
            raise Refused(Reason.LEDGER_LOST, "restored without its ledger")
        lines = [_line(old) for old in state.ledger]
        ledger = cast("LockedLedger", SimpleNamespace(entries=lines))
        study = cast("Study", SimpleNamespace(protection=SimpleNamespace(budget=None)))
        head = LedgerHead(state.store.head, b"")
        try:
            return _admit(study, ledger, _line(entry), head)
        except Refused as refusal:
            repeated = any(
                old.release == entry.release and old.batches == entry.batches for old in state.ledger
            )
            rule = {
                (Reason.BATCH_RELEASED, False): "a release has what no other release has",
                (Reason.STORE_RESTORED, True): "a repeat is the same bytes or nothing",
                (Reason.STORE_RESTORED, False): "a store older than the ledger releases nothing new",
            }[refusal.reason, repeated]
            if self._keeps(rule):
                raise
        if repeated:
            return [_line(old)["asked"] for old in state.ledger].index(_line(entry)["asked"])
        return len(state.ledger)

    def _sent(self, state: State, entry: Entry) -> Iterator[tuple[str, State]]:
        store = state.store
        for batch in entry.batches:
            place = BATCHES.index(batch)
            decided = store.decided[place]
            if decided is None or decided[2] not in (None, entry.release):
                return
            found = _put(store.decided, place, (*decided[:2], entry.release))
            store = store._replace(decided=found)
        place = [(old.release, old.batches) for old in state.ledger].index((entry.release, entry.batches))
        store = store._replace(head=max(store.head, place + 1) if place == store.head else store.head)
        yield f"release {entry.release} is sent", self._seen(state._replace(store=store, sending=None), entry)

    def _seen(self, state: State, entry: Entry) -> State:
        fresh = not self._keeps("noise is a function of the secret and of what is asked")
        noise = min(len(state.delivered), 1) if fresh else 0
        content = tuple(zip(entry.batches, entry.accepted, strict=True))
        return state._replace(delivered=state.delivered | {(entry.release, content, noise)})


def _line(entry: Entry) -> dict[str, Any]:
    return {
        "asked": f"{entry.release} {entry.batches}",
        "release": entry.release,
        "batches": [str(batch) for batch in entry.batches],
        "price": None,
        "accepted": str(list(map(sorted, entry.accepted))),
        "values": "",  # a function of the two above, and of the secret
        "seen": "",
    }


def _row(store: Store, place: int, row: tuple[Any, ...]) -> Store:
    return store._replace(rows=_put(store.rows, place, row))


def _rows(store: Store, people: frozenset[str], row: tuple[Any, ...]) -> Store:
    for person in people:
        store = _row(store, _NAMES.index(person), row)
    return store


def _held(store: Store, place: int, state: HeldState, people: frozenset[str]) -> Store:
    return store._replace(held=_put(store.held, place, (state, people)))


def _erased(store: Store, place: int) -> Store:
    held = store.held[place]
    if held is None or held[0] is HeldState.ERASED:
        return store
    own = frozenset(p for p in held[1] if store.rows[_NAMES.index(p)] == (BATCHES[place],))
    return _held(_rows(store, own, ("gone",)), place, HeldState.ERASED, held[1])
