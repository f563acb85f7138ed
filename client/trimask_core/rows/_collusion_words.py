"""The steps of a chain of inferences in words, with the papers' letters."""

from __future__ import annotations

from collections.abc import Sequence

from trimask_core.rows._collusion_closure import Fact, Step

__all__ = ["in_words"]


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
