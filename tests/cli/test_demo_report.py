"""What the demo writes is JSON, however little noise leaves of an estimate."""

from __future__ import annotations

import json
import math
from pathlib import Path

from trimask_cli.demo.report import _readable, clear_earlier


def test_repro_an_unbounded_interval_is_null_in_the_report() -> None:
    """A first own table, of 600 people at epsilon 1, ended in a traceback: a limit was infinite."""
    found = _readable({"terms": [{"limits": (-math.inf, 2.0), "error": math.nan}], "name": "x", "rows": 3})
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "terms": [{"limits": [None, 2.0], "error": None}], "name": "x", "rows": 3,
    }  # fmt: skip


def test_repro_a_demo_of_the_other_suite_leaves_no_data_of_the_first(tmp_path: Path) -> None:
    """dataset.parquet of the rows suite stayed beside the moments suite's manifest, which does not name it."""
    (tmp_path / "dataset.parquet").write_bytes(b"own")
    clear_earlier(tmp_path)
    assert (tmp_path / "dataset.parquet").exists()  # not a demo's folder: nobody's file is removed
    (tmp_path / "report.json").write_text("{}")
    clear_earlier(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"report.json"}
