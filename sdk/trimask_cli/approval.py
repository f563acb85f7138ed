"""Asking a person whether to approve a study: the same words from a file and at a node."""

from __future__ import annotations

from rich.console import Console

from trimask_cli.study_view import approval_words
from trimask_core.study import Study
from trimask_theory.study_plan import verify_guarantees

__all__ = ["agreed_to"]


def agreed_to(study: Study, role: str, console: Console, *, sure: bool) -> bool:
    """Say in plain words what would be approved, and ask, unless they are `sure` already."""
    # Whoever made the study chose the noise; whoever approves it need not take that on trust.
    verify_guarantees(study)
    for sentence in approval_words(study, role):
        console.print(f"- {sentence}")
    console.print("- What it promises was recomputed on this machine, and holds.")
    return sure or _agreed(f"Approve study {study.id.hex()[:16]} as {role}? [y/N] ")


def _agreed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False
