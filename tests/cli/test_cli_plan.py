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
    for word in ("sharp", "Theorem 3.4", "no mask", "uploads", "left mask", "1,024", "5.57 kB"):
        assert word in result.out
    assert "Corollary 3.5" not in result.out


def test_corollary_is_shown_where_it_is_stated(trimask: Run) -> None:
    result = trimask(
        *PLAN, "--epsilon", "0.5", "--protect", "unit", "--release-sizes", "1024", "--block-sizes", "64"
    )
    assert "Corollary 3.5" in result.out


def test_tables_fit_a_plain_terminal(trimask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = trimask(*PLAN, "--epsilon", "0.5", "--protect", "unit")
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
    ],
)
def test_bad_number_is_one_line(trimask: Run, arguments: tuple[str, ...], word: str) -> None:
    result = trimask(*PLAN, "--block-sizes", "64", "--release-sizes", "1024", *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"trimask: {word}")
    assert result.err.count("\n") == 1
