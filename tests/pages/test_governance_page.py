"""docs/governance.md as pasted: operators approve a proposed study, a directory names them, a researcher gets a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimask_pages import RUN, Block, blocks, missing_lines, run_blocks

PAGE = "docs/governance.md"
# What the page takes for granted: keys, a study that nobody has signed, and nodes that answer.
BEFORE = """
trimask keys keys --right 2 --left 1 > /dev/null
trimask study example --suite rows --people 32 > study.toml
trimask study new study.toml --keys keys --out study.json > /dev/null
for node in R1 R2; do trimask right --config keys/$node/node.toml & done
trimask left --config keys/L1/node.toml &
trimask collector --config keys/collector/node.toml &
for node in collector R1 R2 L1; do
  until trimask node status --config keys/$node/node.toml > /dev/null 2>&1; do sleep 0.2; done
done
"""


@pytest.mark.slow
def test_a_study_is_approved_as_the_page_says(tmp_path: Path) -> None:
    found = [block for heading in RUN[PAGE] for block in blocks(PAGE, heading)]
    assert [block.language for block in found] == ["sh", "text"] * 3
    ran = run_blocks([Block("sh", BEFORE), *found], tmp_path, after="kill $(jobs -p); wait")
    assert ran.status == 0, ran.output[-4000:]
    assert missing_lines(found, ran.output) == [], ran.output[-4000:]
    assert (tmp_path / "ada.token").stat().st_mode & 0o077 == 0
