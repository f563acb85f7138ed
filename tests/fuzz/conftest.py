"""The fuzz targets are a package of their own, run by `make fuzz` too; the study comes from the simulation."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS / folder) for folder in ("fuzz", "simulation", "faults")]
