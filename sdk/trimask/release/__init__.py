"""Private answers: asked of a collector, or computed by whoever holds the rows.

    from trimask import release

    with trimask.connect("collector.example.org:7443") as collector:
        print(release.budget(collector, study_id))
        gram = release.gram(collector, study_id, epsilon=0.5, delta=1e-7)
    print(trimask.fit.ols(gram, "sbp ~ age").summary())  # and every other model, at no further cost

`table`, `histogram` and `group_means` count people, each with the noise of what one person can move of it; `gram`, `ols`,
`pca` and `sum` are of columns. They ask the collector of a study with a budget, whose right providers add the noise. Each
answer is signed, carries its guarantee, and is paid for once however often it is asked. `release.local` has these and the
papers' mechanisms (M_LS, M_ALS, projections, exponential mechanisms) for whoever lawfully holds an array or DataFrame of
rows, `release.estimators` in the manner of scikit-learn.
"""

from __future__ import annotations

from trimask.release import estimators, local
from trimask.release.asking import (  # release.sum is what it is
    BudgetEntry,
    BudgetStatus,
    budget,
    gram,
    group_means,
    histogram,
    ols,
    pca,
    sum,  # noqa: A004
    table,
)
from trimask.release.results import (
    Answer,
    PaperMechanism,
    PrivateComponents,
    PrivateFit,
    PrivateGram,
    PrivateProjection,
    PrivateSum,
)
from trimask.release.tables import PrivateMeans, PrivateTable

__all__ = [
    "Answer",
    "BudgetEntry",
    "BudgetStatus",
    "PaperMechanism",
    "PrivateComponents",
    "PrivateFit",
    "PrivateGram",
    "PrivateMeans",
    "PrivateProjection",
    "PrivateSum",
    "PrivateTable",
    "budget",
    "estimators",
    "gram",
    "group_means",
    "histogram",
    "local",
    "ols",
    "pca",
    "sum",
    "table",
]
