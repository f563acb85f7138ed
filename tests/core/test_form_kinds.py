"""Grids, exclusive choices, times of day and headings: what is shown together, what is taken, which row comes of it."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest

from trimask_core.basics.errors import AnswerError, StudyError
from trimask_core.form.file import check_schema, read_form
from trimask_core.form.form import Form
from trimask_core.study.schema import Attribute, Schema
from trimask_golden import Golden

MOODS = ("never", "sometimes", "often")
SCHEMA = Schema((
    Attribute("bedtime", "integer", 0, 1439),
    Attribute("calm", "categorical", levels=MOODS),
    Attribute("sad", "categorical", levels=MOODS),
    Attribute("sad_unknown", "binary"),
    Attribute("aids_tea", "binary"),
    Attribute("aids_pill", "binary"),
    Attribute("aids_none", "binary"),
    Attribute("dose", "continuous", 0, 10),
))  # fmt: skip
RAW: dict[str, Any] = {
    "languages": ["en"],
    "purpose": "To learn how people sleep.",
    "questions": [
        {"name": "night", "kind": "heading", "label": "Your nights", "help": "Think of last week."},
        {"name": "bedtime", "kind": "time", "label": "When to bed?", "count": "minutes", "origin": "12:00",
         "earliest": "18:00", "latest": "06:00"},
        {"name": "mood", "kind": "heading", "label": "Your mood"},
        {"name": "note", "kind": "heading", "label": "No answer is wrong"},
        {"name": "moods", "kind": "grid", "label": "How often were you", "required": False, "missing": "never",
         "choices": [{"value": mood, "label": mood.title()} for mood in MOODS],
         "rows": [{"name": "calm", "label": "calm?"},
                  {"name": "sad", "label": "sad?", "missing_indicator": "sad_unknown"}]},
        {"name": "aids", "kind": "multiple_choice", "label": "What helps?",
         "choices": [{"value": "tea", "label": "Tea"}, {"value": "pill", "label": "Pills"},
                     {"value": "none", "label": "None of these", "exclusive": True}]},
        {"name": "pills", "kind": "heading", "label": "Your pills"},
        {"name": "dose", "kind": "number", "label": "How much?", "relevant": "aids has 'pill'", "missing": 0},
    ],
}  # fmt: skip
GOOD: dict[str, object] = {"bedtime": "11:30 pm", "calm": "often", "aids": ["none"]}


def _form(data: Any = RAW) -> Form:
    form = read_form(data, SCHEMA).created(0)
    check_schema(form, SCHEMA)
    return form


def test_the_row() -> None:
    answers = _form().answers(GOOD)
    assert answers == {
        "bedtime": 690, "calm": "often", "sad": "never", "sad_unknown": True,
        "aids_tea": False, "aids_pill": False, "aids_none": True, "dose": 0,
    }  # fmt: skip
    SCHEMA.encode(answers)


def test_what_is_shown_together() -> None:
    form = _form()
    pages = form.pages_for(GOOD)
    assert [page.name for page in pages] == ["bedtime", "moods", "aids"]
    assert [[one.label for one in page.headings] for page in pages] == [
        ["Your nights"], ["Your mood", "No answer is wrong"], [],
    ]  # fmt: skip
    assert pages[0].headings[0].help == "Think of last week."
    grid = pages[1]
    assert grid.grid is not None
    assert (grid.grid.label, [row.label for row in grid.questions]) == (
        "How often were you",
        ["calm?", "sad?"],
    )
    assert {row.choices for row in grid.questions} == {tuple((mood, mood.title()) for mood in MOODS)}
    with_pill = form.pages_for({**GOOD, "aids": ["pill"]})
    assert [one.label for one in with_pill[-1].headings] == ["Your pills"]
    assert [asked.name for asked in form.questions_for(GOOD)] == ["bedtime", "calm", "sad", "aids"]


def test_a_skipped_section_leaves_no_heading_behind() -> None:
    data = copy.deepcopy(RAW)
    night, bedtime, mood, note, moods, aids, pills, dose = data["questions"]
    data["questions"] = [aids, pills, dose, night, bedtime, mood, note, moods]
    pages = _form(data).pages_for({"aids": ["tea"]})
    assert [[one.label for one in page.headings] for page in pages][1] == ["Your nights"]


def test_it_is_written_and_read_again() -> None:
    form = _form()
    data = form.to_dict()
    assert read_form(data) == form
    none = {"value": "none", "label": {"en": "None of these"}, "exclusive": True}
    assert data["questions"][5]["choices"][2] == none
    assert data["questions"][4]["rows"][0] == {"name": "calm", "label": {"en": "calm?"}}
    assert form.purpose is not None
    assert form.purpose["en"] == "To learn how people sleep."


def test_exclusive_choices() -> None:
    question = next(part for part in _form().parts if part.name == "aids")
    with pytest.raises(AnswerError, match="“None of these” cannot be chosen together"):
        question.check(["tea", "none"], "en")
    assert question.toggled(("tea", "pill"), "none") == ("none",)
    assert question.toggled(("none",), "pill") == ("pill",)
    assert question.toggled(("pill",), "tea") == ("tea", "pill")
    assert question.toggled(("tea",), "tea") == ()


def test_times_go_round_the_clock_from_the_origin() -> None:
    question = _form().parts[0]
    counted = [question.encode(time) for time in ("12:00", "23:30", "00:30", "11:59")]
    assert counted == [{"bedtime": minutes} for minutes in (0, 690, 750, 1439)]
    assert question.check("5:59", "en") == "05:59"
    for time in ("12:00", "17:59", "6:01"):
        with pytest.raises(AnswerError, match="must be a time from 18:00 to 06:00"):
            question.check(time, "en")
    with pytest.raises(AnswerError, match="bitte eine Uhrzeit angeben, etwa 23:30"):
        question.check("spät", "de")


def test_an_answer_in_words() -> None:
    asked = {one.name: one for one in _form().questions_for({"aids": ["pill"]})}
    assert asked["bedtime"].shown("23:30") == "23:30"
    assert asked["calm"].shown("often") == "Often"
    assert asked["aids"].shown(("tea", "pill")) == "Tea, Pills"
    assert asked["dose"].shown(2.5) == "2.5"
    assert asked["dose"].shown(None) == ""


def test_conditions_on_rows_and_times() -> None:
    data = copy.deepcopy(RAW)
    data["questions"][7]["relevant"] = "sad = 'often' and bedtime >= '22:00'"
    form, sad = _form(data), {**GOOD, "sad": "often"}
    assert "dose" in [one.name for one in form.questions_for(sad)]
    assert "dose" not in [one.name for one in form.questions_for({**sad, "bedtime": "21:00"})]


IMPOSSIBLE: list[tuple[int, dict[str, Any], str]] = [
    (0, {"required": False}, "form.questions.night"),
    (0, {"unit": "h"}, "form.questions.night"),
    (1, {"count": "days"}, "form.questions.bedtime.count"),
    (1, {"origin": "25:00"}, "form.questions.bedtime.origin"),
    (1, {"origin": "00:00"}, "form.questions.bedtime"),
    (1, {"count": "hours"}, "form.questions.bedtime"),
    (1, {"relevant": "calm = 'often'", "missing": 0}, "form.questions.bedtime.relevant"),
    (4, {"rows": []}, "form.questions.moods"),
    (4, {"rows": [{"name": "aids", "label": "x"}]}, "form.questions.aids"),
    (4, {"missing_indicator": "sad_unknown"}, "form.questions.moods"),
    (4, {"missing": "maybe"}, "form.questions.moods.missing"),
    (4, {"minimum": 3}, "form.questions.moods"),
    (4, {"choices": [{"value": "never", "label": "x"}]}, "form.questions.calm"),
    (5, {"choices": [{"value": "tea", "label": "T", "exclusive": 1}]}, "form.questions.aids.choices"),
    (5, {"choices": [{"value": "tea", "label": "T", "exclusive": True}]}, "form.questions.aids"),
    (5, {"kind": "single_choice"}, "form.questions.aids.choices.none"),
    (7, {"relevant": "bedtime > 3"}, "form.questions.dose.relevant"),
    (7, {"relevant": "mood = 3"}, "form.questions.dose.relevant"),
    (7, {"kind": "heading"}, "form.questions.dose"),
]


def test_what_is_refused(golden: Golden) -> None:
    def read(place: int, change: dict[str, Any]) -> None:
        data = copy.deepcopy(RAW)
        data["questions"][place] |= change
        _form(data)

    golden(
        "form-kinds",
        StudyError,
        {f"{place}: {change}": (named, partial(read, place, change)) for place, change, named in IMPOSSIBLE},
    )


def test_a_heading_stands_before_a_question() -> None:
    data = copy.deepcopy(RAW)
    data["questions"].append({"name": "end", "kind": "heading", "label": "Thank you"})
    with pytest.raises(StudyError, match="a heading stands before a question"):
        _form(data)


def test_any_script_may_be_written() -> None:
    data: dict[str, Any] = copy.deepcopy(RAW) | {"languages": ["ar"]}
    data["questions"][0]["label"] = "لياليك"
    form = _form(data)
    assert form.pages_for({}, "ar")[0].headings[0].label == "لياليك"
    assert form.answers({**GOOD, "bedtime": "٢٣:٣٠"})["bedtime"] == 690


def test_eligibility_first_is_part_of_the_form() -> None:
    asked = {"name": "adult", "kind": "yes_no", "label": "Are you 18 or older?"}
    form = read_form({**RAW, "eligibility": [asked], "eligibility_first": True})
    assert form.eligibility_first
    assert read_form(form.to_dict()) == form
    assert "eligibility_first" not in read_form({**RAW, "eligibility": [asked]}).to_dict()
    for wrong in ({"eligibility_first": True}, {"eligibility": [asked], "eligibility_first": "yes"}):
        with pytest.raises(StudyError, match="eligibility_first must be true or false"):
            read_form({**RAW, **wrong})
