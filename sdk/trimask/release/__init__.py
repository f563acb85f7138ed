"""Private answers: asked of a collector, or computed by whoever holds the rows.

    from trimask import release

    with trimask.connect("collector.example.org:7443") as collector:
        print(release.budget(collector, study_id))
        gram = release.gram(collector, study_id, epsilon=0.5, delta=1e-7)
    print(trimask.fit.ols(gram, "sbp ~ age").summary())  # and every other model, at no further cost

`gram`, `ols`, `pca` and `sum` ask the collector of a study with a budget, whose right providers add the noise. Each answer
is signed, carries its guarantee, and is paid for once however often it is asked. `release.local` has these and the papers'
mechanisms (M_LS, M_ALS, projections, exponential mechanisms) for whoever lawfully holds an array or DataFrame of rows,
`release.estimators` in the manner of scikit-learn.
"""

from __future__ import annotations

from trimask.release import estimators, local
from trimask.release.answer import Answer
from trimask.release.asking import gram, ols, pca, sum  # noqa: A004 - release.sum is what it is
from trimask.release.budget import BudgetEntry, BudgetStatus, budget
from trimask.release.fits import PrivateComponents, PrivateFit
from trimask.release.results import PaperMechanism, PrivateGram, PrivateProjection, PrivateSum

__all__ = [
    "Answer",
    "BudgetEntry",
    "BudgetStatus",
    "PaperMechanism",
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
    "sum",
]
