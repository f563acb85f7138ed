"""What a right provider must find when it opens its sealed part of a submission, whatever the suite."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["SEED", "VECTOR", "PayloadForm"]

SEED, VECTOR = b"\x01", b"\x02"
"""The first byte of a payload: a 32-byte seed follows, or values of 8 bytes each."""


@dataclass(frozen=True)
class PayloadForm:
    """For which right provider a payload is, of how many, and how many values a whole share has, in which suite.

    `more` bytes follow the share; a share sent whole is no longer than `longest`, as a vector.
    """

    suite: str
    provider: int
    providers: int
    values: int
    more: int = 0
    longest: float = math.inf
