"""The vectors of a device's whole way are what the code makes; tests/vectors/README.md names every file."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "vectors"
MAKE: dict[str, Any] = runpy.run_path(str(FOLDER / "make_device_vectors.py"))


def test_making_them_again_gives_the_same_files() -> None:
    for name, document in MAKE["documents"]().items():
        made = MAKE["written"](document)
        assert (FOLDER / name).read_text(encoding="utf-8") == made, (
            f"{name}: make it again, as the script says"
        )


def test_the_list_names_every_file() -> None:
    listed = set(re.findall(r"`([a-z-]+\.json)`", (FOLDER / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in FOLDER.glob("*.json")}
