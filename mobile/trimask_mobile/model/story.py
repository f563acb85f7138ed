"""A study as its page tells it: who asks, what for, where the answers go, what is promised, who would have to collude."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.collusion import collusion_of
from trimask_core.form import Form
from trimask_core.guarantee import Guarantee, factor_words
from trimask_core.institutions import Standing
from trimask_core.study import Study
from trimask_core.study_checks import LARGEST_EPSILON, weaknesses
from trimask_mobile.model.catalogue import Catalogue
from trimask_mobile.model.suite_story import suite_story

__all__ = ["Story", "party_name", "tell"]


@dataclass(frozen=True)
class Story:
    """Every text of the study page, in one language."""

    title: str
    asked_by: str
    contact: str
    purpose: str
    intro: str
    receivers: tuple[str, ...]
    mixed: str
    result: str
    way: str
    promise: tuple[str, ...]
    collusion: str
    coalitions: tuple[str, ...]
    notes: tuple[str, ...]
    study_id: str
    unknown: str = ""


def party_name(study: Study, role: str) -> str:
    """An institution's name; its role where it has none."""
    party = study.party(role)
    return party.organisation or party.name or role


def tell(
    study: Study, form: Form, words: Catalogue, language: str, parties: tuple[Standing, ...] = ()
) -> Story:
    """The story of a study: the form's texts in `language`, ours in the catalogue's."""
    language = form.language(language)
    right = tuple(party_name(study, f"R{k}") for k in range(1, len(study.right) + 1))
    left = tuple(party_name(study, f"L{j}") for j in range(1, len(study.left) + 1))
    report = collusion_of(study)
    smallest = min(len(coalition.parties) for coalition in report.coalitions)
    groups = [coalition for coalition in report.coalitions if len(coalition.parties) == smallest]
    named = [words.say("and").join(party_name(study, role) for role in group.parties) for group in groups]
    larger = len(report.coalitions) - len(groups)
    more = [words.count("study.larger", larger)] if larger else []
    own = suite_story(study, words, left, smallest)
    return Story(
        title=study.title if form.title is None else form.title[language],
        asked_by=party_name(study, "collector"),
        contact=study.contact,
        purpose=study.purpose,
        intro="" if form.intro is None else form.intro[language],
        receivers=right,
        mixed=own.mixed,
        result=own.result,
        way=own.way,
        promise=(own.promise, *_factors(study, words)),
        collusion=own.collusion,
        coalitions=(*named, *more),
        notes=(*own.notes, words.say("study.reminders")) if study.reminders else own.notes,
        study_id=study.id.hex(),
        unknown=_unknown(parties, words),
    )


def _unknown(parties: tuple[Standing, ...], words: Catalogue) -> str:
    """Institutions that no directory of this app names."""
    names = dict.fromkeys(item.organisation for item in parties if item.known_as is None)
    return words.say("study.unknown", names=", ".join(names)) if names else ""


def _factors(study: Study, words: Catalogue) -> list[str]:
    """What the guarantees' numbers mean; the collector's first where it is the weaker, then what else is weak in them."""
    public, collector = study.protection.public, study.protection.collector
    weak = {item.what: item for item in weaknesses(study)}
    told = []
    if collector is not None and "collector_epsilon" in weak:
        told += _factor(collector, "promise.factor.collector", words)
    if public is not None:
        told += _factor(public, "promise.factor", words)
    told += _honest(study, words)
    if "delta" in weak:
        told.append(words.say("promise.weak.delta", people=study.release_rows))
    return told


def _honest(study: Study, words: Catalogue) -> list[str]:
    """The same factor if only half of the others keep their noise to themselves, or none."""
    protection = study.protection
    if not protection.by_honest_rows:
        return []
    lines = [words.say("rows.honest")]
    for key, rows in (
        ("rows.honest.release", study.release_rows),
        ("rows.honest.block", study.rows.block_rows),
    ):
        found = {
            name: factor_words(protection.epsilon_at(honest) or 0.0).replace(",", " ")
            for name, honest in (("all", rows), ("half", rows // 2), ("one", 1))
        }
        lines.append(f"•  {words.say(key, people=rows, **found)}")
    return ["\n".join(lines)]


def _factor(promise: Guarantee, key: str, words: Catalogue) -> list[str]:
    if promise.epsilon is None or promise.delta is None:
        return []
    factor = factor_words(promise.epsilon).replace(",", " ")
    chance = f"{1 / promise.delta:,.0f}".replace(",", " ") if promise.delta else "∞"
    weak = [words.say("promise.weak")] if promise.epsilon > LARGEST_EPSILON else []
    return [words.say(key, factor=factor, chance=chance), *weak]
