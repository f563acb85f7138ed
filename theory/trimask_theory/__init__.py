"""The privacy theory: one module a theorem family. Each says what is proved, what is asymptotic, what is numerical."""

from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import Calibration

__all__ = ["Calibration", "Guarantee", "Neighbours"]
