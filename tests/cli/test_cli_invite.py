"""`trimask study invite` for an open study, which needs no collector; and the spans of time it takes."""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import segno

from trimask_cli import invitations
from trimask_cli.study_file import read_signed
from trimask_core.submit.invitation import Link
from trimask_terminal.options import duration_ms

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err


def test_an_open_study_has_one_link_for_everybody(trimask: Run, study_folder: Path) -> None:
    file = study_folder / "study.json"
    study = read_signed(file).study
    result = trimask("study", "invite", file)
    assert result.status == 0
    assert Link.parse(result.out) == Link(study.collector.address, study.id)
    for option in (("--count", "5"), ("--expires", "3d")):
        result = trimask("study", "invite", file, *option)
        assert result.status == 2
        assert "this study is open" in result.err


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_its_code_holds_the_link(trimask: Run, study_folder: Path, kind: str) -> None:
    file, codes = study_folder / "study.json", study_folder / "codes"
    result = trimask("study", "invite", file, "--qr", codes, "--qr-format", kind)
    assert result.status == 0
    study = read_signed(file).study
    wanted = io.BytesIO()
    segno.make_qr(str(Link(study.collector.address, study.id)), error="m").save(
        wanted, kind=kind, scale=4, border=4
    )
    (path,) = codes.iterdir()
    assert path.read_bytes() == wanted.getvalue()


def test_a_sheet_loads_nothing_from_elsewhere(trimask: Run, study_folder: Path) -> None:
    sheet = study_folder / "sheet.html"
    assert trimask("study", "invite", study_folder / "study.json", "--sheet", sheet).status == 0
    page = sheet.read_text()
    assert "Blood pressure and daily habits" in page
    assert not re.search(r"""(src|href)=|url\(|@import|<script""", page)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("45m", 2_700_000), ("12h", 43_200_000), ("30d", 2_592_000_000), ("1w", 604_800_000)],
)
def test_spans(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1.5d", "1y", "999999d"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="span of time"):
        duration_ms(text)


@pytest.mark.parametrize(
    "start", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "a,b\n=1+1", '"=1']
)
def test_no_cell_of_the_table_is_a_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """Also if links began with the collector's address, which whoever made the study chose."""
    link = Link(f"{start}:443", bytes(32))
    for name, text in (("as they are", str(link)), ("as the worst would be", f"{start}:443")):
        with monkeypatch.context() as patch:
            patch.setattr(Link, "__str__", lambda _, text=text: text)
            invitations.write_csv(tmp_path / f"{name}.csv", [link])
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            header, row = list(csv.reader(file))
        assert header == ["number", "link", "expires"]
        assert len(row) == 3
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for cell in row)
        assert row[1] in (text, f"'{text}")  # and it is all there
