"""Headings, times of day, grids and exclusive choices in the running window, up to what the review understood."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_core.form.file import read_form
from trimask_core.study.schema import Attribute, Schema
from trimask_mobile.model.device import Device
from trimask_mobile.model.participation import Participation

MOODS = ("never", "sometimes", "often")
SCHEMA = Schema((
    Attribute("bedtime", "integer", 0, 1439),
    Attribute("calm", "categorical", levels=MOODS),
    Attribute("sad", "categorical", levels=MOODS),
    Attribute("aids_tea", "binary"),
    Attribute("aids_pill", "binary"),
    Attribute("aids_none", "binary"),
))  # fmt: skip
FORM = read_form(
    {
        "languages": ["en", "ar"],
        "questions": [
            {"name": "week", "kind": "heading", "label": {"en": "Your last week", "ar": "أسبوعك"},
             "help": {"en": "Think of the last seven days.", "ar": "آخر سبعة أيام"}},
            {"name": "bedtime", "kind": "time", "label": {"en": "When did you go to bed?", "ar": "متى؟"},
             "count": "minutes", "origin": "12:00"},
            {"name": "moods", "kind": "grid", "label": {"en": "How often were you", "ar": "كم مرة"},
             "choices": [{"value": mood, "label": {"en": mood.title(), "ar": "نعم"}} for mood in MOODS],
             "rows": [{"name": "calm", "label": {"en": "calm?", "ar": "هادئ"}},
                      {"name": "sad", "label": {"en": "sad?", "ar": "حزين"}}]},
            {"name": "aids", "kind": "multiple_choice", "label": {"en": "What helps you to sleep?", "ar": "ماذا"},
             "choices": [{"value": "tea", "label": {"en": "Tea", "ar": "شاي"}},
                         {"value": "pill", "label": {"en": "Pills", "ar": "حبوب"}},
                         {"value": "none", "label": {"en": "None of these", "ar": "لا"}, "exclusive": True}]},
        ],
    },
    SCHEMA,
)  # fmt: skip


@pytest.fixture
def asked(tmp_path: Path, make_study: Callable[..., Any], phone: Callable[..., Any]) -> Any:
    """A phone at the first question; nothing can be reached, and nothing has to be."""
    signed = make_study(schema=SCHEMA, form=FORM, label="kinds").signed
    device = Device(tmp_path / "phone" / "app")
    study_id = device.queue.join(signed)
    part = Participation(study_id, device.open(study_id).form, "", "en", step="question", at="bedtime")
    device.queue.save_draft(study_id, part.to_record())
    device.keep_consent(study_id, part.sign(int(time.time() * 1000)))
    device.keep_where({"screen": "question", "study": study_id.hex(), "link": ""})
    device.close()
    return phone()


def test_every_new_kind_is_asked_and_understood(asked: Any) -> None:
    app = asked
    seen = app.see("When did you go to bed?")["texts"]
    assert {"Your last week", "Think of the last seven days."} <= set(seen)
    app.write("bedtime", "late")
    app.tap("Next")
    app.see("Give a time of day such as 23:30.")
    app.do("clear", "bedtime")
    app.do("type", "11:30 pm")
    app.tap("Next")
    app.see("How often were you")
    app.tap("Next")
    assert app.see("An answer is needed.")["texts"].count("An answer is needed.") == 2
    app.tap("Often")
    app.tap("Next")
    assert app.see("An answer is needed.")["texts"].count("An answer is needed.") == 1
    app.do("tap", "Never", 1)
    app.tap("Next")
    app.see("What helps you to sleep?")
    for answer in ("Tea", "None of these"):
        app.tap(answer)
    app.tap("Next")
    shown = app.on("review")["texts"]
    assert "23:30" in shown
    assert "None of these" in shown  # it put the tea out
    assert {"Often", "Never"} <= set(shown)


def test_a_draft_is_deleted_only_when_a_person_is_sure(asked: Any) -> None:
    app = asked
    app.see("When did you go to bed?")
    app.write("bedtime", "22:10")
    for _ in range(3):
        app.tap("Back")
    app.on("studies")
    app.tap("Delete draft")
    app.see("Delete your answers to this study?")
    app.tap("Keep")
    app.see("Your answers so far are kept")
    app.tap("Delete draft")
    app.see("Delete your answers to this study?")
    app.tap("Delete draft")
    app.see("You have looked at this study and answered nothing.")
