"""Write core-tags.json: tag keys and tags of components, as every device and node must make them.

python tests/vectors/make_tag_vectors.py
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from trimask_core.rows.payloads import expand_component, expand_key, expand_spare, tag_component

CASES = (("one holder", 1, 4), ("two holders", 2, 9), ("a row of some width", 1, 70))


def case(name: str, holders: int, columns: int) -> dict[str, object]:
    """One key and one component."""
    seeds = [hashlib.sha256(f"{name} {i}".encode()).digest() for i in range(holders)]
    spare = hashlib.sha256(f"{name} spare".encode()).digest()
    component_seed = hashlib.sha256(f"{name} component".encode()).digest()
    keys = [expand_key(seed, columns) for seed in seeds]
    tagged = tag_component(expand_component(component_seed, columns, 2.0**46), spare, keys)
    return {
        "name": name,
        "keys": [seed.hex() for seed in seeds],
        "spare": spare.hex(),
        "columns": columns,
        "component_seed": component_seed.hex(),
        "share_steps": (2.0**46).hex(),
        "first_entries": [[vector[:3] for vector in key.vectors] for key in keys],
        "first_of_spare": f"{expand_spare(spare, columns)[0]:032x}",
        "tags": [[f"{tag:032x}" for tag in held] for held in tagged.tags],
        "spare_tags": [[f"{tag:032x}" for tag in held] for held in tagged.spare_tags],
    }


if __name__ == "__main__":
    cases = [case(*what) for what in CASES]
    path = Path(__file__).parent / "core-tags.json"
    path.write_text(json.dumps({"cases": cases}, indent=1) + "\n")
