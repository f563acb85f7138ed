"""docs/deployment.md as pasted: as root, with the user it names, in a root file system of its own; then what the systemd
unit allows, carried out by hand: the keys read-only but for their ledgers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trimask_pages import ROOT, RUN, Block, blocks, missing_lines, own_root, run_blocks

PAGE = "docs/deployment.md"
# The program of section 1 has no commands of `trimask`, which owners install: they are taken away, but from the owner.
AWAY = """
here=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir /aside && mv $here/_trimask.pth $here/trimask-*.dist-info /aside/
! trimask study --help > /dev/null 2>&1
"""
# What the owner does with the card: a study of R2 and of institutions elsewhere, proposed through its collector.
THE_OWNER = """
mv /aside/* $here/
echo "127.0.0.1 r2.example.org" >> /etc/hosts
trimask keys others --right 2 --left 1 --base-port 7500 > /dev/null
cat ca.pem others/authority/ca.pem > both.pem
for file in /etc/trimask/keys/ca.pem others/*/ca.pem; do cp both.pem $file; done
kill -HUP $(cat /var/lib/trimask/node.lock)
trimask study example --suite rows --people 32 > study.toml
trimask study new study.toml --owner others/owner --roots both.pem --out study.json \\
  --party others/collector/node.json others/R1/node.json others/L1/node.json /var/lib/trimask/R2.json > /dev/null
trimask collector --config others/collector/node.toml &
until trimask node status --config others/collector/node.toml > /dev/null 2>&1; do sleep 0.2; done
for try in $(seq 60); do
  trimask study propose study.json --owner others/owner || true
  trimask node studies --config /etc/trimask/node.toml --json | grep -q waiting && break || sleep 0.5
done
mv $here/_trimask.pth $here/trimask-*.dist-info /aside/
"""
# What the unit does: /etc/trimask read-only but for keys/moments, the user's own folder writable, another start.
AS_THE_UNIT = """
kill $(jobs -p); wait
mount --bind /etc/trimask /etc/trimask && mount -o remount,bind,ro /etc/trimask
mount --bind /etc/trimask/keys/moments /etc/trimask/keys/moments && mount -o remount,bind,rw /etc/trimask/keys/moments
! runuser -u trimask -- touch /etc/trimask/keys/x
runuser -u trimask -- touch /etc/trimask/keys/moments/x && rm /etc/trimask/keys/moments/x
runuser -u trimask -- trimask right --config /etc/trimask/node.toml &
for try in $(seq 300); do curl -sf http://127.0.0.1:7402/readyz && break || sleep 0.2; done
echo STARTED READ-ONLY
runuser -u trimask -- trimask right --config /etc/trimask/node.toml || echo SECOND REFUSED $?
kill $(jobs -p); wait
"""


@pytest.mark.slow
@pytest.mark.parametrize("https", ["", " --https-listen 0.0.0.0:7443"])
def test_the_page_makes_a_node_that_starts(tmp_path: Path, https: str) -> None:
    """As pasted; and the same node with a port for browsers."""
    (tmp_path / "root").mkdir()
    inside = own_root(tmp_path / "root")
    if not inside:
        pytest.skip("needs root, and a kernel that lets it mount an overlay")
    *before, approve = RUN[PAGE]
    found = [block for heading in before for block in blocks(PAGE, heading)]
    found += [Block("sh", THE_OWNER), *blocks(PAGE, approve)]
    made = "--data /var/lib/trimask"
    found = [Block(block.language, block.text.replace(made, made + https)) for block in found]
    assert [block.language for block in found] == ["sh", "sh", "text", "sh", "sh", "text", "sh", "sh", "text"]
    # The tester's Python may be in a home that others cannot enter; in this root they can.
    reached = {
        parent
        for path in (Path(sys.executable), Path(sys.executable).resolve(), ROOT)
        for parent in path.parents
    }
    open_up = Block("sh", f"chmod o+x {' '.join(map(str, sorted(reached)))} {ROOT}\n")
    ran = run_blocks(
        [open_up, Block("sh", AWAY), *found], tmp_path, 500, inside=inside, after=AS_THE_UNIT, answers="y\n"
    )
    assert ran.status == 0, ran.output[-4000:]
    assert missing_lines(found, ran.output) == [], ran.output[-4000:]
    assert "STARTED READ-ONLY" in ran.output
    assert "R2 runs already: process" in ran.output
    assert "SECOND REFUSED 2" in ran.output
    assert not Path("/etc/trimask").exists()  # all of it was in a root of its own
