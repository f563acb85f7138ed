"""The rows suite (TM2) in words."""

from __future__ import annotations

from trimask_core.rows.collusion import guess_words
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Towards


def way(study: Study, receivers: str) -> str:
    """Masked, and in components."""
    noise = (
        "Noise is added to your answers on this device, then they"
        if study.protection.sigma
        else "Your answers"
    )
    return (
        f"{noise} are masked and split into {len(study.right)} parts, one for each of {receivers}. "
        "A part alone is random numbers. No institution is given your answers, and this device forgets them once they "
        "are sealed."
    )


def promises(study: Study) -> list[Towards]:
    """Towards the public, and towards the collector; the weaker first."""
    found = (
        ("everybody who sees what is published", study.protection.public, study.release_rows),
        (
            "the collector, who sees single blocks",
            study.protection.collector,
            study.rows.block_rows,
        ),
    )
    stated = [
        Towards(f"{who} (at least {rows} people together)", promise)
        for who, promise, rows in found
        if promise is not None
    ]
    return sorted(stated, key=lambda item: -(item.guarantee.epsilon or 0.0))


def honest_people(study: Study) -> list[str]:
    """What is left if some of the others give their noise away: a small table, a line for each who looks."""
    protection = study.protection
    if not protection.by_honest_rows or protection.public is None:
        return []
    delta = "unknown" if protection.public.delta is None else f"{protection.public.delta:.2g}"
    head = (
        "A person is hidden by the noise of the others too. Those of them who work with an attacker can take theirs out "
        f"again. Epsilon, at delta {delta}, if all of the others are honest, half, or none:"
    )
    lines = [head]
    for who, rows in (
        (f"a release of {study.release_rows}", study.release_rows),
        (f"a block of {study.rows.block_rows}, towards the collector", study.rows.block_rows),
    ):
        found = [protection.epsilon_at(honest) for honest in (rows, rows // 2, 1)]
        lines.append(f"- {who}: " + ", ".join("unknown" if e is None else f"{e:.3g}" for e in found))
    return lines


def without_noise(_study: Study) -> str:
    """Exact mode."""
    return (
        "What is published is exact: it shows sums over everybody and no single row, but it carries no "
        "differential-privacy guarantee."
    )


def _together(study: Study) -> str:
    """What hides a person from all right providers together."""
    seen = study.protection.right_providers
    if seen is None or seen.mu is None:
        return ""
    return (
        f" From all {len(study.right)} institutions that get a part, together, your own noise alone would hide you: of two "
        f"answers they could tell yours with a chance of up to {guess_words(seen.mu)}."
    )


def collusion_note(study: Study) -> str:
    """Parties that follow the protocol, what is found out about one that does not, and all right providers together."""
    return _followed(study) + _together(study)


def _followed(study: Study) -> str:
    if study.rows.tag_holders:
        return (
            "This counts on institutions running the agreed program. One whose program was changed to alter the parts of "
            "answers it was given, by more than a trace, is found out before anything is put together; of two or more that "
            "were changed it says nothing."
        )
    return (
        "This counts on every institution running the agreed program. It does not cover one whose program was changed to "
        "alter what it passes on."
    )


def withdrawal(study: Study) -> str:
    """Until the block."""
    return (
        f"You can withdraw with your receipt until your row is put into a block with {study.rows.block_rows - 1} others or "
        "more. From then on it stays in: to take it out again could show which it was."
    )
