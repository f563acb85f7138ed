"""A guarantee together with whom it is towards, in words."""

from __future__ import annotations

from typing import NamedTuple

from trimask_core.guarantee import Guarantee

__all__ = ["Towards"]


class Towards(NamedTuple):
    """`who` follows the word "towards"."""

    who: str
    guarantee: Guarantee
