"""What a benchmark yields, and its JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

__all__ = ["Result", "Settings", "share_of_budget", "share_of_limit", "write_json"]

FORMAT = "trimask-bench/1"
Kind = Literal["speed", "budget"]


@dataclass(frozen=True)
class Settings:
    """How thorough a run is."""

    quick: bool = False

    def repeats(self, full: int, quick: int = 2) -> int:
        """Turns a measurement takes."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Result:
    """One measured thing beside its limit.

    kind "speed": `ratio` is the share of the limit's speed reached (1 is the limit, more is better) and `required`,
    if given, the least it may be. kind "budget": `ratio` is the share of a fixed budget used (less is better), at
    most `required`.
    """

    suite: str
    name: str
    kind: Kind
    value: float
    limit: float
    unit: str
    against: str
    ratio: float
    required: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the requirement is met; None without one."""
        if self.required is None:
            return None
        return self.ratio >= self.required if self.kind == "speed" else self.ratio <= self.required


def share_of_limit(
    suite: str,
    name: str,
    seconds: float,
    limit_seconds: float,
    against: str,
    *,
    required: float | None = None,
    **detail: Any,
) -> Result:
    """A speed: how long the subject and the limit took over the same work."""
    return Result(
        suite,
        name,
        "speed",
        1e3 * seconds,
        1e3 * limit_seconds,
        "ms",
        against,
        limit_seconds / seconds,
        required,
        detail,
    )


def share_of_budget(
    suite: str, name: str, value: float, budget: float, unit: str, against: str, **detail: Any
) -> Result:
    """A budget: what was spent of what may be."""
    return Result(suite, name, "budget", value, budget, unit, against, value / budget, 1.0, detail)


def write_json(path: Path, results: list[Result], settings: Settings, seconds: float) -> None:
    """Everything of a run in one file."""
    data = {
        "format": FORMAT,
        "quick": settings.quick,
        "seconds": round(seconds, 1),
        "machine": {
            "cores": os.cpu_count(),
            "load_average": os.getloadavg()[0],  # of other programs too: how quiet the machine was
            "architecture": platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "results": [asdict(result) | {"met": result.met} for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
