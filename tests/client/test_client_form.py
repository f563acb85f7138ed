"""Answers typed into the terminal client for a study with a form: every kind, and what is not taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_core.form.file import read_form
from trimask_core.study.schema import Attribute, Schema
from trimask_terminal.device.program import main

LEVELS = ("never", "often")
SCHEMA = Schema((
    Attribute("bedtime", "integer", 0, 1439),
    Attribute("calm", "categorical", levels=LEVELS),
    Attribute("aids_tea", "binary"),
    Attribute("aids_none", "binary"),
    Attribute("steps", "integer", 0, 90000),
))  # fmt: skip
FORM = read_form(
    {
        "languages": ["en"],
        "questions": [
            {"name": "bedtime", "kind": "time", "label": "When to bed?", "count": "minutes"},
            {"name": "moods", "kind": "grid", "label": "How often were you",
             "choices": [{"value": level, "label": level} for level in LEVELS],
             "rows": [{"name": "calm", "label": "calm?"}]},
            {"name": "aids", "kind": "multiple_choice", "label": "What helps?",
             "choices": [{"value": "tea", "label": "Tea"},
                         {"value": "none", "label": "None of these", "exclusive": True}]},
            {"name": "steps", "kind": "integer", "label": "Steps a day?"},
        ],
    },
    SCHEMA,
)  # fmt: skip


def test_what_is_typed_is_sealed_or_refused(
    tmp_path: Path, make_study: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.json"
    study.write_text(make_study(schema=SCHEMA, form=FORM, label="typed").signed.to_json(), encoding="utf-8")
    home = ["--home", str(tmp_path / "home"), "--timeout", "0.02"]
    assert main([*home, "join", str(study), "--yes"]) == 0
    given = ["bedtime=11:30 pm", "calm=often", "aids=tea", "steps=4000"]
    for wrong, said in (
        ("steps=4.000", "4.000 can mean 4 or 4000; write 4000 or 4"),
        ("aids=tea none", "“None of these” cannot be chosen together with another answer"),
        ("bedtime=late", "give a time of day such as 23:30"),
        ("moods=often", "this study does not ask that; it asks: bedtime, calm, aids, steps"),
    ):
        capsys.readouterr()
        assert main([*home, "answer", *given, wrong]) != 0
        assert said in capsys.readouterr().err
    assert main([*home, "answer", *given]) == 0
    assert "Sealed as" in capsys.readouterr().out
