"""The README's study by hand, as pasted, from keys to a dataset."""

from __future__ import annotations

from pathlib import Path

import trimask
from trimask_pages import blocks, missing_lines, run_blocks

HEADING = "## A study of your own, by hand"


def test_the_recipe_ends_with_a_dataset(tmp_path: Path) -> None:
    found = blocks("README.md", HEADING)
    assert [block.language for block in found] == ["sh", "python", "sh", "text"]
    ran = run_blocks(found, tmp_path)
    assert ran.status == 0, ran.output[-4000:]
    assert missing_lines(found, ran.output) == [], ran.output[-4000:]
    (folder,) = (tmp_path / "data").iterdir()
    assert trimask.Dataset.open(folder).rows == 64
