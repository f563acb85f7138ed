"""Models on a release. Everything here needs second moments alone, which is what masking keeps.

    results = trimask.fit.ols(dataset, "sbp ~ age + smoker + C(region)")
    print(results.summary())

| function                 | noise correction | standard errors                                             |
|--------------------------|------------------|-------------------------------------------------------------|
| `ols`                    | yes              | sampling and privacy                                        |
| `linear_probability`     | yes              | sampling and privacy                                        |
| `logit`                  | yes              | sampling and privacy; of groups, or synthetic records       |
| `ridge`                  | yes              | sampling and privacy, about the penalised coefficients      |
| `lasso`, `elastic_net`   | yes              | none: a selection has none of first order; `bootstrap` it   |
| `mediation`              | yes              | sampling and privacy, by Sobel and by bootstrap             |
| `tsls`                   | yes              | sampling and privacy                                        |
| `describe`               | yes              | sampling and privacy                                        |
| `crosstab`, `means`, `rates`, `table_one` | yes | sampling and privacy                                    |
| `histogram`, `quantiles`, `survival` | yes  | sampling and privacy; from bins that the study declares     |
| `correlations`, `partial_correlations` | yes              | sampling (normal rows) and privacy                          |
| `pca`                    | yes              | sampling (normal rows) and privacy                          |
| `factor_loadings`        | yes              | sampling (normal rows) and privacy                          |
| `naive_ols`              | no, on purpose   | wrong: for comparison                                       |
| `ols_from_rows`          | not needed       | sampling                                                    |

Every function takes a dataset, its moments, what `trimask.release.gram` returns, or a list of releases of one study, which
it pools. `weighted` makes such a source of people weighted by the levels of a group. `glm`, `poisson`, `quantile` and `cox`
say why they cannot be had, and what can.
"""

from __future__ import annotations

from typing import NoReturn

from trimask.fit.bootstrap import BootstrapResults, bootstrap
from trimask.fit.components import PCAResults, pca
from trimask.fit.crosstab import ChiSquare, CrosstabResults, crosstab
from trimask.fit.description import (
    DescribeResults,
    PartialCorrelationResults,
    correlations,
    describe,
    partial_correlations,
)
from trimask.fit.estimates import EstimateTable
from trimask.fit.factors import FactorResults, factor_loadings
from trimask.fit.formula import nearest
from trimask.fit.group_means import MeansResults, means, weighted
from trimask.fit.grouped_logit import LogitResults, logit
from trimask.fit.histograms import HistogramResults, QuantileResults, histogram, quantiles
from trimask.fit.least_squares import Diagnostics
from trimask.fit.ols_results import (
    LinearProbabilityResults,
    OLSResults,
    linear_probability,
    naive_ols,
    ols,
    ols_from_rows,
    rows_for_error,
)
from trimask.fit.paper_tables import ColumnsOfFits, summary_col, table_one
from trimask.fit.prediction import PredictionResults
from trimask.fit.rates import RateResults, SurvivalResults, rates, survival
from trimask.fit.results import FTest, LinearResults, TTest
from trimask.fit.ridge import RidgeResults, ridge
from trimask.fit.sparse import SparseResults, elastic_net, lasso
from trimask.fit.two_stage import MediationResults, TSLSResults, mediation, tsls
from trimask.fit.unavailable_models import ALIASES, INSTEAD, glm, refuse

__all__ = [
    "BootstrapResults",
    "ChiSquare",
    "ColumnsOfFits",
    "CrosstabResults",
    "DescribeResults",
    "Diagnostics",
    "EstimateTable",
    "FTest",
    "FactorResults",
    "HistogramResults",
    "LinearProbabilityResults",
    "LinearResults",
    "LogitResults",
    "MeansResults",
    "MediationResults",
    "OLSResults",
    "PCAResults",
    "PartialCorrelationResults",
    "PredictionResults",
    "QuantileResults",
    "RateResults",
    "RidgeResults",
    "SparseResults",
    "SurvivalResults",
    "TSLSResults",
    "TTest",
    "bootstrap",
    "correlations",
    "crosstab",
    "describe",
    "elastic_net",
    "factor_loadings",
    "glm",
    "histogram",
    "lasso",
    "linear_probability",
    "logit",
    "means",
    "mediation",
    "naive_ols",
    "ols",
    "ols_from_rows",
    "partial_correlations",
    "pca",
    "quantiles",
    "rates",
    "ridge",
    "rows_for_error",
    "summary_col",
    "survival",
    "table_one",
    "tsls",
    "weighted",
]


def __getattr__(name: str) -> NoReturn:
    if name in ALIASES:
        refuse(ALIASES[name])
    if name in INSTEAD:
        raise AttributeError(f"trimask.fit has no {name}: {INSTEAD[name]}")
    asked = [item for item in __all__ if item.islower()]  # what is called; results come of themselves
    raise AttributeError(f"trimask.fit has no {name}; {nearest(name, asked)}")
