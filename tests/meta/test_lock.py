"""The lock files: everything that is asked for is in them, in a version that is allowed, by its hashes.

`make lock` writes them again; what it finds newer is for a person to take (`make lock UPGRADE=--upgrade`).
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
OURS = {"trimask", "trimask-client", "trimask-mobile", "trimask-server", "trimask-theory"}
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)(?: ; (.+?))? \\$")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NODE = ("--editable ./client[grpc,numpy,terminal]", "--editable ./theory")
LOCKS = {
    "requirements.lock": (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines(),
    "requirements-demo.lock": [
        *NODE,
        "--editable ./server[collector]",
        "--editable ./sdk[demo]",
        "hatchling>=1.27",
    ],
    "deploy/provider.lock": [*NODE, "--editable ./server[postgres,tracing]"],
    "deploy/collector.lock": [*NODE, "--editable ./server[collector,postgres,tracing]"],
    "deploy/build.lock": ["hatchling>=1.27"],
}


def asked_for(lines: list[str]) -> list[Requirement]:
    """The requirements of these lines; a distribution of ours stands for what it and its extras ask for."""
    found = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith("--editable"):
            found.append(Requirement(line))
            continue
        folder, _, extras = line.split()[1].partition("[")
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        found += map(Requirement, project["dependencies"])
        for extra in filter(None, extras.rstrip("]").split(",")):
            found += map(Requirement, project["optional-dependencies"][extra])
    return [item for item in found if canonicalize_name(item.name) not in OURS]


def locked(path: Path) -> list[tuple[Requirement, int]]:
    """Each pinned package with the number of its hashes."""
    found: list[tuple[Requirement, int]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := PINNED.match(line):
            name, version, marker = match.groups()
            found.append((Requirement(f"{name}=={version}" + (f" ; {marker}" if marker else "")), 0))
        elif line.startswith("    --hash=sha256:"):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            assert line.startswith("#"), f"{path.name}: neither a version nor a hash: {line}"
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_everything_asked_for_is_locked_in_an_allowed_version_on_every_python(name: str) -> None:
    pinned = locked(ROOT / name)
    missing = []
    for python in PYTHONS:
        here = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
        versions = {
            canonicalize_name(item.name): str(item.specifier).removeprefix("==")
            for item, _ in pinned
            if item.marker is None or item.marker.evaluate(here)
        }
        for item in asked_for(LOCKS[name]):
            if item.marker is not None and not item.marker.evaluate(here):
                continue
            version = versions.get(canonicalize_name(item.name))
            if version is None or not item.specifier.contains(version, prereleases=True):
                missing.append(f"{item} (locked: {version}, Python {python})")
    assert not missing, f"run `make lock`: {missing}"


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_comes_by_a_hash_and_from_no_named_place(name: str) -> None:
    assert [item.name for item, hashes in locked(ROOT / name) if not hashes] == []
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")


def test_workflows_run_actions_at_one_commit() -> None:
    """A tag can be moved to other code, which would run with the workflow's rights (publishing, signing)."""
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [line for file in files for line in re.findall(r"uses: (.+)", file.read_text(encoding="utf-8"))]
    assert used
    loose = [line for line in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line)]
    assert not loose
