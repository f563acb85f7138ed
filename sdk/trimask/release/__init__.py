"""Private answers: asked of a collector, or computed by whoever holds the rows.

    from trimask import release

    with trimask.connect("collector.example.org:7443") as collector:
        print(release.budget(collector, study_id))
        gram = release.gram(collector, study_id, epsilon=0.5, delta=1e-7)
    print(trimask.fit.ols(gram, "sbp ~ age").summary())  # and every other model, at no further cost

`gram`, `ols`, `pca`, `sum` and `projection` ask the collector of a study with a budget. `method=` is the mechanism
everywhere: "noisy_gram" is in both suites and has standard errors; "M_LS", "M_ALS", projections and the exponential
mechanisms are the papers' (rows suite only), and say what error they have. Each answer is signed, carries its guarantee,
and is paid for once however often the same `request_id` is sent. `release.local` has the same mechanisms for an array or
DataFrame of raw rows, `release.estimators` in the manner of scikit-learn.
"""

from __future__ import annotations

from trimask.release import estimators, local
from trimask.release.answer import Answer
from trimask.release.asking import gram, ols, pca, projection, sum  # noqa: A004 - release.sum is what it is
from trimask.release.budget import BudgetEntry, BudgetStatus, budget
from trimask.release.fits import PrivateComponents, PrivateFit
from trimask.release.papers import PaperMechanism
from trimask.release.results import PrivateGram, PrivateProjection, PrivateSum

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
    "projection",
    "sum",
]
