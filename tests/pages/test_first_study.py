"""README.md and docs/first-study.md as pasted: the example, the study by hand, and both in a new environment."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import trimask
from trimask_pages import ROOT, RUN, Block, blocks, missing_lines, page_blocks, run_blocks

PAGE = "docs/first-study.md"
STUDY, RESEARCHER = RUN[PAGE]


@pytest.mark.parametrize("page", RUN)
def test_no_block_is_left_out(page: str) -> None:
    """Every block is run by a test of this folder, or says that it is not and why. TOML, a proxy's settings
    (tests/operations/test_console_sign_in.py runs them) and what has no language (a drawing) are no commands."""
    ran = [block for heading in RUN[page] for block in blocks(page, heading)]
    assert ran == [block for block in page_blocks(page) if block.language not in ("toml", "apache", "")]


def test_the_readme_is_read_in_a_minute_or_two() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 500


def test_the_example_prints_what_the_readme_shows(tmp_path: Path) -> None:
    install, *example = blocks("README.md", "# Trimask")
    assert [install.language, *(block.language for block in example)] == ["sh", "python", "text"]
    ran = run_blocks(example, tmp_path)
    assert ran.status == 0, ran.output[-4000:]
    assert missing_lines(example, ran.output) == [], ran.output[-4000:]


def test_the_study_ends_with_a_dataset(tmp_path: Path) -> None:
    found = blocks(PAGE, STUDY)
    assert [block.language for block in found] == ["sh", "python", "sh", "text"]
    ran = run_blocks(found, tmp_path)
    assert ran.status == 0, ran.output[-4000:]
    assert missing_lines(found, ran.output) == [], ran.output[-4000:]
    (folder,) = (tmp_path / "data").iterdir()
    assert trimask.Dataset.open(folder).rows == 64
    # The nodes' logs: while nodes start, one may not be up yet; when they stop, nothing is under way.
    _, stops, ending = ran.output.partition("draining: takes no new work")
    assert stops
    assert not re.findall(r"^.* (?:WARNING|ERROR) .*$", ending, re.MULTILINE)


@pytest.mark.slow
def test_installed_anew_from_a_checkout_everything_runs_as_pasted(tmp_path: Path) -> None:
    """In an environment that has nothing else: install, the demo's dataset as a researcher sees it, the study by hand."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
    install, *example = blocks("README.md", "# Trimask")
    its_own = Block("sh", f"export PATH={Path(sys.base_prefix) / 'bin'}:$PATH")
    new = run_blocks([its_own, install], checkout, 1800, inside=[])
    assert new.status == 0, new.output[-4000:]
    enter = Block("sh", f". {checkout}/trimask-env/bin/activate")
    researcher = blocks(PAGE, RESEARCHER)
    assert [block.language for block in researcher] == ["python"]
    demo = Block("sh", "trimask demo --participants 1024 > /dev/null")
    folder = tmp_path / "folder"
    folder.mkdir()
    pasted = [*example, demo, *researcher, *blocks(PAGE, STUDY)]
    ran = run_blocks([enter, *pasted], folder, 1800)
    assert ran.status == 0, ran.output[-4000:]
    assert missing_lines(pasted, ran.output) == [], ran.output[-4000:]
    assert (folder / "coefficients.png").stat().st_size > 0
