"""What the app says about a study of each suite, and a moments study from the list to a sealed submission."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Endpoint, Unreachable
from trimask_core.basics.clock import ManualClock
from trimask_core.form.form import Form
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget
from trimask_mobile.model.device import Device
from trimask_mobile.model.study_page_text import Story, tell
from trimask_mobile.model.words import LANGUAGES, catalogue


def story_of(study: Study, language: str) -> Story:
    return tell(study, Form.for_schema(study.schema), catalogue(language), language)


class Offline:
    """No provider can be reached."""

    def call(self, endpoint: Endpoint, *_: object) -> bytes:
        raise Unreachable(f"{endpoint.address}: no network")

    def close(self) -> None:
        pass


@pytest.mark.parametrize("language", list(LANGUAGES))
@pytest.mark.parametrize(
    ("suite", "kind"),
    [("rows", "noise"), ("rows", "exact"), ("moments", "noise"), ("moments", "exact"), ("moments", "budget")],
)
def test_every_study_has_its_story(make_study: Any, suite: str, kind: str, language: str) -> None:
    changes: dict[str, Any] = {"sigma": 30.0 if suite == "moments" else 8.0}
    if kind != "noise":
        changes = {"sigma": 0.0}
    study = make_study(suite=suite, label=f"{suite} {kind}", **changes).study
    if kind == "budget":
        study = replace(study, protection=replace(study.protection, budget=Budget(mu=1.0)))
    story = story_of(study, language)
    seen = [f"{who}: {what}" for who, what in story.truth.seen]
    assert all((story.way, story.mixed, story.result, story.promise, *story.notes))
    # In the rows suite towards the collector and towards everybody.
    assert len(story.truth.promises) == {"rows": 2, "moments": 1}[suite]
    said = " ".join((story.way, story.mixed, story.result, story.promise, *story.notes, *seen))
    assert "{" not in said
    if suite == "moments":
        assert "Org L" not in said
        assert "32" not in said  # no release of this suite is promised to have so many people


def test_the_weaker_guarantee_comes_first(make_study: Any) -> None:
    study = make_study().study
    public = replace(study.protection.public, epsilon=0.3, delta=1e-6)
    towards = replace(study.protection, public=public, collector=replace(public, epsilon=4.0))
    first, second = story_of(replace(study, protection=towards), "en").truth.promises
    assert (first.towards, first.word) == ("Towards Org collector, which collects", "weak")
    assert first.sentences[0].endswith("can guess right 99 times in 100 at most. A coin is right 50 times.")
    assert (second.towards, second.word) == ("Towards everybody who sees what is published", "strong")
    assert "58 times in 100" in second.sentences[0]
    german = story_of(replace(study, protection=towards), "de").truth.promises[0]
    assert (german.word, german.step) == ("schwach", "weak")


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_weak_numbers_are_said(make_study: Any, suite: str) -> None:
    study = make_study(suite=suite, sigma=1.0 if suite == "moments" else 0.1, label="weak").study
    weak = replace(study.protection.public, epsilon=100.0, delta=0.5)
    collector = None if study.protection.collector is None else weak
    story = story_of(
        replace(study, protection=replace(study.protection, public=weak, collector=collector)), "en"
    )
    for promise in story.truth.promises:
        assert promise.step == "weak"
        assert promise.sentences[0].endswith("may find out with near certainty.")


def test_the_sentence_of_the_moments_suite(make_study: Any) -> None:
    study = make_study(suite="moments", right=3, sigma=30.0, honest_providers=2, label="three").study
    story = story_of(study, "en")
    assert story.truth.seen == (
        ("Org R1, Org R2 and Org R3, all together", "your answers"),
        ("Any 2 of the institutions, whatever programs they run", "sums, with less noise than is promised"),
        ("Any 1 of the institutions, whatever programs they run", "sums, with the noise that is promised"),
        ("Everybody, once it is published", "sums, with noise"),
        ("Each institution that gets a part", "that this device took part, when, and its network address"),
    )
    assert (
        story.truth.promises[0].sentences[-1]
        == "As long as 2 of the 3 institutions add their noise as agreed."
    )
    assert "changed program" in story.notes[0]
    assert story.receivers == ("Org R1", "Org R2", "Org R3")


def test_without_noise_nothing_is_said_to_be_private(make_study: Any) -> None:
    story = story_of(make_study(suite="moments", sigma=0.0, label="exact").study, "en")
    assert "could bring all the others itself" in story.promise
    assert story.truth.promises[0].step == "none"
    assert (
        "Org collector with a changed program",
        "your answers, by bringing all the others itself",
    ) in story.truth.seen
    assert not [note for note in story.notes if "private" in note or "cannot show" in note]


def test_rows_say_that_they_count_on_the_agreed_program(make_study: Any) -> None:
    story = story_of(make_study().study, "en")
    assert "counted as running the agreed program" in story.notes[0]
    assert story.mixed == "Mixed again by Org L1 and Org L2"


def test_a_moments_study_is_joined_and_sealed(tmp_path: Path, moments_study: Any, answers: Any) -> None:
    device = Device(tmp_path / "phone", transport=Offline(), clock=ManualClock(1_800_000_000_000))
    study_id = device.queue.join(moments_study.signed)
    assert "Both right providers together could read the answers" in device.queue.client(study_id).explain()
    entry = device.queue.seal(study_id, answers)
    assert (entry.state, entry.providers) == ("waiting", 2)
