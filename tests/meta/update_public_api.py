"""Writes public_api.json: every public module of the packages people import, with its `__all__`.

Run it after a deliberate change: `python tests/meta/update_public_api.py`. The difference is what a reviewer reads.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("public_api.json")
# The server and the command line are programs, not libraries; their modules may change from one version to the next.
PACKAGES = ("client/trimask_core", "client/trimask_client", "sdk/trimask")


def declared_names(path: Path) -> list[str] | None:
    """A module's `__all__`, or None if it has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def module_name(path: Path) -> str:
    """The dotted name of a file below client/, theory/, server/, sdk/ or mobile/."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts[1:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_public(path: Path) -> bool:
    """Not private by its name or its folder's."""
    inner = path.relative_to(ROOT).with_suffix("").parts[1:]
    return not any(part.startswith("_") and part != "__init__" for part in inner)


def public_api() -> dict[str, list[str]]:
    """Names by module."""
    paths = [
        path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")) if is_public(path)
    ]
    return {module_name(path): sorted(names) for path in paths if (names := declared_names(path)) is not None}


if __name__ == "__main__":
    LIST.write_text(json.dumps(public_api(), indent=1) + "\n", encoding="utf-8")
