"""What the demo writes is JSON, however little noise leaves of an estimate."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from trimask_cli.demo.devices import blood_pressure_population
from trimask_cli.demo.report import keep_earlier, readable
from trimask_cli.demo.run_demo import Asked, what_it_takes
from trimask_cli.study_file import bundled_definition
from trimask_theory.planning.study_definition import load_definition


def test_repro_an_unbounded_interval_is_null_in_the_report() -> None:
    """A first own table, of 600 people at epsilon 1, ended in a traceback: a limit was infinite."""
    found = readable({"terms": [{"limits": (-math.inf, 2.0), "error": math.nan}], "name": "x", "rows": 3})
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "terms": [{"limits": [None, 2.0], "error": None}], "name": "x", "rows": 3,
    }  # fmt: skip


def test_repro_an_earlier_demo_is_kept(tmp_path: Path) -> None:
    """A second demo replaced the first one's results without a word; of another suite, it left its data beside its own."""
    out = tmp_path / "demo"
    out.mkdir()
    (out / "dataset.parquet").write_bytes(b"own")
    assert keep_earlier(out) is None  # not a demo's folder: nobody's file is moved
    assert keep_earlier(tmp_path / "none") is None
    for number in (1, 2):
        out.mkdir(exist_ok=True)
        (out / "report.json").write_text(str(number))
        assert keep_earlier(out) == tmp_path / f"demo.{number}"
        assert not out.exists()
    assert [(tmp_path / f"demo.{number}" / "report.json").read_text() for number in (1, 2)] == ["1", "2"]
    assert (tmp_path / "demo.1" / "dataset.parquet").read_bytes() == b"own"


def test_repro_a_run_of_few_people_says_how_many_it_takes() -> None:
    """An own table of some hundred people ended in dashes, or errors of inf, and no number of people or epsilon."""
    definition = load_definition(bundled_definition("moments")).changed(epsilon=1.0, release_rows=60)
    people, formula = blood_pressure_population(60, 7), "systolic ~ age + bmi"
    words = what_it_takes(Asked(definition, people, formula, 2, 0, people, own=True))
    assert words.startswith(
        "60 people at epsilon 1, with the settings that trimask plan recommends: no effect"
    )
    assert re.search(r"all of them with [\d,]+ people", words)
    assert what_it_takes(Asked(definition, people, formula, 2, 0, people)) == ""
