"""A study as its page tells it: who asks, what for, where the answers go, what is promised, who would have to collude."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.form import Form
from trimask_core.institutions import Standing
from trimask_core.study import Study
from trimask_core.truth_words import PlainTruth, plain_truth
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
    promise: str
    truth: PlainTruth
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
    own = suite_story(study, words, left)
    return Story(
        title=study.title if form.title is None else form.title[language],
        asked_by=party_name(study, "collector"),
        contact=study.contact,
        purpose=study.purpose if form.purpose is None else form.purpose[language],
        intro="" if form.intro is None else form.intro[language],
        receivers=right,
        mixed=own.mixed,
        result=own.result,
        way=own.way,
        promise=own.promise,
        truth=plain_truth(study, words.language),
        notes=(*own.notes, *_weights(study, words), *_reminders(study, words)),
        study_id=study.id.hex(),
        unknown=_unknown(parties, words),
    )


def _reminders(study: Study, words: Catalogue) -> tuple[str, ...]:
    return (words.say("study.reminders"),) if study.reminders else ()


def _weights(study: Study, words: Catalogue) -> tuple[str, ...]:
    """That some people's answers count more than others'."""
    if study.weight is None:
        return ()
    asked = study.weight.asked(study.schema)
    times = study.weight.times(study.schema)
    return (words.say("study.weights", times=times, question=asked.label or asked.name),)


def _unknown(parties: tuple[Standing, ...], words: Catalogue) -> str:
    """Institutions that no directory of this app names."""
    names = dict.fromkeys(item.organisation for item in parties if item.known_as is None)
    return words.say("study.unknown", names=", ".join(names)) if names else ""
