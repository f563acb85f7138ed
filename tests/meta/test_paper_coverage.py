"""The pages of coverage and errata name modules and tests that are there."""

from __future__ import annotations

import importlib
import json
import re
import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TABLE = runpy.run_path(str(ROOT / "scripts" / "paper_coverage.py"))
RESULTS: list[Any] = [item for results in TABLE["PAPERS"].values() for item in results]
ERRATA = (ROOT / "docs" / "theory" / "errata.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", ERRATA)


def test_the_page_is_the_tables() -> None:
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert page == TABLE["document"](), "run python scripts/paper_coverage.py > docs/coverage.md"


def test_every_statement_of_the_papers_has_one_row() -> None:
    """By the list of what they number, which was read from their texts: none missing, none twice, none invented."""
    listed = json.loads(Path(__file__).with_name("paper_statements.json").read_text(encoding="utf-8"))[
        "papers"
    ]
    assert sum(map(len, listed.values())) > 180
    assert list(listed) == list(TABLE["PAPERS"])
    numbered = re.compile(
        r"(?:" + "|".join({name.split()[0] for names in listed.values() for name in names}) + r") \S+$"
    )
    for paper, names in listed.items():
        rows = [part.strip() for item in TABLE["PAPERS"][paper] for part in item.what.split(";")]
        # "Lemma 2.4, converse": a part of it has a row of its own.
        whole = [row.split(",")[0] for row in rows]
        assert sorted(set(whole) & set(names)) == sorted(names), paper
        assert [row for row in whole if numbered.match(row) and row not in names] == [], paper
        assert len(rows) == len(set(rows)), paper


def _is_there(where: str) -> bool:
    try:
        importlib.import_module(where)
    except ModuleNotFoundError:
        module, _, name = where.rpartition(".")
        return bool(module) and _is_there(module) and hasattr(importlib.import_module(module), name)
    return True


def test_what_is_named_is_there() -> None:
    named = {item.where for item in RESULTS if item.where}
    assert len(named) > 20
    assert sorted(where for where in named if not _is_there(where)) == []


def test_every_test_that_is_named_is_there() -> None:
    named = {tuple(item.test.split("::")) for item in RESULTS if item.test} | set(NAMED)
    assert len(NAMED) > 15
    for file, name in sorted(named):
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_what_is_not_built_says_so() -> None:
    assert all(item.remark for item in RESULTS if not (item.where and item.test))
