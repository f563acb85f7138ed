"""Every command of docs/deployment.md and docs/operations.md, on a cluster with HTTPS ports: those in
blocks as pasted, those in sentences as the script below has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trimask_pages import ROOT, RUN, Block, blocks, missing_lines, run_blocks

OPERATIONS = "docs/operations.md"
_COMMAND = re.compile(r"trimask ((?:node|study|receipt) [a-z][a-z-]*|keys|collector|right|left)\b")
BEFORE = """
trimask keys keys --right 2 --left 1 --http --https > /dev/null
trimask study example --suite rows --people 32 > study.toml
trimask study new study.toml --keys keys --out study.json > /dev/null
for node in R1 R2; do trimask right --config keys/$node/node.toml 2> keys/$node/node.log & done
trimask left --config keys/L1/node.toml 2> keys/L1/node.log &
trimask collector --config keys/collector/node.toml 2> keys/collector/node.log &
for node in collector R1 R2 L1; do
  until trimask node status --config keys/$node/node.toml > /dev/null 2>&1; do sleep 0.2; done
done
trimask study propose study.json --owner keys/owner > /dev/null
id=$(trimask study show study.json --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"][:12])')
trimask node studies $id --config keys/L1/node.toml > /dev/null
for node in collector R1 R2 L1; do trimask node approve $id --yes --config keys/$node/node.toml > /dev/null; done
trimask study open study.json --owner keys/owner > /dev/null
"""
IN_SENTENCES = """
for node in collector R1 R2 L1; do
  trimask node doctor --config keys/$node/node.toml
  trimask node card --config keys/$node/node.toml > /dev/null
  trimask node studies --config keys/$node/node.toml | grep "$id"
done
trimask study status study.json | grep -q open
trimask study token new study.json --owner keys/owner --name me --scope owner --expires 1d > /dev/null
trimask node drain --config keys/R1/node.toml
trimask node drain --resume --config keys/R1/node.toml
trimask node audit --verify --config keys/R1/node.toml
cd keys/R1
trimask node rotate-storage-key --config node.toml
trimask node rotate-storage-key --config node.toml --destroy-retired
"""
STOP = """
kill $(cat data/node.lock) && until ! kill -0 $(cat data/node.lock) 2> /dev/null; do sleep 0.1; done
"""
AGAIN = """
trimask right --config node.toml 2> restored.log &
until trimask node status --config node.toml > /dev/null 2>&1; do sleep 0.2; done
trimask node audit --verify --config node.toml
trimask node audit --config node.toml
cat restored.log
cd ../..
kill $(jobs -p); wait
"""
ELSEWHERE = {
    "node init": "the deployment page's own test",
    "node refuse": "the governance page's",
    "study abandon": "tests/attacks/active/test_active_stuck_blocks.py, with a block that fails",
    "receipt verify": "tests/cli",
    "study end-releases": "tests/release",
}


@pytest.mark.slow
def test_every_command_on_a_cluster_with_https(tmp_path: Path) -> None:
    sealing, made, restored = [block for heading in RUN[OPERATIONS] for block in blocks(OPERATIONS, heading)]
    assert [block.language for block in (sealing, made, restored)] == ["sh"] * 3
    script = [
        Block("sh", BEFORE), Block("sh", IN_SENTENCES), sealing, made, Block("sh", STOP), restored, Block("sh", AGAIN),
    ]  # fmt: skip
    ran = run_blocks(script, tmp_path, 500)
    assert ran.status == 0, ran.output[-4000:]
    assert " ERROR " not in ran.output, ran.output[-4000:]
    for node in ("collector", "R1", "R2", "L1"):
        assert f"{node}: everything is in order." in ran.output, ran.output
    assert (
        missing_lines(
            [Block("text", "New work is accepted again.\nWhole:...\nNew key...\n...backup: ...")], ran.output
        )
        == []
    )
    written = {page: (ROOT / page).read_text(encoding="utf-8") for page in (OPERATIONS, "docs/deployment.md")}
    run = "\n".join(block.text for block in script)
    for page, text in written.items():
        named = {match[1] for match in _COMMAND.finditer(text)}
        assert named - {match[1] for match in _COMMAND.finditer(run)} <= set(ELSEWHERE), page
