"""JSON from others: no NaN, no infinity, and no number that turns into one."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

__all__ = ["read_json"]


def read_json(text: str | bytes) -> Any:
    """What a document says; ValueError if it is not JSON, or has a number that is not finite."""
    return json.loads(text, parse_float=_finite, parse_constant=_refuse)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _refuse(text)
    return value


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:24]} is not a finite number")
