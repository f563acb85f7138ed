"""What differs between suites on a study's page, one function a suite."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.collusion import moments_collusion
from trimask_core.rows.collusion import guess_words
from trimask_core.study import Study
from trimask_mobile.model.catalogue import Catalogue

__all__ = ["SuiteStory", "suite_story"]


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
        notes=(
            words.say("rows.note.tagged" if study.rows.tag_holders else "rows.note"),
            *_together(study, words),
        ),
        mixed=words.say("rows.picture.mixed", names=words.say("and").join(mixers)),
        result=words.say("rows.picture.result", people=study.release_rows),
    )


def _together(study: Study, words: Catalogue) -> tuple[str, ...]:
    """What hides a person from all right providers together."""
    seen = study.protection.right_providers
    if seen is None or seen.mu is None:
        return ()
    return (words.say("rows.together", parts=len(study.right), chance=guess_words(seen.mu)),)


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
