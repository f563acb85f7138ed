"""docs/releases.md as a reader would use it: its study opens, and its Python runs as pasted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trimask
from trimask_client import Client

PAGE = (Path(__file__).parents[2] / "docs" / "releases.md").read_text(encoding="utf-8")
REST = """
release_rows = 48
[[attributes]]
name = "age"
kind = "integer"
minimum = 18
maximum = 99
[[attributes]]
name = "dose"
kind = "continuous"
minimum = 0
maximum = 100
[[attributes]]
name = "sbp"
kind = "continuous"
minimum = 60
maximum = 260
[[attributes]]
name = "smoker"
kind = "binary"
[[attributes]]
name = "region"
kind = "categorical"
levels = ["north", "south"]
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_examples_run_as_pasted(
    release_lab: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = 'title = "T"\npurpose = "p"\ncontact = "c"\n' + blocks("toml")[0] + REST
    signed = release_lab.open_study(definition)
    rng = np.random.default_rng(1)
    with Client(signed) as device:
        for age, dose in zip(rng.integers(18, 99, 48), rng.normal(20, 4, 48), strict=True):
            answers = {"age": int(age), "dose": float(dose), "sbp": 100.0 + age / 2}
            device.submit(answers | {"smoker": int(age) % 2, "region": ("north", "south")[int(age) % 3 == 0]})
    release_lab.close(signed.study)
    collector, connect = signed.study.collector, trimask.connect

    def here(target: str, *, certificate: tuple[str, str]) -> trimask.Connection:
        """The page's collector and key files, as this machine has them."""
        assert (target, certificate) == ("collector.example.org:7444", ("owner/tls.pem", "owner/tls.key"))
        folder = release_lab.owner
        return connect(
            collector.peer_address,
            roots=folder / "ca.pem",
            tls_name=collector.tls_name,
            certificate=(folder / "tls.pem", folder / "tls.key"),
        )

    monkeypatch.setattr(trimask, "connect", here)
    pasted: dict[str, Any] = {"study_id": signed.study.id}
    for block in blocks("python"):
        exec(compile(block, "docs/releases.md", "exec"), pasted)  # noqa: S102 - our own page
    assert pasted["again"].answer.raw == pasted["fit"].answer.raw
    shown = capsys.readouterr().out
    assert "Budget, answering from 48 rows" in shown
    assert "Private sum over 20000 rows" in shown
    assert pasted["model"].guarantee_.epsilon == 1.0


def test_the_commands_the_page_names_exist() -> None:
    from trimask_terminal.program import build_parser

    for line in blocks("sh")[0].splitlines():
        words = line.split("#")[0].split()
        if words[0] == "trimask":
            assert build_parser(words[1]).parse_args(words[1:]).run is not None
