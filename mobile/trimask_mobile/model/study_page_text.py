"""A study as its page tells it: who asks, what for, where the answers go, what is promised, who would have to collude.

What differs between suites is one function a suite.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.explain.sentences import PlainTruth, plain_truth
from trimask_core.form.form import Form
from trimask_core.study.definition import Study
from trimask_core.submit.institutions import Standing
from trimask_core.suites import moments_collusion
from trimask_mobile.model.words import Catalogue


@dataclass(frozen=True)
class SuiteStory:
    """`promise` comes before the scale; `notes` come after who could see what."""

    way: str
    promise: str
    notes: tuple[str, ...]
    mixed: str
    result: str


def suite_story(study: Study, words: Catalogue, mixers: tuple[str, ...]) -> SuiteStory:
    """The texts of a study's suite."""
    return _SUITES[study.suite.name](study, words, mixers)


def _rows(study: Study, words: Catalogue, mixers: tuple[str, ...]) -> SuiteStory:
    noise = bool(study.protection.sigma)
    return SuiteStory(
        way=words.say("rows.way.noise" if noise else "rows.way.plain", parts=len(study.right)),
        promise=words.say(f"rows.promise.{_kind(study)}", people=study.release_rows),
        notes=(words.say("rows.note.tagged" if study.rows.tag_holders else "rows.note"),),
        mixed=words.say("rows.picture.mixed", names=f" {words.say('and')} ".join(mixers)),
        result=words.say("rows.picture.result", people=study.release_rows),
    )


def _moments(study: Study, words: Catalogue, _mixers: tuple[str, ...]) -> SuiteStory:
    report, number = moments_collusion(study), len(study.right)
    return SuiteStory(
        way=words.say("moments.way", parts=number),
        promise=words.say(f"moments.promise.{_kind(study)}"),
        notes=(words.say("moments.note" if report.noise else "moments.note.exact"),),
        mixed=words.say("moments.picture.mixed"),
        result=words.say(f"moments.picture.result.{'noise' if report.noise else 'exact'}"),
    )


def _kind(study: Study) -> str:
    if study.protection.budget is not None:
        return "budget"
    return "people" if study.protection.sigma else "exact"


_SUITES = {"rows": _rows, "moments": _moments}


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
        notes=(*own.notes, *_weights(study, words)),
        study_id=study.id.hex(),
        unknown=_unknown(parties, words),
    )


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
