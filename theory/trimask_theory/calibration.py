"""The result of every `calibrate`: the noise to use and the guarantee it gives."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.guarantee import Guarantee

__all__ = ["Calibration"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """`sigma` is rounded up, so that the guarantee holds at it; `method` names the theorem or search used."""

    sigma: float
    guarantee: Guarantee
    method: str
