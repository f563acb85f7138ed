"""Asking a person whether to approve a study: the same words from a file and at a node."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from trimask_core.study import Study
from trimask_proto.v1 import governance_pb2
from trimask_terminal.study_view import approval_words

__all__ = ["agreed_to", "decision_word"]

_WORDS = {
    governance_pb2.DECISION_WAITING: "waiting",
    governance_pb2.DECISION_APPROVED: "approved",
    governance_pb2.DECISION_REFUSED: "refused",
}


def decision_word(decision: int) -> str:
    """A decision in a word."""
    return _WORDS.get(governance_pb2.Decision.ValueType(decision), "not reached")


def agreed_to(
    study: Study, role: str, console: Console, *, recompute: Callable[[Study], None], sure: bool
) -> bool:
    """Say in plain words what would be approved, and ask, unless they are `sure` already.

    `recompute` raises if the study's promises do not hold (`trimask_theory.study_plan.verify_guarantees`).
    """
    # The maker of the study chose the noise; those who approve it need not take that on trust.
    recompute(study)
    for sentence in approval_words(study, role):
        console.print(f"- {sentence}")
    console.print("- What it promises was recomputed on this machine, and holds.")
    return sure or _agreed(f"Approve study {study.id.hex()[:16]} as {role}? [y/N] ")


def _agreed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False
