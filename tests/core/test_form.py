"""The form of a study: what is asked when, what an answer may be, and which row comes of it."""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Callable
from datetime import date
from importlib.resources import files
from typing import Any

import pytest

from trimask_core.errors import AnswerError, StudyError
from trimask_core.form import Form
from trimask_core.form_file import read_form
from trimask_core.form_schema import check_schema
from trimask_core.schema import Attribute, Schema
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study
from trimask_theory.study_definition import StudyDefinition, load_definition

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


@pytest.mark.parametrize(
    ("name", "answer", "language", "problem"),
    [
        ("sleep_hours", "20", "en", "must be between 3 and 12"),
        ("sleep_hours", "20", "de", "muss zwischen 3 und 12 liegen"),
        ("sleep_hours", "7,,5", "en", "give a number"),
        ("sleep_hours", "nan", "en", "give a number"),
        ("sleep_hours", True, "en", "give a number"),
        ("sleep_hours", " ", "en", "an answer is needed"),
        ("night_shifts", "2.5", "en", "give a whole number"),
        ("wellbeing", 6.5, "en", "must be a whole number of steps of 1 above 0"),
        ("shift_work", "perhaps", "en", "answer yes or no"),
        ("exercise", "lots", "en", "choose one of the answers offered"),
        ("aids", ["tea", "beer"], "en", "choose from the answers offered"),
        ("age", "yesterday", "en", "give a date such as 31 December 2001"),
        ("age", "2020-01-01", "en", "The study is for people of 18 to 90 years."),
        ("age", date(1900, 1, 1), "de", "Die Studie ist für Menschen von 18 bis 90 Jahren."),
    ],
)
def test_a_wrong_answer_is_refused_in_the_language(
    name: str, answer: object, language: str, problem: str
) -> None:
    question = next(question for question in _form().questions if question.name == name)
    with pytest.raises(AnswerError) as caught:
        question.check(answer, language)
    assert (caught.value.attribute, caught.value.problem) == (name, problem)


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


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("languages", ["english"], "not a language tag"),
        ("languages", [], "form.languages"),
        ("languages", ["en"], "'de' is not among the form's languages"),
        ("title", "Sleep", "form.title must be given in each language"),
        ("title", {"en": "Sleep"}, "form.title is missing in 'de'"),
        ("title", {"en": "Sleep \u202etxet", "de": "x"}, r"form.title \(en\) has U\+202E, which reorders"),
        ("title", {"en": "Sleep", "de": "x \u2067y"}, r"form.title \(de\) has U\+2067, which reorders"),
        ("titel", "x", "did you mean 'title'"),
        ("questions.2.labl", "x", "form.questions.sleep_hours has no setting 'labl'; did you mean 'label'"),
        ("questions.2.label", None, "form.questions.sleep_hours.label is missing"),
        ("questions.2.kind", "text", "form.questions.sleep_hours.kind must be one of"),
        ("questions.2.kind", "integer", "an integer question fills an integer attribute, and sleep_hours is continuous"),
        ("questions.2.maximum", 13, "must lie within 3 to 12"),
        ("questions.2.minimum", 12, "minimum must be below maximum"),
        ("questions.2.step", 1, "a number question has no step"),
        ("questions.2.name", "snoring", "fills snoring, which is not an attribute"),
        ("questions.2.required", False, "form.questions.sleep_hours is optional: give missing"),
        ("questions.2.missing", 3, "always answered"),
        ("questions.4.missing", None, "form.questions.night_shifts has skip logic: give missing"),
        ("questions.4.missing", 40, "must be a value night_shifts can have"),
        ("questions.4.missing", 0.5, "must be a value night_shifts can have"),
        ("questions.4.missing", True, "missing must be a number"),
        ("questions.4.missing_indicator", "caffeine_unknown", "fills caffeine_unknown, as does the question night"),
        ("questions.7.missing_indicator", "age", "fills age, as does"),
        ("questions.4.relevant", "caffeine > 3", "caffeine is not an earlier question"),
        ("questions.4.relevant", "shift_work > 3", "compare shift_work with = or != yes or no"),
        ("questions.4.relevant", "age = 3", 'compare age with a date such as "1970-01-01"'),
        ("questions.4.relevant", "wellbeing = yes", "compare wellbeing with a number"),
        ("questions.6.relevant", "exercise = 'lots'", "compare exercise with"),
        ("questions.7.relevant", "aids = 'tea'", 'compare aids with NAME has "VALUE"'),
        ("questions.1.step", 3, "its step must lead"),
        ("questions.1.step", None, "a slider needs a step"),
        ("questions.1.step", 0.5, "whole numbers for an integer attribute"),
        ("questions.0.count", "weeks", "count must be"),
        ("questions.0.count", "years", "years are fractions"),
        ("questions.0.origin", "soon", "origin must be a date such as"),
        ("questions.0.earliest", "19000101", "earliest must be a date such as"),
        ("questions.5.choices", [{"value": "none", "label": {"en": "a", "de": "b"}}], "must be the levels of exercise"),
        ("questions.5.choices", [], "needs choices"),
        ("questions.6.name", "exercise", "exercise is there twice"),
        ("questions", [], "one question at least"),
        ("eligibility.0.kind", "date", "form.eligibility.adult.kind"),
        ("eligibility.1.maximum", None, "give minimum, maximum or both"),
        ("consent.version", None, "form.consent.version"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_is_refused_by_its_setting(path: str, value: Any, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        check_schema(read_form(_changed(path, value), DEFINITION.schema).created(0), DEFINITION.schema)


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
