"""A study with a form, answered from a shell."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from trimask_terminal.device.program import main
from trimask_theory.planning.study_definition import load_definition

ANSWERS = [
    "age=1980-05-01",
    "wellbeing=7",
    "sleep_hours=7.5",
    "shift_work=no",
    "exercise=some",
    "aids=tea medicine",
]


@pytest.fixture
def home(make_study: Any, tmp_path: Path) -> list[str]:
    text = (files("trimask_cli") / "data" / "sleep-and-wellbeing.toml").read_text(encoding="utf-8")
    definition = load_definition(text)
    assert definition.form is not None
    form = definition.form.created(1_700_000_000_000)
    made = make_study(schema=definition.schema, form=form, label="form")
    (tmp_path / "study.json").write_text(made.signed.to_json())
    home = ["--home", str(tmp_path / "home")]
    assert main([*home, "join", str(tmp_path / "study.json"), "--id", made.study.id.hex()]) == 0
    return home


def test_answers_go_through_the_form(home: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*home, "answer", *ANSWERS, "--agree"]) == 0
    assert "Sealed as" in capsys.readouterr().out


def test_repro_nothing_is_sealed_before_consent(
    home: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may take part and the consent are shown in any case; then a person is asked, and a script must say it."""
    monkeypatch.setenv("LANG", "en_GB.UTF-8")
    for more in ([], ["--json"], ["--send"]):
        assert main([*home, "answer", *ANSWERS, *more]) == 2
        assert "give --agree if the person has read it" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for said, status in (("n", 2), ("yes", 0)):
        asked: list[str] = []
        monkeypatch.setattr("builtins.input", lambda text, said=said, asked=asked: asked.append(text) or said)
        assert main([*home, "answer", *ANSWERS]) == status
        shown = capsys.readouterr()
        assert len(asked) == 1
        assert "You can take part if: " in shown.out
        assert "(consent, version " in shown.out
        assert ("Sealed as" in shown.out) is (status == 0)


def test_who_may_not_take_part_is_told(home: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*home, "answer", *ANSWERS, "adult=no", "--agree"]) == 2
    assert "adult: with this answer you cannot take part" in capsys.readouterr().err


def test_what_the_form_refuses(home: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, said in (
        ("age=2020-01-01", "age: The study is for people of 18 to 90 years."),
        ("aids=beer", "aids: choose from the answers offered ("),
        ("aids_tea=yes", "aids_tea: this study does not ask that; it asks: "),
    ):
        assert main([*home, "answer", *ANSWERS, wrong]) == 2
        assert said in capsys.readouterr().err
