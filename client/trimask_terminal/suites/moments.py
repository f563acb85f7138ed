"""The moments suite when a study is shown: the ball, honest providers, what a report holds."""

from __future__ import annotations

from typing import Any

from trimask_core.moments.collusion import MomentsCollusion
from trimask_core.study.definition import Study
from trimask_terminal.suites.promises import budget_words, pair_words


def summary(study: Study) -> dict[str, Any]:
    """Its settings, JSON-ready."""
    moments = study.moments
    return {
        "honest_providers": moments.honest_providers,
        "ball_norm": moments.ball_norm,
        "several_releases": moments.several_releases,
        "bits": moments.layout.bits,
        "elements": moments.layout.elements,
    }


def promises(study: Study) -> list[str]:
    """What the study promises, a sentence each."""
    protection, noise = study.protection, _noise_sentence(study)
    if protection.budget is not None:
        return [
            (
                "Nothing is published by itself. The right providers keep sums of squares and products in shares, so that "
                f"nobody holds one, and give private answers until {budget_words(protection.budget)} is spent."
            ),
            noise.replace("The release is", "Answers are"),
        ]
    if not protection.sigma:
        return [
            (
                "NO DIFFERENTIAL PRIVACY: no noise is added. No answer is seen, but a release shows every sum of squares "
                "and products exactly, from which single people may be found out."
            )
        ]
    return [
        f"A release holds {study.release_rows:,} people at least, and promises {pair_words(protection.public)}.",
        f"That is towards everybody, the collector and other providers among them. {noise}",
    ]


def duty(study: Study, role: str) -> str:
    """What the node in `role` does."""
    if role == "collector":
        return "Your node names the reports of a batch, adds up what right providers send it, and publishes releases."
    others = len(study.right) - 1
    return (
        f"Your node keeps one share of every report until the other {'one' if others == 1 else others} and it have checked "
        "and added it, then erases it; it adds noise to the totals before they leave. Your approval also commits it to its "
        "secret part of the check."
    )


def facts(study: Study) -> list[tuple[str, str]]:
    """Headings with what there is to say."""
    protection, moments = study.protection, study.moments
    found = []
    if protection.sigma:
        who = f"any {moments.honest_providers} of {len(study.right)} right providers"
        scale = f"sums of products of values scaled to [-1, 1] ({protection.method})"
        found = [
            ("towards everybody", pair_words(protection.public)),
            ("as long as", _noise_sentence(study).removeprefix("The release is private as long as ")),
            ("noise", f"sigma = {protection.sigma:.4g} by {who}, on {scale}"),
        ]
    ball = (
        "the whole box of the questions"
        if moments.ball_norm is None
        else f"devices clip to a ball of norm {moments.ball_norm:.4g}, and prove it"
    )
    layout = moments.layout
    return [
        *found,
        ("a record", f"norm at most {protection.row_norm:.4g}: {ball}"),
        (
            "a report",
            f"{layout.q} columns, {layout.bits} bits and their proof, {layout.elements:,} numbers in shares",
        ),
        (
            "together",
            f"{study.release_rows:,} or more published"
            + (", again and again" if moments.several_releases else ", when the study closes"),
        ),
    ]


def unmasks(_: Study, __: str) -> str:
    """Nobody: nothing is masked."""
    return ""


def _noise_sentence(study: Study) -> str:
    return MomentsCollusion(len(study.right), study.moments.honest_providers).noise_sentence
