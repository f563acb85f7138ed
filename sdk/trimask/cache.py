"""Where pulled datasets are kept: TRIMASK_CACHE, or the platform's folder for caches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(chosen: str | Path | None = None) -> Path:
    """The folder for datasets; `chosen` or the variable TRIMASK_CACHE override the platform's."""
    if chosen is not None:
        return Path(chosen).expanduser()
    if named := os.environ.get("TRIMASK_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "trimask"
