"""What the demo writes is JSON, however little noise leaves of an estimate."""

from __future__ import annotations

import json
import math

from trimask_cli.demo.report import _readable


def test_repro_an_unbounded_interval_is_null_in_the_report() -> None:
    """A first own table, of 600 people at epsilon 1, ended in a traceback: a limit was infinite."""
    found = _readable({"terms": [{"limits": (-math.inf, 2.0), "error": math.nan}], "name": "x", "rows": 3})
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "terms": [{"limits": [None, 2.0], "error": None}], "name": "x", "rows": 3,
    }  # fmt: skip
