"""A life table from declared bins of time: at risk, events, and the share without an event, with errors.

Statement. With N_k people whose time ends in interval k and D_k of them with an event, R_k = N_k + N_(k+1) + .. are at risk
when k begins, and C_k = N_k - D_k leave it without an event. The hazard of k is h_k = D_k / (R_k - f C_k), f = 1/2 if they
leave in its middle (the actuarial estimate), 0 at its end, 1 at its start; S_k = product of (1 - h_j), j <= k. Without noise
and with an interval for every time f = 0 is Kaplan and Meier's.
Sampling error of log S: Greenwood's, sum of h_j / ((1 - h_j) (R_j - f C_j)). Noise: by the delta method from the covariance
of all N and D. Intervals are on the scale of log(-log S).

Asymptotic. Censoring must not depend on what follows, as everywhere; how times lie within an interval is assumed, not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, ParameterError
from trimask.fit.critical_value import critical_value
from trimask.fit.groups import membership, unit
from trimask.fit.interval_counts import Bins, bins_of
from trimask.fit.noise import gram_covariance, outers
from trimask.fit.report import Block, Facts, Report, noise_notes, of_data
from trimask.fit.source import moments_of
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["SurvivalResults", "survival"]

_LEAVE = {"middle": 0.5, "end": 0.0, "start": 1.0}
_COLUMNS = ["at risk", "events", "censored", "survival", "std err", "sampling", "privacy"]


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalResults(Report):
    """What `fit.survival` found.

    Attributes
    ----------
    table : DataFrame
        A row an interval (and level): at risk, events, censored, and the survival at its end with errors.
    edges : array
        The declared cuts, between the bounds.

    Examples
    --------
    >>> import pandas as pd, trimask
    >>> from trimask_core.schema import Attribute, Derived, Schema
    >>> schema = Schema((Attribute("years", "integer", 0, 2), Attribute("died", "binary")),
    ...     (Derived("year", "bins", ("years",), cuts=(1, 2)),))
    >>> people = pd.DataFrame({"years": [0, 1, 2, 2] * 20, "died": [1, 1, 0, 0] * 20})
    >>> trimask.fit.survival(trimask.moments.row_moments(people, schema), "years", "died").table["events"].round().tolist()
    [20.0, 20.0, 0.0]
    """

    label: str
    nobs: int
    sigma: float
    time: str
    event: str
    unit: str
    by: str | None
    edges: Matrix
    table: pd.DataFrame

    @property
    def title(self) -> str:
        """What this is."""
        return f"Life table of {self.event} over {self.time}, {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What it is of."""
        measured = [("unit", self.unit)] if self.unit else []
        return [("data", self.label), ("rows", f"{self.nobs:,}"), *measured]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        hidden = (
            ("No survival is given from where the noise hides who is at risk.",)
            if self.table["survival"].isna().any()
            else ()
        )
        return (
            *noise_notes(self.sigma),
            "Survival is that at the end of the interval; std err is of survival.",
            *hidden,
        )

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of the survival, by log(-log).

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.

        Returns
        -------
        DataFrame
            Lower ends in column 0, upper ends in column 1.
        """
        s = self.table["survival"].to_numpy().clip(1e-9, 1 - 1e-9)
        reach = critical_value(alpha) * self.table["std err"].to_numpy() / (s * np.abs(np.log(s)))
        return pd.DataFrame({0: s ** np.exp(reach), 1: s ** np.exp(-reach)}, index=self.table.index)

    def blocks(self, alpha: float) -> list[Block]:
        """A row an interval."""
        ends = self.conf_int(alpha).to_numpy()
        rows = []
        for (at, row), limits in zip(self.table.iterrows(), ends, strict=True):
            name = " ".join(map(str, at)) if isinstance(at, tuple) else str(at)
            counts = [f"{row[key]:,.0f}" for key in _COLUMNS[:3]]
            rows.append([name, *counts, *(f"{value:.4f}" for value in (*row[_COLUMNS[3:]], *limits))])
        return [Block(["", *_COLUMNS, f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"], rows)]

    def __repr__(self) -> str:
        return f"<SurvivalResults of {self.event} over {self.time} in {self.label}>"


def survival(
    dataset: Source, bins: str, event: str, *, by: str | None = None, leave: str = "middle"
) -> SurvivalResults:
    """A life table: declared bins of the time until an event, or until nobody looked any more.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    bins : str
        The bins' name, or that of a number that has one set of bins.
    event : str
        A yes-or-no column (or a group's level): yes where the time ended with the event.
    by : str, optional
        A group whose product with the bins is declared.
    leave : "middle", "end" or "start"
        When, in their interval, people without an event left; the first is the actuarial estimate.

    Returns
    -------
    SurvivalResults
        `table`: at risk, events, censored, and the survival with its errors; `conf_int()`.

    Examples
    --------
    >>> import pandas as pd, trimask
    >>> from trimask_core.schema import Attribute, Derived, Schema
    >>> schema = Schema((Attribute("years", "integer", 0, 3), Attribute("died", "binary")),
    ...     (Derived("year", "bins", ("years",), cuts=(1, 2, 3)),))
    >>> people = pd.DataFrame({"years": [0, 1, 1, 2, 3, 3, 3, 3], "died": [1, 1, 0, 1, 0, 0, 0, 0]})
    >>> table = trimask.fit.survival(trimask.moments.row_moments(people, schema), "years", "died", leave="end").table
    >>> table["survival"].round(3).tolist()
    [0.875, 0.75, 0.6, 0.6]
    """
    moments = moments_of(dataset)
    if leave not in _LEAVE:
        raise ParameterError("leave", f"one of {', '.join(_LEAVE)}", leave)
    found = bins_of(moments, bins, by)
    yes = _event(moments, event)
    tables = [
        _table(moments, found, members, yes, _LEAVE[leave]).assign(**({} if by is None else {by: level}))
        for level, members in found.members.items()
    ]
    table = pd.concat(tables)
    if by is not None:
        table = table.set_index(by, append=True).swaplevel()
    return SurvivalResults(
        moments.label, moments.rows, moments.sigma, found.of, event, found.unit, by, found.edges, table
    )


def _event(moments: Moments, event: str) -> Matrix:
    column = next((item for item in moments.columns if item.name == event), None)
    if column is not None and column.level is not None:
        return unit(moments.schema, event)
    levels, members = membership(event, moments.schema)
    if levels != ["no", "yes"]:
        raise FormulaError(f"{event} has levels {', '.join(levels)}: name one of them, {event}_{levels[-1]}")
    found: Matrix = members[1]
    return found


def _table(moments: Moments, bins: Bins, members: Matrix, yes: Matrix, leave: float) -> pd.DataFrame:
    k = len(members)
    gradients = np.concatenate([outers(members, unit(moments.schema, ONES)), outers(members, yes)])
    counts = np.einsum("aij,ij->a", gradients, moments.gram)
    noise = np.zeros((2 * k, 2 * k)) if moments.exact else gram_covariance(moments, gradients)
    ended, events = counts[:k], counts[k:]
    risk = np.cumsum(ended[::-1])[::-1]
    exposed = risk - leave * (ended - events)
    with np.errstate(divide="ignore", invalid="ignore"):
        hazard = np.clip(events / exposed, 0.0, 1.0)
        # d log(1 - h_j) = -(dD_j - h_j dE_j) / (E_j (1 - h_j)),  dE_j = sum of dN_i from j on - f (dN_j - dD_j)
        slope = np.zeros((k, 2 * k))
        for j in range(k):
            slope[j, j:k] = hazard[j]
            slope[j, j] -= leave * hazard[j]
            slope[j, k + j] = -1.0 + leave * hazard[j]
            slope[j] /= exposed[j] * (1 - hazard[j])
        change = np.cumsum(slope, axis=0)
        alive = np.cumprod(1 - hazard)
        greenwood = np.cumsum(hazard / ((1 - hazard) * exposed))
    hidden = np.maximum.accumulate((exposed <= 0) | ~np.isfinite(greenwood))
    alive = np.where(hidden & ~(alive == 0), np.nan, alive)
    privacy = np.einsum("ij,jk,ik->i", np.nan_to_num(change), noise, np.nan_to_num(change))
    parts = [
        np.where(hidden, np.nan, alive * np.sqrt(np.maximum(part, 0.0))) for part in (greenwood, privacy)
    ]
    errors = [np.hypot(*parts), *parts]
    return pd.DataFrame(
        np.column_stack([risk, events, ended - events, alive, *errors]),
        index=pd.Index(bins.words, name=bins.of),
        columns=pd.Index(_COLUMNS),
    )
