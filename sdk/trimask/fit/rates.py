"""Rates: events over time at risk (or any sum over any other), overall and by group.

Statement. With e and t the two columns in original units, r = sum e / sum t = (one^T G e) / (one^T G t). Its noise variance
is that of the gradient (e - r t) one^T / sum t. The sampling variance, people drawn independently, is
n Var(e - r t) / (sum t)^2, whose variance is in the second moments: no Poisson law is assumed. By group the members u_g
stand for `one`; a group's own variance of e - r t needs third moments, so events are taken as Poisson there, r / sum t (a
yes-or-no event a person: as a share, r (1 - r) / n).
Intervals are on the log scale, where the error is se / r.

Proved: the variances. Asymptotic: the delta method and normal intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, NoiseExceedsSignal, ParameterError
from trimask.fit.critical_value import critical_value
from trimask.fit.design import find_column
from trimask.fit.groups import membership, plain_name, unit
from trimask.fit.noise import outers
from trimask.fit.report import Block, Facts, Report, figures, noise_notes, of_data, places_for
from trimask.fit.source import moments_of
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["RateResults", "rates"]

_Law = Literal["any", "poisson", "share"]
_PARTS = ["estimate", "std err", "sampling", "privacy"]


@dataclass(frozen=True, eq=False, repr=False)
class RateResults(Report):
    """What `fit.rates` found.

    Attributes
    ----------
    rates : DataFrame
        A row a group ("all" first): events, time, and the rate with its errors.
    per : float
        The multiple rates are given in.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.rates(data, "smoker").conf_int().shape
    (1, 2)
    """

    label: str
    nobs: int
    sigma: float
    events: str
    time: str
    per: float
    share: bool
    rates: pd.DataFrame

    @property
    def title(self) -> str:
        """What this is."""
        return f"Rates of {self.events} per {self.per:g} {self.time} {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        return [("data", self.label), ("rows", f"{self.nobs:,}"), ("noise sigma", f"{self.sigma:.4g}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        notes = noise_notes(self.sigma)
        if len(self.rates) > 1:
            notes.append(
                "By group the sampling part is that of a share (binomial); over all people it assumes nothing."
                if self.share
                else "By group the sampling part takes events as Poisson; over all people it assumes nothing."
            )
        return tuple(notes)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals: on the log scale where the rate is two standard errors or more above zero, else cut at zero.

        Noise is normal on the scale of counts, so that a logarithm of what it almost hides has no use for its error.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.

        Returns
        -------
        DataFrame
            Lower ends in column 0, upper ends in column 1.
        """
        r = self.rates["estimate"]
        reach = critical_value(alpha) * self.rates["std err"]
        ratio = np.exp(reach / r.where(r >= 2 * self.rates["std err"]))
        low, high = ((r + sign * reach).clip(lower=0.0) for sign in (-1, 1))
        return pd.DataFrame({0: (r / ratio).fillna(low), 1: (r * ratio).fillna(high)})

    def blocks(self, alpha: float) -> list[Block]:
        """A row a group."""
        ends = self.conf_int(alpha).to_numpy()
        rows = [
            [str(name), f"{row['events']:,.0f}", f"{row['time']:,.0f}",
             *figures([*row[_PARTS], *limits], places_for(row["std err"], row["estimate"]))]
            for (name, row), limits in zip(self.rates.iterrows(), ends, strict=True)
        ]  # fmt: skip
        return [
            Block(
                ["", self.events, self.time, "rate", *_PARTS[1:], f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"],
                rows,
            )
        ]

    def __repr__(self) -> str:
        return f"<RateResults of {self.events} per {self.time} in {self.label}>"


def rates(
    dataset: Source, events: str, time: str | None = None, *, by: str | None = None, per: float = 1.0
) -> RateResults:
    """Events per unit of time (per person without one), over all people and in each level of a group.

    Over all people the sampling error assumes nothing of events. By group it takes them as Poisson (as binomial for a
    yes-or-no column without a time), since a group's own variance needs third moments.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    events : str
        A column of counts, or a yes-or-no one.
    time : str, optional
        The column of time at risk; people by default.
    by : str, optional
        A categorical or yes-or-no attribute.
    per : float
        A multiple, such as 1000.

    Returns
    -------
    RateResults
        `rates`: events, time, and the rate with its errors; `conf_int()`.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.rates(data, "smoker", by="leaflet", per=100)
    >>> found.rates["estimate"].round().to_dict()
    {'all': 25.0, 'leaflet no': 24.0, 'leaflet yes': 25.0}
    """
    moments = moments_of(dataset)
    if not moments.schema.ones:
        raise FormulaError("this study has no ones column, so no sum can be taken")
    if not (np.isfinite(per) and per > 0):
        raise ParameterError("per", "a finite number > 0", per)
    e, one = _original(moments, events), unit(moments.schema, ONES)
    t = one if time is None else _original(moments, time)
    yes_or_no = [item.name for item in moments.schema.attributes if item.kind == "binary"]
    yes_or_no += [column.name for column in moments.columns if column.level is not None]
    share = time is None and events in yes_or_no
    table = {"all": _rate(moments, one, e, t, per, "any")}
    if by is not None:
        levels, U = membership(by, moments.schema)
        law: _Law = "share" if share else "poisson"
        table |= {
            f"{plain_name(by)} {level}": _rate(moments, u, e, t, per, law)
            for level, u in zip(levels, U, strict=True)
        }
    return RateResults(
        label=moments.label,
        nobs=moments.rows,
        sigma=moments.sigma,
        events=events,
        time=time or "people",
        per=float(per),
        share=share,
        rates=pd.DataFrame.from_dict(table, orient="index"),
    )


def _original(moments: Moments, name: str) -> Matrix:
    column = moments.columns[find_column(name, moments.schema)]
    found: Matrix = column.center * unit(moments.schema, ONES) + column.half_range * unit(
        moments.schema, name
    )
    return found


def _rate(moments: Moments, u: Matrix, e: Matrix, t: Matrix, per: float, law: _Law) -> dict[str, float]:
    G, n = moments.gram, moments.rows
    happened, at_risk = float(u @ G @ e), float(u @ G @ t)
    if at_risk <= 0:
        raise NoiseExceedsSignal(
            [],
            n + 1,
            None,
            "the noise exceeds the signal: the time at risk of a group is not above zero. Fewer levels help",
        )
    r = happened / at_risk
    left = e - r * t
    noise = 0.0 if moments.exact else float(moments.law.variance(outers(u[None], left))[0]) / at_risk**2
    if law == "any":
        drawn = n / (n - 1) * max(float(left @ G @ left), 0.0) / at_risk**2
    else:
        drawn = max(r, 0.0) * (max(1 - r, 0.0) if law == "share" else 1.0) / at_risk
    parts = [per * r, per * (drawn + noise) ** 0.5, per * drawn**0.5, per * noise**0.5]
    return {"events": happened, "time": at_risk, **dict(zip(_PARTS, parts, strict=True))}
