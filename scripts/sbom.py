"""Bills of materials (CycloneDX 1.6, JSON) of every distribution and image: what is in it, at which version, by which hash.

    python scripts/sbom.py dist/

An image has every package of its lock file and the distributions that are built into it. A distribution has what an
installation of it brings, followed through the metadata of the installed packages, each at the version and by the hashes
of `requirements.lock`. Nothing is looked up: the files say the same on every machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
IMAGES = {
    "trimask-provider-image": ("deploy/provider.lock", ("client", "theory", "server")),
    "trimask-collector-image": ("deploy/collector.lock", ("client", "theory", "server")),
}
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")
Locked = dict[str, tuple[str, list[str]]]


def locked(path: Path) -> Locked:
    """(version, SHA-256 of each file) of every package in a lock file."""
    found: Locked = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if package := _PACKAGE.match(line):
            name = canonicalize_name(package[1])
            found[name] = (package[2], [])
        elif "--hash=sha256:" in line:
            found[name][1].append(line.split("sha256:")[1].split()[0])
    return found


def distributions() -> dict[str, dict[str, Any]]:
    """The `project` table of every distribution here, by its folder."""
    return {
        path.parent.name: tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for path in sorted(ROOT.glob("*/pyproject.toml"))
    }


def brought(asked: Iterable[str], extras: Iterable[str] = ()) -> set[str]:
    """The packages that these requirements bring on this machine, by the metadata of what is installed."""
    found: set[str] = set()
    waiting = [(line, tuple(extras)) for line in asked]
    seen: set[tuple[str, str]] = set()
    while waiting:
        line, within = waiting.pop()
        item = Requirement(line)
        if item.marker is not None and not any(
            item.marker.evaluate({"extra": extra}) for extra in within or [""]
        ):
            continue
        name = canonicalize_name(item.name)
        found.add(name)
        for extra in ["", *item.extras]:
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [(further, (extra,)) for further in importlib.metadata.requires(name) or []]
    return found


def bill(name: str, version: str, kind: str, parts: Mapping[str, tuple[str, list[str]]]) -> dict[str, Any]:
    """One bill of materials. Its serial number follows from what is in it, so that the same content is the same file."""
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{part}@{found}",
            "name": part,
            "version": found,
            "purl": f"pkg:pypi/{part}@{found}",
            **(
                {"hashes": [{"alg": "SHA-256", "content": value} for value in sorted(hashes)]}
                if hashes
                else {}
            ),
        }
        for part, (found, hashes) in sorted(parts.items())
    ]
    of = json.dumps([name, version, components])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, of)}",
        "version": 1,
        "metadata": {"component": {"type": kind, "bom-ref": name, "name": name, "version": version}},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [part["bom-ref"] for part in components]}],
    }


def bills() -> dict[str, dict[str, Any]]:
    """Every bill of materials, by what it is of."""
    version = (ROOT / "VERSION").read_text(encoding="ascii").strip()
    projects, everything = distributions(), locked(ROOT / "requirements.lock")
    own = {canonicalize_name(project["name"]): (version, list[str]()) for project in projects.values()}
    found = {}
    for project in projects.values():
        parts = {name: own.get(name) or everything[name] for name in brought(project["dependencies"])}
        found[project["name"]] = bill(project["name"], version, "library", parts)
    for image, (lock, folders) in IMAGES.items():
        built = {canonicalize_name(projects[folder]["name"]): (version, list[str]()) for folder in folders}
        found[image] = bill(image, version, "container", locked(ROOT / lock) | built)
    return found


def main(arguments: list[str]) -> int:
    """Write a file for each into a folder."""
    folder = Path(arguments[0] if arguments else "dist")
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in bills().items():
        path = folder / f"{name}.cdx.json"
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"{path}: {len(document['components'])} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
