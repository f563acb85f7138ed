"""The version that runs here, read once: the collector asks every node for it several times a second."""

from __future__ import annotations

import importlib.metadata

__all__ = ["VERSION"]

VERSION = importlib.metadata.version("trimask-server")
