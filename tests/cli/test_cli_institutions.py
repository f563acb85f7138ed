"""`trimask study institutions`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_from_cards_to_a_directory_that_names_every_party(trimask: Run, study_folder: Path) -> None:
    book, key = study_folder / "institutions.json", study_folder / "keeper.key"
    cards = sorted((study_folder / "keys").glob("*/node.json"))
    signing = ("study", "institutions", "sign", book, "--keeper", "A university", "--key", key)
    assert trimask(*signing, "--card", *cards[:-1]).status == 0
    common = ("study", "institutions", "verify", book, "--study", study_folder / "study.json")
    result = trimask(*common)
    assert result.status == 1
    assert "is NOT in this directory" in result.out
    assert trimask(*signing, "--card", cards[-1]).status == 0
    found = trimask(*common, "--json")
    assert (found.status, json.loads(found.out)["unknown"]) == (0, [])
    wrong = trimask(*common, "--keeper-key", "00" * 32)
    assert wrong.status not in (0, 1)
    assert "another keeper" in wrong.err
    other = trimask(*signing[:-1], study_folder / "other.key")
    assert other.status not in (0, 1)
    assert "another keeper" in other.err  # nobody extends another's directory
