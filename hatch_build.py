"""What the workspace consists of: the distributions of this repository, from their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PARTS = {
    "trimask-client": ("client", "[grpc,numpy,terminal]"),
    "trimask-theory": ("theory", ""),
    "trimask-server": ("server", "[collector]"),
    "trimask": ("sdk", "[demo]"),
}


class Workspace(MetadataHookInterface):
    """Names each folder by its place: a plain dependency would be looked for at the package index."""

    def update(self, metadata: dict[str, Any]) -> None:
        here = Path(self.root)
        metadata["dependencies"] = [
            f"{name}{extras} @ {(here / folder).as_uri()}" for name, (folder, extras) in PARTS.items()
        ]
        metadata["optional-dependencies"] = {"app": [f"trimask-mobile @ {(here / 'mobile').as_uri()}"]}
