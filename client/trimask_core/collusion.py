"""Who would have to collude to see a person's answers in a study, whatever its suite."""

from __future__ import annotations

from dataclasses import replace

from trimask_core.moments.collusion import MomentsCollusion
from trimask_core.rows import collusion as rows
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study

AnyReport = rows.CollusionReport | MomentsCollusion


def collusion_of(study: Study) -> AnyReport:
    """The study's collusion report."""
    if isinstance(study.suite, RowsSettings):
        seen = study.protection.right_providers
        return replace(
            rows.report(study.rows.topology),
            right_mu=None if seen is None else seen.mu,
            stored_mu=study.rows.noise_columns_mu,
            stored_rows=study.rows.max_block_rows,
        )
    return moments_collusion(study)


def moments_collusion(study: Study) -> MomentsCollusion:
    """The report of a study of the moments suite."""
    noise = bool(study.protection.sigma) or study.protection.budget is not None
    return MomentsCollusion(len(study.right), study.moments.honest_providers, noise)
