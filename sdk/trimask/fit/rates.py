"""Rates, events over time at risk (or any sum over any other), overall and by group; and life tables.

Statement. With e and t the two columns in original units, r = sum e / sum t = (one^T G e) / (one^T G t). Its noise variance
is that of the gradient (e - r t) one^T / sum t. The sampling variance, people drawn independently, is
n Var(e - r t) / (sum t)^2, whose variance is in the second moments: no Poisson law is assumed. By group the members u_g
stand for `one`; a group's own variance of e - r t needs third moments, so events are taken as Poisson there, r / sum t (a
yes-or-no event a person: as a share, r (1 - r) / n).
Intervals are on the log scale, where the error is se / r.

Proved: the variances. Asymptotic: the delta method and normal intervals.

Statement (a life table from declared bins of time). With N_k people whose time ends in interval k and D_k of them with an
event, R_k = N_k + N_(k+1) + .. are at risk when k begins, and C_k = N_k - D_k leave it without an event. The hazard of k
is h_k = D_k / (R_k - f C_k), f = 1/2 if they leave in its middle (the actuarial estimate), 0 at its end, 1 at its start;
S_k = product of (1 - h_j), j <= k. Without noise and with an interval for every time f = 0 is Kaplan and Meier's.
Sampling error of log S: Greenwood's, sum of h_j / ((1 - h_j) (R_j - f C_j)). Noise: by the delta method from the
covariance of all N and D. Intervals are on the scale of log(-log S).

Asymptotic. Censoring must not depend on what follows, as everywhere; how times lie within an interval is assumed, not
known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, ParameterError
from trimask.fit.clipping import marked
from trimask.fit.design import membership, original, plain_name, unit
from trimask.fit.estimates import Estimates, EstimateTable, Framed
from trimask.fit.histograms import bins_of
from trimask.fit.noise import Source, hidden, moments_of
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix

_Law = Literal["any", "poisson", "share"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RateResults(Estimates):
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

    per: float

    rates = Framed()


@marked
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
    {'all': 25.0, 'leaflet no': 24.0, 'leaflet yes': 26.0}
    """
    moments = moments_of(dataset)
    if not moments.schema.ones:
        raise FormulaError("this study has no ones column, so no sum can be taken")
    if not (np.isfinite(per) and per > 0):
        raise ParameterError("per", "a finite number > 0", per)
    e, one = original(events, moments.schema), unit(moments.schema, ONES)
    t = one if time is None else original(time, moments.schema)
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
    index, values = pd.Index(list(table)), np.array(list(table.values()))
    happened, at_risk, rate, drawn, noise = values.T
    group = "is that of a share (binomial)" if share else "takes events as Poisson"
    return RateResults(
        what=f"Rates of {events} per {per:g} {time or 'people'}", label=moments.label, nobs=moments.rows,
        sigma=moments.sigma, per=float(per),
        remarks=() if by is None else (f"By group the sampling part {group}; over all people it assumes nothing.",),
        tables={
            "rates": EstimateTable(
                index, rate, drawn, noise, scale="log", bounds=(0.0, per if share else np.inf), head="rate",
                before={"events": happened, "time": at_risk},
            )
        },
    )  # fmt: skip


def _rate(moments: Moments, u: Matrix, e: Matrix, t: Matrix, per: float, law: _Law) -> list[float]:
    """Events, time at risk, the rate, and the two parts of its error."""
    G, n = moments.gram, moments.rows
    happened, at_risk = float(u @ G @ e), float(u @ G @ t)
    if at_risk <= 0:
        raise hidden(moments, [], "the time at risk of a group is not above zero. Fewer levels help")
    r = happened / at_risk
    left = e - r * t
    noise = float(moments.law.variance(outers(u[None], left))[0]) / at_risk**2
    if law == "any":
        drawn = n / (n - 1) * max(float(left @ G @ left), 0.0) / at_risk**2
    else:
        drawn = max(r, 0.0) * (max(1 - r, 0.0) if law == "share" else 1.0) / at_risk
    return [happened, at_risk, per * r, per * drawn**0.5, per * noise**0.5]


_LEAVE = {"middle": 0.5, "end": 0.0, "start": 1.0}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SurvivalResults(Estimates):
    """What `fit.survival` found.

    Attributes
    ----------
    survival : DataFrame
        A row an interval (and level): at risk, events, censored, and the survival at its end with errors.
    edges : array
        The declared cuts, between the bounds.

    Examples
    --------
    >>> import pandas as pd, trimask
    >>> from trimask_core.study.schema import Attribute, Derived, Schema
    >>> schema = Schema((Attribute("years", "integer", 0, 2), Attribute("died", "binary")),
    ...     (Derived("year", "bins", ("years",), cuts=(1, 2)),))
    >>> people = pd.DataFrame({"years": [0, 1, 2, 2] * 20, "died": [1, 1, 0, 0] * 20})
    >>> moments = trimask.moments.moments.row_moments(people, schema)
    >>> trimask.fit.survival(moments, "years", "died").survival["events"].round().tolist()
    [20.0, 20.0, 0.0]
    """

    time: str
    event: str
    unit: str
    by: str | None
    edges: Matrix

    @property
    def survival(self) -> pd.DataFrame:
        """By interval, and level."""
        return self.estimates().frame.rename(columns={"estimate": "survival"})


@marked
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
        `survival`: at risk, events, censored, and the survival with its errors; `conf_int()`.

    Examples
    --------
    >>> import pandas as pd, trimask
    >>> from trimask_core.study.schema import Attribute, Derived, Schema
    >>> schema = Schema((Attribute("years", "integer", 0, 3), Attribute("died", "binary")),
    ...     (Derived("year", "bins", ("years",), cuts=(1, 2, 3)),))
    >>> people = pd.DataFrame({"years": [0, 1, 1, 2, 3, 3, 3, 3], "died": [1, 1, 0, 1, 0, 0, 0, 0]})
    >>> found = trimask.fit.survival(trimask.moments.moments.row_moments(people, schema), "years", "died", leave="end")
    >>> found.survival["survival"].round(3).tolist()
    [0.875, 0.75, 0.6, 0.6]
    """
    moments = moments_of(dataset)
    if leave not in _LEAVE:
        raise ParameterError("leave", f"one of {', '.join(_LEAVE)}", leave)
    found = bins_of(moments, bins, by, at_end=True)
    yes = _event(moments, event)
    tables = [_table(moments, members, yes, _LEAVE[leave]) for members in found.members.values()]
    index = pd.Index(found.words, name=found.of)
    if by is not None:
        index = pd.MultiIndex.from_product([list(found.members), found.words], names=[by, found.of])
    risk, events, censored, alive, drawn, noise = np.concatenate(tables).T
    hidden = (
        ["No survival is given from where the noise hides who is at risk."] if np.isnan(alive).any() else []
    )
    return SurvivalResults(
        what=f"Life table of {event} over {found.of},", label=moments.label, nobs=moments.rows, sigma=moments.sigma,
        time=found.of, event=event, unit=found.unit, by=by, edges=found.edges,
        about=[("unit", found.unit)] if found.unit else [],
        remarks=("Survival is that at the end of the interval; std err is of survival.", *hidden),
        tables={
            "survival": EstimateTable(
                index, alive, drawn, noise, scale="loglog", bounds=(0.0, 1.0), head="survival", style=4,
                before={"at risk": risk, "events": events, "censored": censored},
            )
        },
    )  # fmt: skip


def _event(moments: Moments, event: str) -> Matrix:
    column = next((item for item in moments.columns if item.name == event), None)
    if column is not None and column.level is not None:
        return unit(moments.schema, event)
    levels, members = membership(event, moments.schema)
    if levels != ["no", "yes"]:
        raise FormulaError(f"{event} has levels {', '.join(levels)}: name one of them, {event}_{levels[-1]}")
    found: Matrix = members[1]
    return found


def _table(moments: Moments, members: Matrix, yes: Matrix, leave: float) -> Matrix:
    """At risk, events, censored, survival and the two parts of its error, a row an interval."""
    k = len(members)
    gradients = np.concatenate([outers(members, unit(moments.schema, ONES)), outers(members, yes)])
    counts = np.einsum("aij,ij->a", gradients, moments.gram)
    noise = moments.law.covariance(gradients)
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
    return np.column_stack([risk, events, ended - events, alive, *parts])
