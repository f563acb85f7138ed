"""The models are a package of their own beside their tests, run by `make model` too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
