"""A study as its page tells it: who asks, what for, where the answers go, what is promised, who would have to collude."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.explain.sentences import PlainTruth, plain_truth
from trimask_core.form.form import Form
from trimask_core.study.definition import Study
from trimask_core.submit.institutions import Standing
from trimask_mobile.model.words import Catalogue


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
    unknown: str = ""


def party_name(study: Study, role: str) -> str:
    """An institution's name; its role where it has none."""
    party = study.party(role)
    return party.organisation or party.name or role


def form_title(study: Study, form: Form, language: str = "") -> str:
    """A study's title as its form has it, in the form's first language if in none; else as the study has it."""
    return study.title if form.title is None else form.title[language or form.languages[0]]


def tell(
    study: Study, form: Form, words: Catalogue, language: str, parties: tuple[Standing, ...] = ()
) -> Story:
    """The story of a study: the form's texts in `language`, ours in the catalogue's."""
    language = form.language(language)
    noise = bool(study.protection.sigma) or study.protection.budget is not None
    parts, people = len(study.right), study.release_rows
    kind = "budget" if study.protection.budget is not None else "people" if noise else "exact"
    if study.suite.name == "rows":
        mixers = f" {words.say('and')} ".join(
            party_name(study, f"L{j}") for j in range(1, len(study.left) + 1)
        )
        way = words.say("rows.way.noise" if noise else "rows.way.plain", parts=parts)
        mixed = words.say("rows.picture.mixed", names=mixers)
        result = words.say("rows.picture.result", people=people)
        note = words.say("rows.note.tagged" if study.rows.tag_holders else "rows.note")
    else:
        way, mixed = words.say("moments.way", parts=parts), words.say("moments.picture.mixed")
        result = words.say(f"moments.picture.result.{'noise' if noise else 'exact'}")
        note = words.say("moments.note" if noise else "moments.note.exact")
    return Story(
        title=form_title(study, form, language),
        asked_by=party_name(study, "collector"),
        contact=study.contact,
        purpose=study.purpose if form.purpose is None else form.purpose[language],
        intro="" if form.intro is None else form.intro[language],
        receivers=tuple(party_name(study, f"R{k}") for k in range(1, parts + 1)),
        mixed=mixed,
        result=result,
        way=way,
        promise=words.say(f"{study.suite.name}.promise.{kind}", people=people),
        truth=plain_truth(study, words.language),
        notes=(note, *_weights(study, words)),
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
