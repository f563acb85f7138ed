"""Who would have to collude: the smallest groups of parties that could recover people's answers.

Components 1..K1-1 are independent Gaussians and the last is the row minus their sum, as `shares` makes them.

Statement: a coalition is listed if and only if the rules of `collusion_closure` lead from what its members
hold in one block to the rows, and no smaller part of it does. Assumptions: blocks of n <= p rows; parties
follow the protocol and pool what they saw; masks and rows are erased with the block, so nobody colludes
about it later; any number of devices join in, and everybody knows B_0. That a listed coalition
succeeds is shown by the attacks in `tests/support/trimask_attacks.py`; that an unlisted one fails is shown against
those attacks, not proved.

The report is about the protocol. What the published release says about a person is the differential-privacy
guarantee's matter, also towards a collector joined by many of a block's participants.

One weaker attack is listed separately. A coalition with all components but one, and that one under its right mask,
can align it from the right. That is n (n + 1) / 2 equations for n p unknowns, and shows each answer under
noise of about tau sqrt(2 p / n), which the noise columns put there (2.8 tau at p = 4 n). Such coalitions are
listed as `through_noise`: not a break, not nothing either. Each chain of inferences is told in words, with the papers'
letters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any

from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.rows.collusion_closure import Fact, Step, Trace, best_unmasking, close


def _prefix(low: int, high: int, last: int) -> str:
    """A_high ... A_(low+1), or A when that is all of them."""
    if (low, high) == (0, last):
        return "A"
    return f"A{high}" if high == low + 1 else f"A{high}..A{low + 1}"


def _name(fact: Fact, last: int) -> str:
    mask = f"{_prefix(0, fact.at, last)} " if fact.at else ""
    if fact.kind == "left":
        return _prefix(fact.of, fact.at, last)
    if fact.kind == "mask":
        return f"B{fact.of}"
    if fact.kind == "rows":
        return "the rows"
    core = {"component": f"X^{fact.of}", "masked": f"X^{fact.of} B{fact.of}", "sum": "X B0"}[fact.kind]
    return mask + core


_HOW = {
    "unmask": "",
    "solve": " by a linear solve",
    "align": " by aligning sums",
    "compose": "",
    "move": "",
    "remainder": " by subtraction",
    "add": " by addition",
    "correlate": ", which are correlated, by aligning them",
    "rows": " and B0",
}


def in_words(step: Step, parties: Sequence[str], last: int) -> str:
    """One step; `last` is K2."""
    gives = _name(step.gives, last)
    if step.rule == "held":
        return f"{parties[step.party]} has {gives}"
    return f"{gives} from {_list([_name(need, last) for need in step.needs])}{_HOW[step.rule]}"


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


WORDS = {
    "collusion.two": "No party alone, following the protocol, can recover answers, whatever devices help it; some two "
    "together can.",
    "collusion.more": "No {safe} parties together, following the protocol, can recover answers, whatever devices help them.",
}
"""The report's summary; the page's copy is made from it."""

Party = str
COLLECTOR: Party = "collector"


def default_unmasking(right: int, left: int) -> tuple[Party, ...]:
    """The next right provider round a ring of all but the last; the last left provider for the last component.

    The last component is the row minus all the others, so it is correlated with each of them, and a right provider
    that had it at one end of the chain and another at the other end could estimate A (rule `correlate`): a whole ring
    falls to the collector with R_1 or R_K1. This one withstands every pair from four right providers on, if there
    are two left providers. Of three or two, rings of the rest are too short; each then unmasks its own.
    """
    if right < 3:
        return tuple(f"R{k}" for k in range(1, right + 1))
    if right == 3:
        return ("R1", "R2", f"L{left}")
    return (*(f"R{k % (right - 1) + 1}" for k in range(1, right)), f"L{left}")


def key_holders(unmasking: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Which right providers hold a key of each component (1..K1); empty where a study has no tags."""
    right = range(1, len(unmasking) + 1)
    own = {f"R{k}": k for k in right}
    if any(own.get(role) == k for k, role in zip(right, unmasking, strict=True)):
        return ()
    return tuple(
        (own[role],) if role in own else tuple(j for j in right if j != k)[:2]
        for k, role in zip(right, unmasking, strict=True)
    )


@dataclass(frozen=True)
class Topology:
    """K1 right and K2 left providers, and who unmasks each component.

    `unmasking[k-1]` is U_k: any "R1".., "L1".. or "collector".
    """

    right: int
    left: int
    unmasking: tuple[Party, ...]

    def __post_init__(self) -> None:
        for name, count in (("right", self.right), ("left", self.left)):
            if count < 1:
                raise ParameterError(name, "at least 1", count)
        if len(self.unmasking) != self.right or not set(self.unmasking) <= set(self.parties):
            raise ParameterError("unmasking", f"{self.right} of {', '.join(self.parties)}", self.unmasking)

    @property
    def parties(self) -> tuple[Party, ...]:
        """Everybody who could collude, devices apart: R1.., L1.., collector."""
        right = (f"R{k}" for k in range(1, self.right + 1))
        left = (f"L{j}" for j in range(1, self.left + 1))
        return (*right, *left, COLLECTOR)

    @property
    def tagged(self) -> bool:
        """Whether components have tags, so that a right provider that alters one is found out."""
        return bool(key_holders(self.unmasking))

    @property
    def unmasking_index(self) -> tuple[int, ...]:
        """U_k by position in `parties`."""
        return tuple(self.parties.index(node) for node in self.unmasking)


@dataclass(frozen=True)
class Coalition:
    """Parties that together reach the rows, and no fewer of them do.

    `exact`: the rows themselves; otherwise estimates of them, far beyond chance. `needs_device`: a device, or
    anyone else who knows B_0, must join; the collector and right providers know it themselves.
    `steps` is the chain of rules, each with what it needs before it.
    """

    parties: tuple[Party, ...]
    exact: bool
    needs_device: bool
    steps: tuple[Step, ...] = field(repr=False)
    topology: Topology = field(repr=False)

    @property
    def chain(self) -> tuple[str, ...]:
        """The chain in words."""
        return tuple(in_words(step, self.topology.parties, self.topology.left) for step in self.steps)

    @property
    def outcome(self) -> str:
        """What they would get."""
        what = "every row" if self.exact else "estimates of every row"
        return f"{what}, if a device helps" if self.needs_device else what

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "parties": list(self.parties),
            "exact": self.exact,
            "needs_device": self.needs_device,
            "chain": list(self.chain),
        }


@dataclass(frozen=True)
class CollusionReport:
    """The minimal breaking coalitions of a topology, and those that see answers through the noise columns."""

    topology: Topology
    coalitions: tuple[Coalition, ...]
    through_noise: tuple[tuple[Party, ...], ...]
    right_mu: float | None = None
    """How far apart two answers of a person are for all right providers together; None without noise, or unknown."""
    stored_mu: float | None = None
    """The same for X B0 of at most `stored_rows` people, without B0."""
    stored_rows: int = 0

    @property
    def single_breakers(self) -> tuple[Party, ...]:
        """Parties that break the study alone; such a study is refused."""
        return tuple(c.parties[0] for c in self.coalitions if len(c.parties) == 1)

    @property
    def largest_safe(self) -> int:
        """Any this many parties together, with any devices, recover nothing."""
        return min(len(c.parties) for c in self.coalitions) - 1

    @property
    def summary(self) -> str:
        """`largest_safe` as a sentence."""
        if self.largest_safe == 0:
            return f"NOT SAFE: {', '.join(self.single_breakers)} alone could recover answers."
        if self.largest_safe == 1:
            return WORDS["collusion.two"]
        return WORDS["collusion.more"].format(safe=self.largest_safe)

    @property
    def altering(self) -> str:
        """What the report says of one party that does not follow the protocol (docs/theory/collection.md#one-changed)."""
        if self.topology.tagged:
            return (
                "One right provider that alters a component by more than a thousandth of a row is found out by its "
                "device's tags before anything is masked. "
                "One unmasking node or left provider that alters what it passes on gets no more published than the "
                "collector sees."
            )
        return (
            "Components have no tags here, because some right provider removes its own mask: one that alters a component is "
            "not found out. Have at least 4 right providers."
        )

    @property
    def right_providers_alone(self) -> str:
        """What all right providers have together."""
        words = (
            "All right providers together add up to X B0, and they know B0, with which they check every row: "
            "that is every row, with its noise, even if no device talks."
        )
        if self.right_mu is not None:
            words += (
                f" The noise in it is all that hides it from them: mu = {self.right_mu:.3g}, so they tell which of two "
                f"answers was given with a chance of up to {guess_words(self.right_mu)}."
            )
        if self.stored_mu is not None:
            words += (
                f" Whoever had X B0 of at most {self.stored_rows:,} people, not B0 and nobody's help who takes part, is up "
                f"against the noise columns: mu = {self.stored_mu:.2g}, a chance of up to {guess_words(self.stored_mu)}."
            )
        return words

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        topology = self.topology
        return {
            "right": topology.right,
            "left": topology.left,
            "unmasking": list(topology.unmasking),
            "largest_safe": self.largest_safe,
            "single_breakers": list(self.single_breakers),
            "coalitions": [coalition.to_dict() for coalition in self.coalitions],
            "through_noise": [list(parties) for parties in self.through_noise],
            "summary": self.summary,
            "altering": self.altering,
            "right_providers_alone": self.right_providers_alone,
            "right_mu": self.right_mu,
            "stored_mu": self.stored_mu,
            "stored_rows": self.stored_rows,
        }

    def text(self) -> str:
        """The report as plain text, narrow enough for a phone held sideways."""
        who = [" + ".join(c.parties) for c in self.coalitions]
        width = max(len("who would have to collude"), *map(len, who))
        lines = [self.summary, "", f"{'who would have to collude':<{width}}  what they would get"]
        for parties, coalition in zip(who, self.coalitions, strict=True):
            lines.append(f"{parties:<{width}}  {coalition.outcome}")
        if self.through_noise:
            groups = ", ".join(" + ".join(parties) for parties in self.through_noise)
            lines += ["", f"Only through the noise columns, so not counted as a break: {groups}."]
        return "\n".join([*lines, "", self.right_providers_alone, "", self.altering])


def guess_words(mu: float) -> str:
    """The chance to tell two equally likely answers apart that are mu apart, in whole percent, rounded up."""
    return f"{math.ceil(50 * (1 + math.erf(mu / math.sqrt(8))))} %"


def minimal_coalitions(topology: Topology) -> tuple[Coalition, ...]:
    """Every breaking coalition no part of which breaks, smallest first."""
    return tuple(_explain(topology, members) for members in _minimal(topology, through_noise=False))


def report(topology: Topology) -> CollusionReport:
    """The report a study carries."""
    coalitions = minimal_coalitions(topology)
    breaking = [set(c.parties) for c in coalitions]
    noisy = (_names(topology, members) for members in _minimal(topology, through_noise=True))
    through_noise = tuple(names for names in noisy if not any(group <= set(names) for group in breaking))
    return CollusionReport(topology, coalitions, through_noise)


def refuse_single_breaker(topology: Topology) -> None:
    """Refuse a topology that one party alone breaks."""
    count = len(topology.parties)
    alone = [
        name
        for i, name in enumerate(topology.parties)
        if close(topology.right, topology.left, topology.unmasking_index, 1 << i)[0]
    ]
    if alone:
        better = ", ".join(default_unmasking(topology.right, topology.left))
        advice = f"name other unmasking nodes, for instance {better}" if topology.right > 1 else "add others"
        raise ImpossibleStudy(
            "single_breaker",
            f"each of {', '.join(alone)} alone, of {count} parties, could recover answers; {advice}",
        )


def suggest(right: int, left: int, candidates: Sequence[Party] | None = None) -> Topology:
    """The unmasking nodes for which the fewest single parties, then pairs, then triples break the study.

    `candidates` are the parties that may unmask (all of them by default); the default assignment is
    kept if nothing is strictly better.
    """
    start = Topology(right, left, default_unmasking(right, left))
    allowed = None
    if candidates is not None:
        start = Topology(right, left, tuple(candidates[k % len(candidates)] for k in range(right)))
        allowed = [start.parties.index(name) for name in candidates]
    found = best_unmasking(right, left, start.unmasking_index, allowed)
    return Topology(right, left, tuple(start.parties[node] for node in found))


@lru_cache(maxsize=64)
def _minimal(topology: Topology, *, through_noise: bool) -> tuple[int, ...]:
    nodes = topology.unmasking_index
    found: list[int] = []
    count = len(topology.parties)
    for size in range(1, count + 1):
        for group in combinations(range(count), size):
            members = sum(1 << party for party in group)
            if any(smaller & members == smaller for smaller in found):
                continue
            if close(topology.right, topology.left, nodes, members)[through_noise]:
                found.append(members)
    return tuple(found)


def _names(topology: Topology, members: int) -> tuple[Party, ...]:
    return tuple(name for i, name in enumerate(topology.parties) if members >> i & 1)


def _explain(topology: Topology, members: int) -> Coalition:
    trace: Trace = {}
    nodes = topology.unmasking_index
    exact = close(topology.right, topology.left, nodes, members, align=False, trace=trace)[0]
    if not exact:
        trace.clear()
        close(topology.right, topology.left, nodes, members, trace=trace)
    parties = _names(topology, members)
    needs_device = not any(party == COLLECTOR or party.startswith("R") for party in parties)
    return Coalition(parties, exact, needs_device, _used(trace), topology)


def _used(trace: Trace) -> tuple[Step, ...]:
    """The steps the rows rest on, each after what it needs."""
    steps: dict[Fact, Step] = {}

    def visit(fact: Fact) -> None:
        if fact not in steps:
            step = trace[fact]
            for need in step.needs:
                visit(need)
            steps[fact] = step

    visit(Fact("rows"))
    return tuple(steps.values())
