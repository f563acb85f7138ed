"""The roles of a study's right providers."""

from __future__ import annotations

from trimask_core.study import Study

__all__ = ["right_roles"]


def right_roles(study: Study) -> list[str]:
    """R1, R2, ... of a study."""
    return [f"R{k}" for k in range(1, len(study.right) + 1)]
