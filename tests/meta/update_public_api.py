"""Writes public_api.json: what users import, module by module. Everything else is private by its folder.

Run it after a deliberate change: `python tests/meta/update_public_api.py`. The difference is what a reviewer reads.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("public_api.json")
# What `trimask`, `trimask_client` and `trimask_theory` promise; each of these modules has an `__all__`.
PROMISED = (
    "client/trimask_client/__init__.py",
    "sdk/trimask/__init__.py",
    "sdk/trimask/errors.py",
    "sdk/trimask/fit/__init__.py",
    "sdk/trimask/plot.py",
    "sdk/trimask/release/__init__.py",
    "sdk/trimask/release/estimators.py",
    "sdk/trimask/release/local.py",
    "sdk/trimask/synthetic/__init__.py",
    "theory/trimask_theory/__init__.py",
    "theory/trimask_theory/accounting/__init__.py",
    "theory/trimask_theory/gaussian/gdp.py",
    "theory/trimask_theory/masking/masked_noise.py",
    "theory/trimask_theory/mechanisms/least_squares.py",
    "theory/trimask_theory/mechanisms/pca/__init__.py",
    "theory/trimask_theory/mechanisms/projection.py",
    "theory/trimask_theory/mechanisms/vector_sum.py",
)


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


def public_api() -> dict[str, list[str]]:
    """Names by module."""
    return {module_name(path): sorted(declared_names(path) or []) for path in map(ROOT.joinpath, PROMISED)}


if __name__ == "__main__":
    LIST.write_text(json.dumps(public_api(), indent=1) + "\n", encoding="utf-8")
