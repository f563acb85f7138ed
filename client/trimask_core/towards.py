"""A guarantee together with the party it protects against, in words."""

from __future__ import annotations

from typing import NamedTuple

from trimask_core.guarantee import Guarantee

__all__ = ["Towards"]


class Towards(NamedTuple):
    """`who` follows the word "towards"."""

    who: str
    guarantee: Guarantee
