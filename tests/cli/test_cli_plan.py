"""`trimask plan`: tables, JSON and the picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err
PLAN = ("plan", "--epsilon", "1", "--delta", "1e-6", "--attributes", "9", "--rows", "2048")


def test_table_has_every_method_and_cost(trimask: Run) -> None:
    result = trimask(*PLAN, "--release-sizes", "1024", "--block-sizes", "128", "256")
    assert result.status == 0
    for word in ("sharp", "Theorem 3.4", "no mask", "uploads", "left mask", "1,024", "10.9 kB"):
        assert word in result.out
    assert "Corollary 3.5" not in result.out


def test_corollary_is_shown_where_it_is_stated(trimask: Run) -> None:
    result = trimask(
        *PLAN, "--epsilon", "0.5", "--protect", "unit", "--release-sizes", "1024", "--block-sizes", "64"
    )
    assert "Corollary 3.5" in result.out


def test_tables_fit_a_plain_terminal(trimask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ends = (
        "--block-sizes",
        "64",
        "1024",
    )  # of what it has by itself; every line of a table is as wide as its widest
    result = trimask(*PLAN, "--epsilon", "0.5", "--protect", "unit", *ends)
    assert "…" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_json_is_the_plan(trimask: Run) -> None:
    result = trimask(
        *PLAN, "--release-sizes", "1024", "2048", "--block-sizes", "128", "--right", "5", "--json"
    )
    plan = json.loads(result.out)
    assert [release["release_rows"] for release in plan["releases"]] == [1024, 2048]
    assert plan["target"]["right"] == 5
    assert plan["releases"][0]["sigma"]["sharp"] < plan["releases"][0]["sigma"]["theorem"]
    assert plan["blocks"][0]["collector_epsilon"]["1024"] > 1


def test_suites_stand_side_by_side(trimask: Run) -> None:
    small = ("--release-sizes", "1024", "--block-sizes", "128", "--right", "2")
    both = trimask(*PLAN, *small).out
    line = next(line for line in both.splitlines() if line.startswith("any so many together see no answer"))
    assert line.split()[-2:] == ["1", "1"]
    assert "The suites side by side" in both
    assert "Both right providers together could read" in both
    rows = trimask(*PLAN, *small, "--suite", "rows").out
    assert "side by side" not in rows
    assert "Theorem 3.4" in rows
    alone = trimask(*PLAN, *small, "--suite", "moments", "--right", "4", "--honest", "3").out
    assert "The moments suite" in alone
    assert "any 3 of 4 right providers" in alone
    assert "Theorem 3.4" not in alone


def test_json_has_both_suites(trimask: Run) -> None:
    small = ("--release-sizes", "1024", "--block-sizes", "128", "--json")
    both = json.loads(trimask(*PLAN, *small).out)
    alone = json.loads(trimask(*PLAN, *small, "--suite", "moments").out)
    assert both["moments"] == alone["moments"]
    assert (both["target"].pop("right"), alone["target"].pop("right")) == (4, 2)
    assert both["target"] == alone["target"]
    assert "blocks" not in alone
    assert "moments" not in json.loads(trimask(*PLAN, *small, "--suite", "rows").out)
    ball = json.loads(trimask(*PLAN, *small, "--suite", "moments", "--row-norm", "1.5").out)["moments"]
    assert ball["sigma"] == pytest.approx(both["moments"]["sigma"] / 4, rel=1e-9)  # 1.5^2 of 9
    assert ball["upload_bytes"] > both["moments"]["upload_bytes"]


def test_a_change_of_one_is_of_the_rows_suite(trimask: Run) -> None:
    small = ("--release-sizes", "1024", "--block-sizes", "128", "--protect", "unit")
    assert "side by side" not in trimask(*PLAN, *small).out
    refused = trimask(*PLAN, *small, "--suite", "moments")
    assert refused.status == 2
    assert "protect must be 'record'" in refused.err


def test_picture_is_drawn(trimask: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.png"
    small = ("--release-sizes", "1024", "--block-sizes", "128", "--json")
    assert trimask(*PLAN, *small, "--plot", file).status == 0
    with Image.open(file) as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}
        assert picture.size == (1650, 720)
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73)} <= colours  # the curves are there


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--epsilon", "-1"), "epsilon must be"),
        (("--rows", "9"), "rows must be"),
        (("--release-sizes", "9"), "release_sizes must be"),
        (("--block-sizes", "4096"), "block_sizes must be"),
        (("--plot", "plan.txt"), "plot must be"),
        (("--plot", "plan.png", "--suite", "moments"), "--plot draws"),
        (("--right", "2", "--honest", "2"), "honest must be"),
    ],
)
def test_bad_number_is_one_line(trimask: Run, arguments: tuple[str, ...], word: str) -> None:
    result = trimask(*PLAN, "--block-sizes", "64", "--release-sizes", "1024", *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"trimask: {word}")
    assert result.err.count("\n") == 1
