"""The mechanisms as estimators in the manner of scikit-learn, without needing it: parameters in, `fit`, results with `_`.

Every `fit` is a private release of its own and costs its price anew.
"""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trimask.errors import ParameterError, TrimaskError
from trimask.release import local
from trimask_core.study.derived import ONES

if TYPE_CHECKING:
    from trimask_theory.gaussian.grid_gaussian import NormalSource

__all__ = ["PrivateLinearRegression", "PrivateMean", "PrivatePCA"]

Array = NDArray[np.float64]


class _Estimator:
    """`get_params` and `set_params` from the signature of `__init__`, as scikit-learn's clone expects."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's signature
        """Every parameter by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Replace parameters by name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ParameterError("parameter", "one of " + ", ".join(known), name)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if k != "source")
        return f"{type(self).__name__}({shown})"

    def _fitted(self, name: str) -> Any:
        if not hasattr(self, name):
            raise TrimaskError(f"call fit before asking a {type(self).__name__} for anything")
        return getattr(self, name)

    def _remember(self, X: Any) -> None:
        """`n_features_in_`, and `feature_names_in_` where the columns have names."""
        self.n_features_in_ = int(np.shape(X)[1])
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)

    def _rows(self, X: Any) -> Array:
        """Rows to predict or transform: numbers, as many columns as were fitted, under the same names."""
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self._fitted("n_features_in_"):
            raise ParameterError("X", f"a matrix of {self.n_features_in_} columns, as in fit", rows.shape)
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        if names is not None and hasattr(self, "feature_names_in_") and names != list(self.feature_names_in_):
            raise ParameterError("X", "of the columns given to fit: " + ", ".join(self.feature_names_in_))
        return rows


@dataclass(repr=False, eq=False)
class PrivateMean(_Estimator):
    """Column means by a private sum. `lower` and `upper` are public bounds."""

    lower: Any
    upper: Any
    _: KW_ONLY
    epsilon: float
    delta: float
    method: str = "elliptical"
    source: NormalSource | None = None

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Release the sums; `mean_`, `noise_` (standard deviation of each mean's noise), `guarantee_`."""
        found = local.sum(X, **self.get_params())
        self._remember(X)
        self.mean_: Array = np.asarray(found.mean, dtype=np.float64)
        self.noise_: Array = np.asarray(found.noise / found.rows, dtype=np.float64)
        self.guarantee_ = found.guarantee
        return self

    def transform(self, X: Any) -> Array:
        """The rows with the private means taken off."""
        mean = self._fitted("mean_")
        return np.asarray(self._rows(X) - mean, dtype=np.float64)

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """`fit`, then `transform`."""
        return self.fit(X, y).transform(X)


@dataclass(repr=False, eq=False, kw_only=True)
class PrivateLinearRegression(_Estimator):
    """Least squares by the noisy Gram matrix (the default, with standard errors), or by the papers' "M_LS" or "M_ALS".

    `row_norm` bounds a row of the features and the response together, without the intercept's 1, which is added to it.
    """

    row_norm: float
    epsilon: float
    delta: float
    method: str = "noisy_gram"
    reduced_dim: int | None = None
    fit_intercept: bool = True
    neighbours: str = "record"
    source: NormalSource | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Release a fit; `coef_`, `intercept_`, `sigma_`, `guarantee_`; by the noisy Gram matrix also `results_`, which is
        `trimask.fit.ols`'s, `bse_` and `intercept_bse_`.
        """
        features, response = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if features.ndim != 2 or response.shape != features.shape[:1]:
            raise ParameterError("X and y", "a matrix and one number for each of its rows")
        # Columns may be called anything; a formula's may not.
        names = [f"x{j}" for j in range(features.shape[1])]
        frame = pd.DataFrame(np.column_stack((features, response)), columns=[*names, "y"])
        params = self.get_params()
        ones = [ONES] * params.pop("fit_intercept")
        found = local.ols(frame, "y", [*ones, *names], **params)
        self.guarantee_, self.sigma_, self.results_ = found.guarantee, found.sigma, found.results
        if found.params is None:
            raise TrimaskError(
                "the noise is larger than what these columns carry: no coefficients. It is paid for. "
                + found.refusal
            )
        first = int(self.fit_intercept)
        values = np.asarray(found.params, dtype=np.float64)
        self.intercept_ = float(values[0]) if first else 0.0
        self.coef_: Array = values[first:]
        for name in ("bse_", "intercept_bse_"):
            self.__dict__.pop(name, None)
        if found.results is not None:
            errors = np.asarray(found.results.bse, dtype=np.float64)
            self.bse_: Array = errors[first:]
            self.intercept_bse_ = float(errors[0]) if first else 0.0
        self._remember(X)
        return self

    def summary(self, alpha: float = 0.05) -> str:
        """The table of the fit; x0, x1, .. are the columns of X in order."""
        results = self._fitted("results_")
        if results is None:
            raise ParameterError(
                "method", "noisy_gram: the papers' mechanisms have no standard errors", self.method
            )
        return f"{results.summary(alpha)}\n{self.guarantee_}"

    def predict(self, X: Any) -> Array:
        """Fitted values."""
        slopes = self._fitted("coef_")
        return np.asarray(self._rows(X) @ slopes + self.intercept_, dtype=np.float64)

    def score(self, X: Any, y: Any) -> float:
        """R^2 on the rows given. It is computed from them as they are: this is not a private release."""
        response = np.asarray(y, dtype=np.float64)
        left = float(np.sum((response - self.predict(X)) ** 2))
        return 1 - left / float(np.sum((response - response.mean()) ** 2))


@dataclass(repr=False, eq=False)
class PrivatePCA(_Estimator):
    """Principal components: "noisy_gram" about the mean, with errors; the papers' exponential mechanisms about the origin,
    of which "rank" works on ranks of any rows.
    """

    n_components: int
    _: KW_ONLY
    mu: float
    row_norm: float | None = None
    method: str = "adaptive"
    test_share: float = 0.2
    neighbours: str = "record"
    source: NormalSource | None = None

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Release the components; `components_` (k x p), `mean_` (zero for the papers'), `beta_`, `guarantee_`."""
        params = self.get_params()
        found = local.pca(X, params.pop("n_components"), **params)
        self.guarantee_, self.beta_ = found.guarantee, found.beta
        if found.components is None:
            raise TrimaskError("these components are not achievable at this price. The test is paid for")
        self._remember(X)
        self.components_: Array = found.components.to_numpy().T
        self.results_ = found.results
        centre = np.zeros(self.n_features_in_) if found.centre is None else found.centre
        self.mean_: Array = np.asarray(centre, dtype=np.float64)
        return self

    def transform(self, X: Any) -> Array:
        """Coordinates along the components. They are about single rows: this is not a private release."""
        components = self._fitted("components_")
        return np.asarray((self._rows(X) - self.mean_) @ components.T, dtype=np.float64)

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """`fit`, then `transform`."""
        return self.fit(X, y).transform(X)
