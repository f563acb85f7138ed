"""A study in words: who asks, what for, what is promised, and who would have to collude to break it."""

from __future__ import annotations

from collections.abc import Sequence

from trimask_core.basics.errors import StudyError
from trimask_core.collusion import collusion_of
from trimask_core.explain.moments import with_budget
from trimask_core.explain.suite import words_of
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Guarantee, factor_words
from trimask_core.study.schema import Attribute
from trimask_core.study.verify_guarantee import check_claims
from trimask_core.study.weaknesses import weaknesses
from trimask_core.submit.institutions import Standing


def check_study_id(study: Study, wanted: bytes | str) -> None:
    """Raise `StudyError` unless this is the study with the id `wanted` (bytes or hexadecimal digits)."""
    text = wanted.hex() if isinstance(wanted, bytes) else wanted.strip().lower()
    if study.id.hex() != text:
        raise StudyError(
            f"this is not the study of the invitation: its id begins {study.id.hex()[:12]}, the invitation's "
            f"{text[:12]}. Take no part, and ask who invited you."
        )


def explain_study(study: Study, *, checked: bool = False, parties: Sequence[Standing] = ()) -> str:
    """Plain text, a paragraph a subject.

    `checked`: it also says what of its promise a device cannot work out; `parties`: and which institutions it knows.
    """
    parts = [
        f"{study.title}\n{study.purpose}",
        f"Asked by {_who(study, 'collector')}. Contact: {study.contact}.",
        "You are asked for: "
        + "; ".join(_question(attribute) for attribute in study.schema.attributes)
        + ".",
        *_known(parties),
        words_of(study).way(study, _receivers(study)),
        _promise(study, checked=checked),
        *_weak(study),
        _collusion(study),
        *_weights(study),
        *_reminders(study),
        words_of(study).withdrawal(study),
        f"Study id: {study.id.hex()}. Compare it with the one in your invitation.",
    ]
    return "\n\n".join(parts)


def _who(study: Study, role: str) -> str:
    party = study.party(role)
    return f"{party.organisation} ({role})" if party.organisation else role


def _known(parties: Sequence[Standing]) -> list[str]:
    """Who is in a directory of this device, under which name, and who is not."""
    if not parties:
        return []
    lines = [
        f"{item.organisation} ({item.role}) is known to this device as {item.known_as}, by {item.keeper}."
        for item in parties
        if item.known_as is not None
    ]
    unknown = [f"{item.organisation} ({item.role})" for item in parties if item.known_as is None]
    if unknown:
        lines.append(
            f"Not known to this device: {', '.join(unknown)}. They have signed this study, but nobody this device trusts "
            "says who they are; whoever made the study may have made them up. Ask who invited you if in doubt."
        )
    return ["\n".join(lines)]


def _reminders(study: Study) -> list[str]:
    """Whether the person who invited can see who answered."""
    if not study.reminders:
        return []
    told = "Who is behind this study is told which invitations were used, so as to remind the others: whoever sent you "
    return [told + "yours can see that you answered, not what."]


def _weights(study: Study) -> list[str]:
    """Whether some count more than others."""
    if study.weight is None:
        return []
    asked, times = study.weight.asked(study.schema), study.weight.times(study.schema)
    told = f"Answers do not all count the same: one person's may count up to {times} times as much as another's, by the "
    return [told + f"answer to “{asked.label or asked.name}”."]


def _question(attribute: Attribute) -> str:
    name = attribute.label or attribute.name
    if attribute.kind == "categorical":
        return f"{name} ({', '.join(attribute.levels)})"
    if attribute.kind == "binary":
        return f"{name} (yes or no)"
    low, high = attribute.bounds
    return f"{name} ({low:g} to {high:g}{' ' + attribute.unit if attribute.unit else ''})"


def _receivers(study: Study) -> str:
    return ", ".join(_who(study, f"R{k}") for k in range(1, len(study.right) + 1))


def _promise(study: Study, *, checked: bool) -> str:
    protection, words = study.protection, words_of(study)
    if protection.budget is not None:
        return with_budget(study, _purses(protection.budget))
    if not protection.sigma:
        return (
            f"{words.without_noise(study)} Somebody who knows everybody else's answers could work yours out."
        )
    lines = [f"Towards {who}: {_guarantee(promise)}" for who, promise in words.promises(study)]
    lines += [f"This device could not check that: {what}." for what in check_claims(study)] if checked else []
    return "\n".join([*lines, *words.honest_people(study)]) or "This study states no guarantee."


def _weak(study: Study) -> list[str]:
    """Weaknesses of the study that its owner was told as well; a device cannot repair them."""
    found = weaknesses(study)
    return ["\n".join(["This study is weak in this:", *(f"- {item.why}" for item in found)])] if found else []


def _purses(budget: Budget) -> str:
    purses = []
    if budget.epsilon is not None:
        purses.append(f"epsilon {budget.epsilon:g} and delta {budget.delta:g}")
    if budget.mu is not None:
        purses.append(f"mu {budget.mu:g}")
    return f"a budget of {' and of '.join(purses)}"


def _guarantee(promise: Guarantee) -> str:
    words = f"{promise}."
    if promise.epsilon is not None and promise.delta is not None:
        words += (
            " In words: had your answers been quite different, the probability of anything that can be concluded from it "
            f"would change by a factor of at most {factor_words(promise.epsilon)}, but for a chance of {promise.delta:.2g}."
        )
    return words


def _collusion(study: Study) -> str:
    report = collusion_of(study)
    smallest = min(len(coalition.parties) for coalition in report.coalitions)
    shown = [coalition for coalition in report.coalitions if len(coalition.parties) == smallest]
    lines = [f"{report.summary} To see answers, these would have to break their word together:"]
    for coalition in shown:
        who = " and ".join(_who(study, role) for role in coalition.parties)
        lines.append(f"- {who}, for {coalition.outcome}")
    more = len(report.coalitions) - len(shown)
    if more:
        lines.append(f"- or one of {more} larger groups.")
    return "\n".join([*lines, words_of(study).collusion_note(study)])
