"""The privacy theory: one module a theorem family. Each says what is proved, what is asymptotic, what is numerical."""

from trimask_core.guarantee import Guarantee, Neighbours
from trimask_theory.calibration import Calibration

__all__ = ["Calibration", "Guarantee", "Neighbours"]
