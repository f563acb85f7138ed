"""Whoever writes a study, or a node that answers, writes what a terminal obeys: escape sequences in a title or a refusal.

Without the check an operator who reads a study before approving it sees what its owner wants seen: a title that erases the
screen goes to the terminal as it is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from trimask_client.transport import Endpoint, call_error
from trimask_core.basics import encoding
from trimask_core.basics.errors import ConfigError, StudyError
from trimask_core.study import definition
from trimask_core.submit.institutions import Institution
from trimask_lab import NUMBERS, Lab
from trimask_terminal.program import main

ERASES = "Sleep\\u001b[2J\\u001b[1;1HNothing weak was found."


def _definition(title: str) -> str:
    return NUMBERS.replace('title = "Numbers"', f'title = "{title}"')


def test_without_the_check_a_title_erases_what_is_said_of_the_study(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(definition, "check_letters", lambda _: None)
    file = tmp_path / "study.json"
    file.write_text(lab.new_study(_definition(ERASES)).to_json())
    assert main(["study", "show", str(file)]) == 0
    assert "\x1b[2J" in capsys.readouterr().out
    monkeypatch.undo()  # and whoever has the check does not read it at all
    assert main(["study", "show", str(file)]) != 0
    told = capsys.readouterr()
    assert "title has U+001B" in told.err
    assert "\x1b" not in told.out + told.err


@pytest.mark.parametrize(
    "title", [ERASES, "Sleep\\nApproved by all", "Sleep \\u202eon", "a\\u2028b", "\\u009b2J"]
)
def test_nobody_makes_reads_or_approves_such_a_study(lab: Lab, title: str) -> None:
    with pytest.raises(StudyError, match=r"title has U\+[0-9A-F]{4}, a character that changes what is read"):
        lab.new_study(_definition(title))


def test_plain_letters_of_any_script_stay(lab: Lab) -> None:
    made = lab.new_study(_definition("Schlaf, сон, نوم‏, 睡眠 🛌")).study
    assert made.title.startswith("Schlaf")
    encoding.check_letters({"purpose": "two\nlines", "tls_roots": "\x1b is for no reader"})


def test_what_a_node_says_is_shown_without_them() -> None:
    error = call_error(Endpoint("r1:1", "r1", ""), "FAILED_PRECONDITION", "draining", "later\x1b[2J\x07")
    assert str(error) == "later\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}"


def test_an_institution_has_no_such_name() -> None:
    with pytest.raises(ConfigError, match=r"an institution's name has U\+202E"):
        Institution("A \u202ekrow", bytes(32))
