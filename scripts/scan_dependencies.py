"""Dependencies: consistent with each other, and not below what this project asks for; with --online, no known advisory.

The offline part is what `make lint` runs: it needs nothing but what is installed, and it knows nothing of
vulnerabilities found since the lowest versions in pyproject.toml were chosen. `make audit` asks the advisory service through
pip-audit; where that cannot be reached it says so and fails, for nothing was looked up.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def requirements() -> list[Requirement]:
    """What every distribution here and requirements-dev.txt ask for; markers that do not hold here are left out."""
    lines = []
    for path in sorted(ROOT.glob("*/pyproject.toml")):
        lines += tomllib.loads(path.read_text(encoding="utf-8"))["project"]["dependencies"]
    for line in (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith(("#", "--")):
            lines.append(line)
    found = [Requirement(line) for line in lines]
    return [item for item in found if item.marker is None or item.marker.evaluate()]


def too_old(wanted: list[Requirement]) -> list[str]:
    """What is installed in a version that is not allowed, or not at all."""
    wrong = []
    for item in wanted:
        try:
            version = importlib.metadata.version(item.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{item.name} is not installed; {item} is asked for")
            continue
        if not item.specifier.contains(version, prereleases=True):
            wrong.append(f"{item.name} is {version}; {item} is asked for")
    return wrong


def offline() -> list[str]:
    """Everything that can be said without a network."""
    wrong = too_old(requirements())
    checked = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    return wrong + (checked.stdout.splitlines() if checked.returncode else [])


def online() -> int:
    """Ask the advisory service: 0 nothing known, 1 something is, 2 it could not be asked."""
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--skip-editable", "--format", "json", "--progress-spinner", "off"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        report = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        print(
            f"the advisory service could not be asked, so NOTHING is known about vulnerabilities: {last[:200]}"
        )
        return 2
    found = [
        (item["name"], item.get("version"), flaw["id"]) for item in report for flaw in item.get("vulns", [])
    ]
    for name, version, flaw in found:
        print(f"{name} {version}: {flaw}")
    print(f"{len(report)} packages asked about, {len(found)} advisories")
    return int(bool(found))


def main() -> int:
    """Exit status 0 if what was asked for was looked at and is well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--online", action="store_true", help="also ask the advisory service")
    chosen = parser.parse_args()
    wrong = offline()
    for line in wrong:
        print(line)
    if not wrong:
        print(
            "dependencies: consistent, and none below its lowest version (no advisories looked up: `make audit`)"
        )
    asked = online() if chosen.online else 0
    return int(bool(wrong)) or asked


if __name__ == "__main__":
    sys.exit(main())
