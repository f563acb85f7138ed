"""What an XLSForm's import gained: grids, exclusive choices, times, headings, CSV; and that every loss is listed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from trimask_cli.xlsform.kinds import exclusive_of
from trimask_core.form.file import read_form
from trimask_terminal.program import main

Sheet = Sequence[Sequence[str]]
SURVEY: Sheet = (
    ("type", "name", "label", "hint", "required", "relevant", "constraint", "constraint_message", "appearance",
     "default", "guidance_hint", "parameters"),
    ("begin_group", "night", "Your nights", "Of last week"),
    ("time", "bedtime", "When to bed?", "", "yes"),
    ("end_group",),
    ("note", "kind_words", "No answer is wrong."),
    ("begin_group", "moods", "How often were you", "", "", "", "", "", "table-list field-list"),
    ("select_one often", "calm", "calm?", "", "yes"),
    ("select_one often", "sad", "sad?", "think back", "yes"),
    ("end_group",),
    ("select_multiple aids", "aids", "What helps?", "", "yes", "",
     "not(selected(., 'none') and count-selected(.) > 1)", "None stands alone."),
    ("select_one often", "tired", "Tired?", "", "yes", "", ". != 'never'", "Surely not.", "likert", "often", "aside"),
    ("begin_group", "empty", "Nothing here"),
    ("text", "remarks", "Anything?"),
    ("end_group",),
    ("begin_group", "odd", "Odd table", "", "", "", "", "", "table-list"),
    ("integer", "count", "How many?", "", "yes", "", ". >= 0 and . <= 9", "", "", "", "", "randomize=true"),
    ("select_one often", "cross", "cross?", "", "yes"),
    ("end_group",),
)  # fmt: skip
CHOICES: Sheet = (
    ("list_name", "name", "label", "image"),
    ("often", "never", "Never"), ("often", "mostly", "Mostly", "smile.png"),
    ("aids", "tea", "Tea"), ("aids", "none", "None of these"),
)  # fmt: skip
SETTINGS: Sheet = (("form_title", "version", "style"), ("Sleep", "7", "pages"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("survey", SURVEY), ("choices", CHOICES), ("settings", SETTINGS)):
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8-sig", newline="") as text:
            csv.writer(text).writerows(rows)
    return tmp_path


def test_a_folder_of_csv_becomes_a_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import tomllib

    out = folder / "study.toml"
    assert main(["study", "import-xlsform", str(folder), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    form = read_form(tomllib.loads(out.read_text(encoding="utf-8"))["form"])
    kinds = [(question.name, question.kind) for question in form.questions]
    assert kinds == [
        ("night", "heading"), ("bedtime", "time"), ("kind_words", "heading"), ("moods", "grid"), ("aids", "multiple_choice"),
        ("tired", "single_choice"), ("odd", "heading"), ("count", "integer"), ("cross", "single_choice"),
    ]  # fmt: skip
    by_name = {question.name: question for question in form.questions}
    assert by_name["night"].help is not None
    assert [row.name for row in by_name["moods"].rows] == ["calm", "sad"]
    assert [choice.value for choice in by_name["aids"].choices if choice.exclusive] == ["none"]
    assert [one.label for one in form.pages_for({})[1].headings] == ["No answer is wrong."]
    for lost in (
        "settings: version (7)",
        "settings: style (pages)",
        "group moods: appearance (field-list)",
        "sad: hint; a grid's rows have none",
        "aids: constraint_message",
        "tired: constraint \". != 'never'\"",
        "tired: constraint_message",
        "tired: appearance (likert)",
        "tired: default (often)",
        "tired: guidance_hint (aside)",
        "tired, choice mostly: image (smile.png)",
        "group empty: its label",
        "remarks: text",
        "group odd: appearance (table-list)",
        "count: parameters (randomize=true)",
    ):
        assert lost in said, lost
    again = folder / "again.toml"
    assert main(["study", "import-xlsform", str(folder / "survey.csv"), "--out", str(again)]) == 0
    assert again.read_text().split("\n", 1)[1] == out.read_text().split("\n", 1)[1]


@pytest.mark.parametrize(
    ("constraint", "alone"),
    [
        ("not(selected(., 'none') and count-selected(.) > 1)", ("none",)),
        ("not(selected(.,'none')) or count-selected(.)=1", ("none",)),
        ('if(selected(., "none"), count-selected(.) = 1, true())', ("none",)),
        ("(selected(., 'a') and count-selected(.) = 1) or not(selected(., 'a'))", ("a",)),
        ("not(selected(.,'a') and count-selected(.)>1) and not(selected(.,'b') and count-selected(.)>1)", ("a", "b")),
        ("count-selected(.) <= 3", ()),
        ("not(selected(., 'a') and selected(., 'b'))", ()),
        ("(selected(., 'a') and count-selected(.) = 1) or not(selected(., 'b'))", ()),
    ],
)  # fmt: skip
def test_choices_that_stand_alone(constraint: str, alone: tuple[str, ...]) -> None:
    assert exclusive_of(constraint) == alone


def test_what_is_no_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "survey.csv").write_bytes(b"type,name\n\xff\xfe,x\n")
    assert main(["study", "import-xlsform", str(tmp_path), "--out", str(tmp_path / "x.toml")]) == 2
    assert "is not CSV in UTF-8" in capsys.readouterr().err
