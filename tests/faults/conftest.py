"""The fault schedules are a package of their own, run by `make faults` too; people come from the simulation."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "simulation")]
