"""README.md as pasted: the study by hand, from keys to a dataset; and all of the page in a new environment."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import trimask
from trimask_pages import ROOT, RUN, Block, blocks, missing_lines, page_blocks, run_blocks

RESEARCHER, INSTALL, HEADING = RUN["README.md"]


@pytest.mark.parametrize("page", RUN)
def test_no_block_is_left_out(page: str) -> None:
    """Every block is run by a test of this folder, or says that it is not and why. TOML and what has no language (a
    drawing) are no commands."""
    ran = [block for heading in RUN[page] for block in blocks(page, heading)]
    assert ran == [block for block in page_blocks(page) if block.language not in ("toml", "")]


def test_the_recipe_ends_with_a_dataset(tmp_path: Path) -> None:
    found = blocks("README.md", HEADING)
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
    (install,) = blocks("README.md", INSTALL)
    its_own = Block("sh", f"export PATH={Path(sys.base_prefix) / 'bin'}:$PATH")
    new = run_blocks([its_own, install], checkout, 1800, inside=[])
    assert new.status == 0, new.output[-4000:]
    enter = Block("sh", f". {checkout}/trimask-env/bin/activate")
    researcher = blocks("README.md", RESEARCHER)
    assert [block.language for block in researcher] == ["python"]
    demo = Block("sh", "trimask demo --participants 1024 > /dev/null")
    folder = tmp_path / "folder"
    folder.mkdir()
    ran = run_blocks([enter, demo, *researcher, *blocks("README.md", HEADING)], folder, 1800)
    assert ran.status == 0, ran.output[-4000:]
    assert missing_lines(blocks("README.md", HEADING), ran.output) == [], ran.output[-4000:]
    assert (folder / "coefficients.png").stat().st_size > 0
