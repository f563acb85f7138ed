"""Pages run as a reader would paste them: the fenced blocks of a section, in order, in one shell.

`sh` blocks are commands, a `python` block is a program run there and then, and each line of a `text` block must come out of
what ran before it, in order. A block after `<!-- not run: why -->` is left out. The shell has a folder, a home and, where
the system lets us, a network of its own, so that a page's ports are free and nothing of the tester's settings is seen.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from trimask_patience import patience

__all__ = [
    "ROOT",
    "RUN",
    "Block",
    "Ran",
    "blocks",
    "missing_lines",
    "own_network",
    "own_root",
    "page_blocks",
    "run_blocks",
]

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: .+? -->\s*$", re.DOTALL)


RUN = {
    "README.md": ("# Trimask",),
    "docs/first-study.md": ("## The study", "## What a researcher sees"),
    "docs/deployment.md": ("## 1. Install", "## 3. Keys", "## 5. Start", "## 6. Approve a study"),
    "docs/governance.md": (
        "## An operator approves a study",
        "## Institutions are known",
        "## Researchers are given tokens",
    ),
    "docs/operations.md": ("## Sealing keys (right providers)", "## Backup and restore"),
}
"""The sections whose blocks tests run: every block of a page but for those it says are not run."""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str


@dataclass(frozen=True)
class Ran:
    """How a page's commands ended, and everything they printed."""

    status: int
    output: str


def blocks(page: str, heading: str) -> list[Block]:
    """The blocks below a heading of a page, up to the next heading of its level (of any level, below the page's title)."""
    text = "\n" + (ROOT / page).read_text(encoding="utf-8")
    start = text.index(f"\n{heading}\n") + 1
    level = heading.partition(" ")[0]
    rest = text[start + len(heading) :]
    # A comment of a shell program begins like a heading: only outside blocks does it end the section.
    bare = _FENCE.sub(lambda match: " " * len(match[0]), rest)
    following = re.search(r"^#+ " if level == "#" else rf"^#{{1,{len(level)}}} ", bare, re.MULTILINE)
    return _blocks(rest if following is None else rest[: following.start()])


def page_blocks(page: str) -> list[Block]:
    """Every block of a page, but for those it says are not run."""
    return _blocks((ROOT / page).read_text(encoding="utf-8"))


def _blocks(text: str) -> list[Block]:
    return [
        Block(match[1], match[2])
        for match in _FENCE.finditer(text)
        if not _NOT_RUN.search(text[: match.start()])
    ]


def own_network() -> list[str]:
    """What to put before a command for a network of its own; nothing where the system does not let us."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    tried = subprocess.run(
        ["unshare", "-rn", "sh", "-c", "ip link set lo up"], capture_output=True, check=False
    )
    return (
        ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if tried.returncode == 0
        else []
    )


_ROOT = """
set -e
mount -t tmpfs tmpfs "$0" && mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
mount --rbind /proc "$0/root/proc" && mount --rbind /dev "$0/root/dev"
ip link set lo up
exec chroot "$0/root" "$@"
"""


def own_root(folder: Path) -> list[str]:
    """What to put before a command for a root file system of its own (this one's, with changes kept apart and lost), and
    a network of its own; nothing where the system does not let us. `folder` is empty and stays so."""
    words = ["unshare", "-mn", "bash", "-c", _ROOT, str(folder)]
    if os.getuid() != 0 or not all(map(shutil.which, ("unshare", "ip", "mount", "chroot"))):
        return []
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else []


def run_blocks(
    found: list[Block],
    folder: Path,
    timeout_seconds: float = 240.0,
    inside: list[str] | None = None,
    after: str = "",
    answers: str = "",
) -> Ran:
    """Run them in `folder`; the shell stops at the first command that fails. `inside` is put before the shell, by default
    for a network of its own; `after` are commands of the test's own; `answers` is what somebody types when asked."""
    # A command that fails ends what it left in the background, which holds the output open.
    parts = ["set -eu -o pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", f"cd {folder}"]
    for block in found:
        if block.language == "sh":
            parts.append(block.text)
        elif block.language == "python":
            parts.append(f"python - <<'PROGRAM'\n{block.text}PROGRAM\n")
    parts.append(after)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "COLUMNS": "200",
        **{
            key: os.environ[key]
            for key in ("PYTHONPATH", "LANG", "PIP_INDEX_URL", "PIP_CONFIG_FILE")
            if key in os.environ
        },
    }
    process = subprocess.Popen(
        [*(own_network() if inside is None else inside), "bash", "-c", "\n".join(parts)],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(answers, timeout=patience(timeout_seconds))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += "\n(killed: it did not end)"
    finally:
        if process.returncode != 0:  # nodes it started in the background
            _end_group(process.pid)
    return Ran(process.returncode, output)


def _end_group(group: int) -> None:
    """End what a failed page left running."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def missing_lines(found: list[Block], output: str) -> list[str]:
    """Lines that a page shows and that did not come out in that order; `...` in a line stands for anything."""
    at, missing = 0, []
    for line in (
        line.strip() for block in found if block.language == "text" for line in block.text.splitlines()
    ):
        pattern = ".*?".join(re.escape(part) for part in line.split("..."))
        match = re.compile(pattern).search(output, at)
        if match is None:
            missing.append(line)
        else:
            at = match.end()
    return missing
