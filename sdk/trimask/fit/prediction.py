"""What a fit predicts for people described in original units, with errors.

Statement. For a row x of regressors x^T beta is a combination of coefficients, with a standard error of its own
(`trimask_theory.mechanisms.noisy_regression`): that is the error of the mean. One more person's answer has the residual
variance beside it, from the corrected moments; where the noise hides that, there is no interval for a person.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from trimask.errors import ParameterError
from trimask.fit.design import Design
from trimask.fit.estimates import Estimates, EstimateTable
from trimask.fit.results import LinearResults
from trimask_core.study.derived import ONES
from trimask_core.study.schema import Schema
from trimask_theory.mechanisms.noisy_regression import Combination
from trimask_theory.moments.noise_law import Matrix


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PredictionResults(Estimates):
    """What `predict` of a fit returns.

    Attributes
    ----------
    mean, se_mean : Series
        A row a person asked for, and its errors; `conf_int(of="obs")` is for one more person.
    scale : float
        The residual variance; NaN where the noise hides it.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.ols(data, "systolic ~ age")
    >>> fit.predict([{"age": 30}, {"age": 60}]).summary_frame().shape
    (2, 6)
    """

    formula: str
    scale: float

    @property
    def title(self) -> str:
        """What this is."""
        return f"Predictions of {self.formula.partition('~')[0].strip()}"

    @property
    def mean(self) -> pd.Series[float]:
        """Of all people like that."""
        return self.estimates("mean").frame["estimate"].rename("mean")

    @property
    def se_mean(self) -> pd.Series[float]:
        """Its errors."""
        return self.estimates("mean").frame["std err"].rename("mean_se")

    @classmethod
    def of(cls, fitted: LinearResults, found: Combination, scale: float, index: pd.Index) -> Self:
        """Predictions by what was `fitted`: the combinations `found`, a row of `index` each.

        `scale` is the residual variance, NaN where it is not known.
        """
        df = fitted.df_resid
        mean = EstimateTable.of(index, found, df=df, head="mean", caption="mean")
        spread = np.sqrt(mean.sampling**2 + scale)
        obs = replace(mean, sampling=spread, combination=None, head="obs", caption="one more person")
        hidden = (
            [] if np.isfinite(scale) else ["The noise hides the residual variance: no interval for a person."]
        )
        return cls(
            label=fitted.label, nobs=fitted.nobs, sigma=fitted.sigma, about=[("model", fitted.formula)],
            tables={"mean": mean, "obs": obs}, formula=fitted.formula, scale=scale,
            remarks=("mean: of all people like that, noise and sampling in its error; obs: one more such person.", *hidden),
        )  # fmt: skip

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """As statsmodels names them, intervals of level 1 - `alpha`: mean, mean_se, mean_ci_lower, .., obs_ci_upper."""
        mean, obs = self.conf_int(alpha, "mean"), self.conf_int(alpha, "obs")
        ends = {
            "mean_ci_lower": mean[0],
            "mean_ci_upper": mean[1],
            "obs_ci_lower": obs[0],
            "obs_ci_upper": obs[1],
        }
        return pd.DataFrame({"mean": self.mean, "mean_se": self.se_mean, **ends})


def regressor_rows(rows: Any, design: Design, schema: Schema) -> tuple[Matrix, pd.Index]:
    """The regressors of people given as a DataFrame or mappings (one, or a list), in original units, and their index."""
    if isinstance(rows, Mapping):
        rows = [rows]
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    if not len(frame):
        raise ParameterError("rows", "at least one person")
    for item in schema.attributes:
        if item.kind in ("integer", "continuous") and item.name in frame.columns:
            low, high = item.bounds
            beyond = [value for value in _numbers(frame, item.name) if not low <= value <= high]
            if beyond:
                words = f"{item.name} = {beyond[0]:g} is outside the study's bounds, {low:g} to {high:g}: nobody answered so"
                warnings.warn(words, stacklevel=3)
    columns = [_values(frame, name, schema) for name in design.columns]
    return np.column_stack(columns), frame.index


def _values(frame: pd.DataFrame, name: str, schema: Schema) -> Matrix:
    """A column of the study for these people: as given, or from the answers it is formed of."""
    if name == ONES:
        return np.ones(len(frame))
    if name in frame.columns:
        return _numbers(frame, name)
    if "+" in name:  # merged levels
        merged: Matrix = np.sum([_values(frame, part, schema) for part in name.split("+")], axis=0)
        return merged
    column = next(item for item in schema.columns if item.name == name)
    made = _formed(frame, column.source, schema)
    names = [item.name for item in schema.parts[column.source].columns]
    found: Matrix = made[:, names.index(name)]
    if column.within is not None:  # in original units: the number itself, on the members
        found = found + column.middle * _values(frame, column.within, schema)
    return found


def _formed(frame: pd.DataFrame, name: str, schema: Schema) -> Matrix:
    """The columns of an attribute, a level or something derived, in original units, a row a person."""
    attribute = next((item for item in schema.attributes if item.name == name), None)
    if attribute is not None and attribute.kind != "categorical":
        return _numbers(frame, name)[:, None]
    if attribute is not None:
        answers = [str(value) for value in _answers(frame, name)]
        unknown = sorted(set(answers) - set(attribute.levels))
        if unknown:
            raise ParameterError(name, f"one of {', '.join(attribute.levels)}", unknown[0])
        return np.array([[float(value == level) for level in attribute.levels] for value in answers])
    derived = next((item for item in schema.derived if item.name == name), None)
    if derived is None:  # one level, of a choice or of bins
        (column,) = schema.parts[name].columns
        whole = [item.name for item in schema.parts[column.source].columns]
        return _formed(frame, column.source, schema)[:, [whole.index(name)]]
    part, sources = schema.parts[name], [schema.parts[of] for of in derived.of]
    values = [_formed(frame, of, schema) for of in derived.of]
    rows = range(len(frame))
    return np.array([derived.form(part, sources, [list(value[at]) for value in values])[0] for at in rows])


def _answers(frame: pd.DataFrame, name: str) -> Sequence[Any]:
    if name not in frame.columns:
        raise ParameterError("rows", f"with every column of the model; {name} is missing")
    return list(frame[name])


def _numbers(frame: pd.DataFrame, name: str) -> Matrix:
    answers = _answers(frame, name)  # outside: its own error is a ValueError too
    try:
        values = np.asarray(answers, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise ParameterError(name, "finite numbers in every row")
    return values
