"""Texts that were never written, stand untranslated, or cannot be shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trimask_core.form.form import Consent, Form, Question
from trimask_core.form.texts import Texts
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.weaknesses import form_findings

SCHEMA = Schema((Attribute("age", "integer", 0, 9),))


def _study(make_study: Callable[..., Any], consent: dict[str, str] | None = None, **labels: str) -> Any:
    label = Texts(tuple((tag.replace("_", "-"), text) for tag, text in labels.items()))
    question = Question("age", "integer", label, minimum=0.0, maximum=9.0)
    agreement = None if consent is None else Consent("1", Texts(tuple(consent.items())))
    languages = tuple(tag for tag, _ in label.pairs)
    return make_study(schema=SCHEMA, form=Form(languages, (question,), agreement=agreement)).study


def _found(study: Any) -> dict[str, tuple[str, str]]:
    return {
        found.weakness.what: (found.weakness.severity, found.words)
        for found in form_findings(study)
        if found.weakness is not None
    }


def test_a_good_form_has_nothing(make_study: Callable[..., Any]) -> None:
    study = _study(make_study, en="How old are you, in years?", de="Wie alt sind Sie, in Jahren?")
    assert _found(study) == {}
    assert _found(make_study().study) == {}


@pytest.mark.parametrize(
    ("text", "bad"),
    [("TODO", True), ("Lorem ipsum dolor", True), ("...", True), ("Age [...]", True), ("???", True), ("TBD", True),
     ("How often were you ...", False), ("¿Trabaja todo el día?", False), ("Are you sure?", False)],
)  # fmt: skip
def test_placeholders(make_study: Callable[..., Any], text: str, bad: bool) -> None:
    found = _found(_study(make_study, en=text))
    assert ("placeholders" in found) == bad
    if bad:
        assert found["placeholders"][0] == "refuse"
        assert "form.questions.age.label in 'en'" in found["placeholders"][1]


def test_a_consent_that_breaks_off_and_a_purpose_nobody_wrote(make_study: Callable[..., Any]) -> None:
    study = _study(make_study, {"en": "I agree that ..."}, en="How old are you?")
    study = replace(study, purpose="Say in a sentence what the answers are for.")
    words = _found(study)["placeholders"][1]
    assert "form.consent.text" in words
    assert "purpose (" in words


def test_untranslated_texts(make_study: Callable[..., Any]) -> None:
    alike = _study(
        make_study, {"en": "I agree.", "de": "Ja."}, en="How old are you now?", de="How old are you now?"
    )
    assert _found(alike)["untranslated"] == (
        "refuse", "Not translated: form.questions.age.label is the same in 'en' and 'de'.",
    )  # fmt: skip
    assert "everything is the same" in _found(_study(make_study, en="Age", de="Age"))["untranslated"][1]
    assert _found(_study(make_study, en_GB="How old are you now?", en_US="How old are you now?")) == {}
    assert _found(_study(make_study, {"en": "I agree.", "de": "Ja."}, en="Name", de="Name")) == {}


def test_what_a_way_of_taking_part_cannot_show(make_study: Callable[..., Any]) -> None:
    severity, words = _found(_study(make_study, en="Age?", ar="العمر"))["unshown"]
    assert severity == "name"
    assert "In 'ar' the app cannot show this form: it is written from right to left" in words
    severity, words = _found(_study(make_study, hi="आयु"))[
        "unshown"
    ]  # no page is named, and no other language is there
    assert severity == "refuse"
    assert "its font has no आ (U+0906) य (U+092F) ु (U+0941)" in words
    severity, words = _found(_study(make_study, en="Age → now?"))["unshown"]
    assert severity == "refuse"
    assert "→ (U+2192), first in form.questions.age.label; a page in a browser would show it" in words
