"""Private answers: asked of a collector, or computed by whoever holds the rows.

    from trimask import release

    with trimask.connect("collector.example.org:7443") as collector:
        print(release.budget(collector, study_id))
        fit = release.ols(collector, study_id, "sbp", ["one", "age"], epsilon=0.5, delta=1e-7)

`sum`, `gram`, `ols`, `projection` and `pca` ask the collector of a study with a budget (the last two: of the rows suite
only); each answer is signed, carries its guarantee, and is paid for once however often the same `request_id` is sent.
`release.local` has the same mechanisms for an array or DataFrame of raw rows, `release.estimators` in the manner of
scikit-learn.
"""

from __future__ import annotations

from trimask.release import estimators, local
from trimask.release.answer import Answer
from trimask.release.asking import gram, ols, pca, projection, sum  # noqa: A004 - release.sum is what it is
from trimask.release.budget import BudgetEntry, BudgetStatus, budget
from trimask.release.results import PrivateComponents, PrivateFit, PrivateGram, PrivateProjection, PrivateSum

__all__ = [
    "Answer",
    "BudgetEntry",
    "BudgetStatus",
    "PrivateComponents",
    "PrivateFit",
    "PrivateGram",
    "PrivateProjection",
    "PrivateSum",
    "budget",
    "estimators",
    "gram",
    "local",
    "ols",
    "pca",
    "projection",
    "sum",
]
