"""What a fit predicts for people described in original units, with errors.

Statement. For a row x of regressors x^T beta is a combination of coefficients, with a standard error of its own
(`trimask_theory.mechanisms.noisy_regression`): that is the error of the mean. One more person's answer has the residual
variance beside it, from the corrected moments; where the noise hides that, there is no interval for a person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from trimask.errors import ParameterError
from trimask.fit.design import Design
from trimask.fit.noise import critical_value
from trimask.fit.report import Block, Facts, Report, figures, places_for
from trimask_core.study.derived import ONES
from trimask_core.study.schema import Schema
from trimask_theory.moments.noise_law import Matrix


@dataclass(frozen=True, eq=False, repr=False)
class PredictionResults(Report):
    """What `predict` of a fit returns.

    Attributes
    ----------
    mean : Series
        A row a person asked for.
    se_mean : Series
        Its errors, noise and sampling together.
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
    label: str
    df: int
    mean: pd.Series[float]
    se_mean: pd.Series[float]
    scale: float

    @property
    def title(self) -> str:
        """What this is."""
        return f"Predictions of {self.formula.partition('~')[0].strip()}"

    @property
    def facts(self) -> Facts:
        """What they are from."""
        return [("model", self.formula), ("data", self.label)]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        person = (
            ""
            if np.isfinite(self.scale)
            else " The noise hides the residual variance: no interval for a person."
        )
        return (
            "mean: of all people like that, noise and sampling in its error; obs: one more such person."
            + person,
        )

    def conf_int(self, alpha: float = 0.05, *, obs: bool = False) -> pd.DataFrame:
        """Intervals of the mean, or of one more person's value.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.
        obs : bool
            One more person's.

        Returns
        -------
        DataFrame
            Lower ends in column 0, upper ends in column 1.
        """
        spread = np.sqrt(self.se_mean**2 + (self.scale if obs else 0.0))
        reach = critical_value(alpha, self.df) * spread
        return pd.DataFrame({0: self.mean - reach, 1: self.mean + reach})

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """The predictions as statsmodels names them.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.

        Returns
        -------
        DataFrame
            mean, mean_se, mean_ci_lower, mean_ci_upper, obs_ci_lower, obs_ci_upper.
        """
        mean, obs = self.conf_int(alpha), self.conf_int(alpha, obs=True)
        return pd.DataFrame(
            {
                "mean": self.mean, "mean_se": self.se_mean, "mean_ci_lower": mean[0], "mean_ci_upper": mean[1],
                "obs_ci_lower": obs[0], "obs_ci_upper": obs[1],
            }
        )  # fmt: skip

    def blocks(self, alpha: float) -> list[Block]:
        """A row a prediction."""
        frame = self.summary_frame(alpha)
        rows = [[str(at), *figures(list(row), places_for(row[1], row[0]))] for at, *row in frame.itertuples()]
        return [Block(["", *map(str, frame.columns)], rows)]

    def __repr__(self) -> str:
        return f"<PredictionResults of {len(self.mean)} rows by {self.formula!r}>"


def regressor_rows(rows: Any, design: Design, schema: Schema) -> tuple[Matrix, pd.Index]:
    """The regressors of people given as a DataFrame or mappings (one, or a list), in original units, and their index."""
    if isinstance(rows, Mapping):
        rows = [rows]
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    if not len(frame):
        raise ParameterError("rows", "at least one person")
    columns = [_values(frame, name, schema) for name in design.columns]
    return np.column_stack(columns), frame.index


def _values(frame: pd.DataFrame, name: str, schema: Schema) -> Matrix:
    """A column of the study for these people: as given, or from the answers it is formed of."""
    if name == ONES:
        return np.ones(len(frame))
    if name in frame.columns:
        return _numbers(frame, name)
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
