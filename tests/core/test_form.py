"""The form of a study: what is asked when, what an answer may be, and which row comes of it."""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib.resources import files
from typing import Any

import pytest

from trimask_core.basics.errors import AnswerError, StudyError
from trimask_core.form.file import check_schema, read_form
from trimask_core.form.form import Form
from trimask_core.study.definition import Study
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import SignedStudy
from trimask_golden import Golden
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.study_definition import load_definition

EXAMPLE = (files("trimask_cli") / "data" / "sleep-and-wellbeing.toml").read_text(encoding="utf-8")
RAW = tomllib.loads(EXAMPLE)
DEFINITION: StudyDefinition = load_definition(EXAMPLE)
MADE_MS = 1_795_000_000_000  # 2026-11-18
RESPONSES: dict[str, object] = {
    "age": "1980-11-18",
    "wellbeing": 7,
    "sleep_hours": "7.5",
    "shift_work": "yes",
    "night_shifts": "4",
    "exercise": "some",
    "aids": ["medicine"],
    "caffeine": 120,
}


def _form() -> Form:
    assert DEFINITION.form is not None
    return DEFINITION.form.created(MADE_MS)


def test_answers_become_the_schema_row() -> None:
    form = _form()
    answers = form.answers(RESPONSES)
    assert answers == {
        "age": 46, "wellbeing": 7, "sleep_hours": 7.5, "shift_work": True, "night_shifts": 4, "exercise": "some",
        "aids_tea": False, "aids_medicine": True, "caffeine": 120, "caffeine_unknown": False,
    }  # fmt: skip
    assert len(DEFINITION.schema.encode(answers)) == len(DEFINITION.schema.columns)


def test_skipped_and_unanswered_questions_have_their_declared_values() -> None:
    form = _form()
    kept = {name: RESPONSES[name] for name in RESPONSES if name not in ("aids", "caffeine")}
    answers = form.answers(kept | {"shift_work": "no"})  # the answer about night shifts is no longer shown
    assert answers["night_shifts"] == 0
    assert (answers["caffeine"], answers["caffeine_unknown"]) == (200, True)
    assert (answers["aids_tea"], answers["aids_medicine"]) == (False, False)
    DEFINITION.schema.encode(answers)


def test_a_question_is_shown_when_its_condition_holds() -> None:
    form = _form()
    assert "night_shifts" not in [asked.name for asked in form.questions_for({})]
    assert "night_shifts" not in [asked.name for asked in form.questions_for({"shift_work": "perhaps"})]
    shown = form.questions_for({"shift_work": "Ja"}, "de_AT.UTF-8")
    assert [asked.name for asked in shown] == [question.name for question in form.questions]
    hours = next(asked for asked in shown if asked.name == "sleep_hours")
    assert (hours.label, hours.unit, hours.required) == (
        "Wie lange schlafen Sie in einer gewöhnlichen Nacht?", "Stunden", True,
    )  # fmt: skip
    assert hours.check("7,5") == 7.5
    exercise = next(asked for asked in shown if asked.name == "exercise")
    assert exercise.choices[0] == ("none", "Gar keinen")
    with pytest.raises(AnswerError) as caught:
        form.answers({**RESPONSES, "night_shifts": ""}, "de")  # required once it is shown
    assert (caught.value.attribute, caught.value.problem) == ("night_shifts", "eine Antwort ist nötig")


def test_wrong_answers_are_refused_in_the_language(golden: Golden) -> None:
    wrong: list[tuple[str, object, str]] = [
        ("sleep_hours", "20", "en"),
        ("sleep_hours", "20", "de"),
        ("sleep_hours", "7,,5", "en"),
        ("sleep_hours", "nan", "en"),
        ("sleep_hours", True, "en"),
        ("sleep_hours", " ", "en"),
        ("night_shifts", "2.5", "en"),
        ("wellbeing", 6.5, "en"),
        ("shift_work", "perhaps", "en"),
        ("exercise", "lots", "en"),
        ("aids", ["tea", "beer"], "en"),
        ("age", "yesterday", "en"),
        ("age", "2020-01-01", "en"),
        ("age", date(1900, 1, 1), "de"),
    ]
    questions = {question.name: question for question in _form().questions}
    golden(
        "form-answers",
        AnswerError,
        {
            f"{name} = {answer}, {language}": (name, partial(questions[name].check, answer, language))
            for name, answer, language in wrong
        },
    )


def test_age_counts_whole_years_on_the_day_the_study_was_made() -> None:
    question = _form().questions[0]
    assert question.origin == "2026-11-18"
    for born, age in (("1980-11-18", 46), ("1980-11-19", 45), ("2008-02-29", 18)):
        assert question.encode(question.check(born, "en")) == {"age": age}


def test_days_and_years_after_an_origin() -> None:
    schema = Schema((Attribute("since", "integer", 0, 366), Attribute("years", "continuous", -50, 50)))
    label = {"label": "When?", "kind": "date", "origin": date(2024, 1, 1)}
    form = read_form(
        {
            "languages": ["en"],
            "questions": [
                {"name": "since", "count": "days", "latest": "2024-06-30", **label},
                {"name": "years", "count": "years", **label},
            ],
        },
        schema,
    )
    check_schema(form, schema)
    answers = form.answers({"since": "2024-03-01", "years": "2022-01-01"})
    assert answers == {"since": 60, "years": -730 / 365.25}
    for day in ("2024-07-01", "2023-12-31"):
        with pytest.raises(AnswerError, match="outside"):
            form.answers({"since": day, "years": "2022-01-01"})


def test_eligibility_and_consent() -> None:
    form = _form()
    assert form.eligibility_for("de")[0].label == "Sind Sie 18 Jahre oder älter?"
    assert form.eligible({"adult": "yes", "weeks_ill": 1})
    assert not form.eligible({"adult": "no", "weeks_ill": 1})
    assert not form.eligible({"adult": "yes", "weeks_ill": 2})
    with pytest.raises(AnswerError, match="weeks_ill"):
        form.eligible({"adult": "yes"})
    assert not set(form.answers({**RESPONSES, "adult": "yes", "weeks_ill": 0})) & {"adult", "weeks_ill"}
    consent = form.consent("de")
    assert consent is not None
    assert (consent.version, consent.language) == ("2026-11", "de")
    assert consent.hash == hashlib.sha256(RAW["form"]["consent"]["text"]["de"].encode()).digest()
    other = form.consent("xx")
    assert other is not None
    assert other.language == "en"
    assert other.hash != consent.hash


def test_an_answer_to_no_question_is_refused() -> None:
    with pytest.raises(AnswerError, match="height"):
        _form().answers({**RESPONSES, "height": 3})


def _changed(path: str, value: Any) -> Any:
    data = copy.deepcopy(RAW["form"])
    keys = path.split(".")
    at: Any = data
    for key in keys[:-1]:
        at = at[int(key)] if isinstance(at, list) else at[key]
    if value is None:
        del at[keys[-1]]
    else:
        at[keys[-1]] = value
    return data


IMPOSSIBLE: list[tuple[str, Any, str]] = [
    ("languages", ["english"], "form.languages"),
    ("languages", [], "form.languages"),
    ("languages", ["en"], "form.consent.text"),
    ("title", "Sleep", "form.title"),
    ("title", {"en": "Sleep"}, "form.title"),
    ("title", {"en": "Sleep \u202etxet", "de": "x"}, "form.title"),
    ("title", {"en": "Sleep", "de": "x \u2067y"}, "form.title"),
    ("titel", "x", "form"),
    ("questions.2.labl", "x", "form.questions.sleep_hours"),
    ("questions.2.label", None, "form.questions.sleep_hours.label"),
    ("questions.2.kind", "text", "form.questions.sleep_hours.kind"),
    ("questions.2.kind", "integer", "form.questions.sleep_hours"),
    ("questions.2.maximum", 13, "form.questions.sleep_hours"),
    ("questions.2.minimum", 12, "form.questions.sleep_hours"),
    ("questions.2.step", 1, "form.questions.sleep_hours"),
    ("questions.2.name", "snoring", "form.questions.snoring"),
    ("questions.2.required", False, "form.questions.sleep_hours"),
    ("questions.2.missing", 3, "form.questions.sleep_hours"),
    ("questions.4.missing", None, "form.questions.night_shifts"),
    ("questions.4.missing", 40, "form.questions.night_shifts.missing"),
    ("questions.4.missing", 0.5, "form.questions.night_shifts.missing"),
    ("questions.4.missing", True, "form.questions.night_shifts.missing"),
    ("questions.4.missing_indicator", "caffeine_unknown", "form.questions.caffeine"),
    ("questions.7.missing_indicator", "age", "form.questions.caffeine"),
    ("questions.4.relevant", "caffeine > 3", "form.questions.night_shifts.relevant"),
    ("questions.4.relevant", "shift_work > 3", "form.questions.night_shifts.relevant"),
    ("questions.4.relevant", "age = 3", "form.questions.night_shifts.relevant"),
    ("questions.4.relevant", "wellbeing = yes", "form.questions.night_shifts.relevant"),
    ("questions.6.relevant", "exercise = 'lots'", "form.questions.aids.relevant"),
    ("questions.7.relevant", "aids = 'tea'", "form.questions.caffeine.relevant"),
    ("questions.1.step", 3, "form.questions.wellbeing"),
    ("questions.1.step", None, "form.questions.wellbeing"),
    ("questions.1.step", 0.5, "form.questions.wellbeing"),
    ("questions.0.count", "weeks", "form.questions.age.count"),
    ("questions.0.count", "years", "form.questions.age"),
    ("questions.0.origin", "soon", "form.questions.age.origin"),
    ("questions.0.earliest", "19000101", "form.questions.age.earliest"),
    ("questions.5.choices", [{"value": "none", "label": {"en": "a", "de": "b"}}], "form.questions.exercise"),
    ("questions.5.choices", [], "form.questions.exercise"),
    ("questions.6.name", "exercise", "form.questions.exercise"),
    ("questions", [], "form.questions"),
    ("eligibility.0.kind", "date", "form.eligibility.adult.kind"),
    ("eligibility.1.maximum", None, "form.eligibility.weeks_ill"),
    ("consent.version", None, "form.consent.version"),
]


def test_forms_that_cannot_be_are_refused_by_their_setting(golden: Golden) -> None:
    """Paths, what is put there (None: it is taken out), and what the refusal names."""

    def read(path: str, value: Any) -> None:
        load_definition_with(_changed(path, value))

    golden(
        "form-settings",
        StudyError,
        {f"{path} = {value!r}": (named, partial(read, path, value)) for path, value, named in IMPOSSIBLE},
    )


def test_every_attribute_is_asked_for() -> None:
    questions = [item for item in RAW["form"]["questions"] if item["name"] != "exercise"]
    with pytest.raises(StudyError, match="attribute exercise is filled by no question"):
        load_definition_with({**RAW["form"], "questions": questions})


def load_definition_with(form: Any) -> None:
    check_schema(read_form(form, DEFINITION.schema).created(0), DEFINITION.schema)


def test_the_form_is_a_part_of_what_is_signed(make_study: Callable[..., Any]) -> None:
    form, schema = _form(), DEFINITION.schema
    made = make_study(schema=schema, form=form)
    plain = make_study(schema=schema)
    assert made.study.id != plain.study.id
    assert plain.study.to_dict()["form"] is None
    again = SignedStudy.from_json(made.signed.to_json()).verify()
    assert (again.form, again.id) == (form, made.study.id)
    data = json.loads(made.study.canonical)
    data["form"]["questions"][1]["label"]["en"] = "How bad?"
    assert Study.from_dict(data).id != made.study.id
    data["form"]["questions"][1]["required"] = (
        True  # a default is not written: two texts for one form have no place
    )
    with pytest.raises(StudyError, match="canonical"):
        Study.from_dict(data)
    data = json.loads(made.study.canonical)
    data["form"]["questions"][0]["origin"] = "creation"
    with pytest.raises(StudyError, match="must be replaced by a date"):
        Study.from_dict(data)


def test_a_plain_form_for_any_schema(make_study: Callable[..., Any]) -> None:
    study = make_study().study
    form = Form.for_schema(study.schema)
    check_schema(form, study.schema)
    asked = form.questions_for({}, "fr")
    assert [(a.name, a.kind, a.label, a.unit) for a in asked] == [
        ("age", "integer", "Age", "years"),
        ("bmi", "number", "bmi", ""),
        ("smoker", "yes_no", "smoker", ""),
        ("region", "single_choice", "region", ""),
    ]
    answers = form.answers({"age": "43", "bmi": 27.25, "smoker": "no", "region": "west"})
    assert answers == {"age": 43, "bmi": 27.25, "smoker": False, "region": "west"}
    study.schema.encode(answers)
    assert read_form(form.to_dict()) == form
