"""A study in words, and its exact statement: what its suite does, promises and rests on, in the English of those who sign.

Its sentences are in words/exact.json, which the page has too. They are true whatever program one of the parties
runs, or say where they count on the agreed one; of the moments suite's secrecy, whatever program up to all but one of the
right providers run.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimask_core.explain.sentences import catalogue, read_words, strength_lines, told_line
from trimask_core.rows.collusion import guess_words
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Guarantee, Towards, factor_words
from trimask_core.study.schema import Attribute
from trimask_core.study.signed import check_claims
from trimask_core.study.weaknesses import weaknesses
from trimask_core.submit.institutions import Standing
from trimask_core.suites import collusion_of, moments_collusion


def say(key: str, **values: object) -> str:
    """One sentence with its values."""
    return read_words("exact")[key].format(**values)


def _is_rows(study: Study) -> bool:
    return isinstance(study.suite, RowsSettings)


def way(study: Study) -> str:
    """What a device does with answers before they leave it, and who gets the parts."""
    parts = len(study.right)
    receivers = ", ".join(party_words(study, f"R{k}") for k in range(1, parts + 1))
    if _is_rows(study):
        noise = say("way.noise" if study.protection.sigma else "way.plain")
        return say("way.rows", noise=noise, parts=parts, receivers=receivers)
    alone = say("alone.two") if parts == 2 else say("alone.all", fewer=parts - 1)
    return say("way.moments", parts=parts, receivers=receivers, alone=alone)


def promises(study: Study) -> list[Towards]:
    """The guarantees of a study with noise, each with the party it protects against, the weaker first.

    In the moments suite there is one: no number smaller than the release is ever opened.
    """
    protection = study.protection
    if _is_rows(study):
        found = (
            (say("towards.public", people=study.release_rows), protection.public),
            (say("towards.collector", people=study.rows.block_rows), protection.collector),
        )
        stated = [Towards(who, promise) for who, promise in found if promise is not None]
        return sorted(stated, key=lambda item: -(item.guarantee.epsilon or 0.0))
    if protection.public is None:
        return []
    number = study.moments.honest_providers
    providers = say("providers.one" if number == 1 else "providers.many", number=number)
    return [Towards(say("towards.everybody", providers=providers), protection.public)]


def guarantee_words(promise: Guarantee) -> str:
    """A guarantee, and what its numbers mean."""
    if promise.epsilon is None or promise.delta is None:
        return f"{promise}."
    factor = say("factor", factor=factor_words(promise.epsilon), delta=f"{promise.delta:.2g}")
    return f"{promise}. {factor}"


def promised(study: Study) -> list[str]:
    """What a study promises: by a budget, nothing, or towards whom; a sentence each."""
    if study.protection.budget is not None:
        return [with_budget(study, purses_of(study.protection.budget))]
    if not study.protection.sigma:
        return [without_noise(study)]
    return [say("towards", who=who, promise=guarantee_words(promise)) for who, promise in promises(study)]


def duty(study: Study, role: str) -> str:
    """What the node in `role` does."""
    kind = {"R": "right", "L": "left"}.get(role[0], role)
    whose = unmasked_by(study, role)
    more = read_words("duties")["rows.unmasks"].format(whose=" and ".join(whose)) if whose else ""
    return f"{read_words('duties')[f'{study.suite.name}.{kind}']} {more}".rstrip()


def unmasked_by(study: Study, role: str) -> list[str]:
    """Whose right masks this party removes; in `moments` nothing is masked."""
    unmasking = study.rows.unmasking if _is_rows(study) else ()
    return [f"R{k}" for k, node in enumerate(unmasking, 1) if node == role]


def honest_people(study: Study) -> list[str]:
    """What the guarantee becomes if only some of the others keep their noise to themselves; a line for each who looks."""
    protection = study.protection
    if not _is_rows(study):
        return [say("honest.moments")] if protection.sigma else []  # the noise is the providers'
    if not protection.by_honest_rows or protection.public is None:
        return []
    delta = "unknown" if protection.public.delta is None else f"{protection.public.delta:.2g}"
    lines = [say("honest.rows", delta=delta)]
    for key, rows in (("honest.release", study.release_rows), ("honest.block", study.rows.block_rows)):
        found = [protection.epsilon_at(honest) for honest in (rows, rows // 2, 1)]
        told = ", ".join("unknown" if e is None else f"{e:.3g}" for e in found)
        lines.append(say(key, rows=rows, found=told))
    return lines


def without_noise(study: Study) -> str:
    """Exact mode. Right providers open no sums of fewer people than the study says; who the others are they cannot know."""
    return say("exact.rows" if _is_rows(study) else "exact.moments")


def with_budget(study: Study, purses: str) -> str:
    """Nobody holds the sums."""
    return say("budget", purses=purses, noise=moments_collusion(study).noise_sentence)


def purses_of(budget: Budget) -> str:
    """What may be spent."""
    found = []
    if budget.epsilon is not None:
        found.append(say("purse.epsilon", epsilon=f"{budget.epsilon:g}", delta=f"{budget.delta:g}"))
    if budget.mu is not None:
        found.append(say("purse.mu", mu=f"{budget.mu:g}"))
    return say("purses", purses=" and of ".join(found))


def colluders(study: Study) -> str:
    """Who would have to collude, and what that counts on."""
    report = collusion_of(study)
    smallest = min(len(coalition.parties) for coalition in report.coalitions)
    shown = [coalition for coalition in report.coalitions if len(coalition.parties) == smallest]
    lines = [f"{report.summary} {say('colluders')}"]
    for coalition in shown:
        who = " and ".join(party_words(study, role) for role in coalition.parties)
        lines.append(say("colluders.line", who=who, what=coalition.outcome))
    more = len(report.coalitions) - len(shown)
    if more:
        lines.append(say("colluders.larger", number=more))
    return "\n".join([*lines, collusion_note(study)])


def party_words(study: Study, role: str) -> str:
    """An institution with its role."""
    party = study.party(role)
    return f"{party.organisation} ({role})" if party.organisation else role


def collusion_note(study: Study) -> str:
    """What the collusion report counts on, what it does not cover, and what a changed program can do all the same."""
    if _is_rows(study):
        followed = say("followed.tagged" if study.rows.tag_holders else "followed.untagged")
        seen = study.protection.right_providers
        if seen is None or seen.mu is None:
            return followed
        return followed + say("together", parts=len(study.right), chance=guess_words(seen.mu))
    report, changed = moments_collusion(study), say("changed")
    told = say("changed.noise", changed=changed) if report.noise else f"{changed}."
    return f"{report.noise_sentence} {told}"


def notes(study: Study) -> list[str]:
    """Whether some people count more than others, and whether whoever invited can see who answered."""
    found = []
    if study.weight is not None:
        asked, times = study.weight.asked(study.schema), study.weight.times(study.schema)
        found.append(say("weights", times=times, question=asked.label or asked.name))
    return [*found, say("reminders")] if study.reminders else found


def withdrawal(study: Study) -> str:
    """Until when answers can be taken back, and what is left of them then."""
    if _is_rows(study):
        return say("withdrawal.rows", others=study.rows.block_rows - 1)
    return say("withdrawal.moments")


def explain_study(study: Study, *, checked: bool = False, parties: Sequence[Standing] = ()) -> str:
    """Plain text, a paragraph a subject.

    `checked`: it also says what of its promise a device cannot work out; `parties`: and which institutions it knows.
    """
    parts = [
        f"{study.title}\n{study.purpose}",
        f"Asked by {party_words(study, 'collector')}. Contact: {study.contact}.",
        "You are asked for: " + "; ".join(map(_question, study.schema.attributes)) + ".",
        *_known(parties),
        way(study),
        _strength(study),
        _promises(study, checked=checked),
        *_weak(study),
        colluders(study),
        *notes(study),
        withdrawal(study),
        f"{say('id', id=study.id.hex())} Compare it with the one in your invitation.",
    ]
    return "\n\n".join(parts)


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


def _question(attribute: Attribute) -> str:
    name = attribute.label or attribute.name
    if attribute.kind == "categorical":
        return f"{name} ({', '.join(attribute.levels)})"
    if attribute.kind == "binary":
        return f"{name} (yes or no)"
    low, high = attribute.bounds
    return f"{name} ({low:g} to {high:g}{' ' + attribute.unit if attribute.unit else ''})"


def _strength(study: Study) -> str:
    """On the one scale, and who can tell that somebody took part."""
    say = catalogue("en")
    lines = [
        f"{say['study.promised']}:",
        *(f"- {line}" for line in strength_lines(study)),
        say["note"],
        told_line(study),
    ]
    return "\n".join(lines)


def _promises(study: Study, *, checked: bool) -> str:
    lines = promised(study)
    if study.protection.budget is not None:
        return lines[0]
    if not study.protection.sigma:
        return f"{lines[0]} {say('exact.known')}"
    lines += [say("unchecked", what=what) for what in check_claims(study)] if checked else []
    return "\n".join([*lines, *honest_people(study)]) or say("towards.nobody")


def _weak(study: Study) -> list[str]:
    """Weaknesses of the study that its owner was told as well; a device cannot repair them."""
    found = weaknesses(study)
    return ["\n".join(["This study is weak in this:", *(f"- {item.why}" for item in found)])] if found else []
