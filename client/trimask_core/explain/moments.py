"""The moments suite in words.

What they say of secrecy holds whatever program up to all but one of the right providers run.
"""

from __future__ import annotations

from trimask_core.collusion import moments_collusion
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Towards


def way(study: Study, receivers: str) -> str:
    """Shares of numbers and of a proof."""
    parts = len(study.right)
    fewer = "A part alone is" if parts == 2 else f"Any {parts - 1} of the parts together are"
    return (
        "Your answers become whole numbers with their products and a proof that they are in the study's bounds, on this "
        f"device, and are split into {parts} parts, one for each of {receivers}. {fewer} random numbers. "
        "No institution is given your answers, and this device forgets them once they are sealed."
    )


def promises(study: Study) -> list[Towards]:
    """One, towards everybody: no number smaller than the release is ever opened."""
    public, needed = study.protection.public, study.moments.honest_providers
    if public is None:
        return []
    who = "everybody, the collector and the other right providers included, as long as "
    who += "one right provider adds its noise" if needed == 1 else f"{needed} right providers add their noise"
    return [Towards(f"{who} as agreed, however few people are in a release", public)]


def honest_people(study: Study) -> list[str]:
    """The noise is the providers' and not the people's."""
    if not study.protection.sigma:
        return []
    return [
        "These numbers do not depend on how many of the other people are honest: the providers add the noise."
    ]


def without_noise(_study: Study) -> str:
    """Exact mode. Right providers open no sums of fewer people than the study says; who the others are they cannot know."""
    return (
        "What is published is exact: it shows sums over everybody, without noise, and carries no differential-privacy "
        "guarantee. A collector whose program was changed could bring all the other participants itself, and subtract "
        "them from the sums. Such a study is for trying things out."
    )


def with_budget(study: Study, purses: str) -> str:
    """Nobody holds the sums."""
    return (
        "Nothing is published as it is. The sums stay in parts with the right providers, so that nobody holds them; each "
        f"adds its own noise to every answer to a question, and gives none once {purses} is spent by its own account. "
        f"{_noise(study)}"
    )


def collusion_note(study: Study) -> str:
    """What a changed program can do all the same."""
    changed = "One changed program can leave people out or make the result wrong"
    if not moments_collusion(study).noise:
        return f"{_noise(study)} {changed}."
    return f"{_noise(study)} This holds whatever programs the others run. {changed}; it cannot show anybody's answers."


def withdrawal(_study: Study) -> str:
    """Until the batch."""
    return (
        "You can withdraw with your receipt until your report is put into a batch to be added up, of any size. One right "
        "provider that then erases its part is enough, since the other parts are random numbers without it. From the "
        "batch on your numbers are added into sums, and cannot be taken out again."
    )


def _noise(study: Study) -> str:
    return moments_collusion(study).noise_sentence
