"""Who would have to collude to see a person's answers in a study, whatever its suite."""

from __future__ import annotations

from trimask_core.moments.collusion import MomentsCollusion
from trimask_core.rows import collusion as rows
from trimask_core.rows.study import RowsSettings
from trimask_core.study import Study

__all__ = ["AnyReport", "collusion_of"]

AnyReport = rows.CollusionReport | MomentsCollusion


def collusion_of(study: Study) -> AnyReport:
    """The study's collusion report."""
    if isinstance(study.suite, RowsSettings):
        return rows.report(study.rows.topology)
    noisy = study.protection.sigma > 0 or study.protection.budget is not None
    return MomentsCollusion(len(study.right), study.moments.honest_providers, noisy)
