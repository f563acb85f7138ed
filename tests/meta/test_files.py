"""Nothing in a file names the machine it was written on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPED = {".git", ".venv", "out", "build", "dist", "node_modules"}
# Written in two halves, so that this file does not find itself.
MACHINE = re.compile(r"(?<![\w.])/" + r"(home|root|Users|work|tmp)/\w")


def committed() -> list[Path]:
    """What git tracks or would track; everything but caches where there is no git."""
    git = shutil.which("git")
    if git is not None and (ROOT / ".git").exists():
        command = [git, "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not any(part in SKIPPED or part.endswith("cache") for part in path.parts)
    ]


def test_no_machine_paths() -> None:
    found: list[str] = []
    for path in committed():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in MACHINE.finditer(text)]
    assert found == []


def test_the_search_would_find_one() -> None:
    assert MACHINE.search("open('/" + "home/someone/x')")
    assert len(committed()) > 100
