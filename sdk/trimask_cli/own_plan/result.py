"""The plan of a study definition, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trimask_cli.own_plan.predict import Prediction
from trimask_cli.own_plan.recommend import Recommendation
from trimask_core.study import SuiteName
from trimask_theory.definition import StudyDefinition

__all__ = ["OwnPlan", "SuitePlan"]


@dataclass(frozen=True)
class SuitePlan:
    """One suite: as the definition has it, with the best clipping, and the people needed for the errors wanted."""

    as_given: Prediction
    advice: Recommendation
    needed: int | None
    needed_best: int | None


@dataclass(frozen=True)
class OwnPlan:
    """Everything that is printed."""

    definition: StudyDefinition
    formula: str
    basis: str
    wanted: dict[str, float]
    suites: dict[SuiteName, SuitePlan]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "study": self.definition.title,
            "formula": self.formula,
            "basis": self.basis,
            "wanted": self.wanted,
            "suites": {
                name: {
                    "as_given": plan.as_given.to_dict(),
                    "recommended": plan.advice.to_dict(),
                    "people_needed": plan.needed,
                    "people_needed_recommended": plan.needed_best,
                }
                for name, plan in self.suites.items()
            },
        }
