"""One table under every result: estimates, errors in two parts, intervals and p-values of one law, notes, and how it prints.

Statement (interval and test agree). On its scale g an estimate e has the error s_g = |g'(e)| s, s^2 the sum of both parts'.
With T of Student's law (the normal one without degrees of freedom) and b a bound on the bias, let c(alpha) solve
P(|T + b/s| > c) = alpha; without bias it is the usual quantile, and for normal T its square is that of a noncentral
chi-square of one degree of freedom. The interval is g(e) -+ c s_g, taken back and cut to what can be, and the p-value about
v is P(|T + b/s| > z), z = |g(e) - g(v)| / s_g: below alpha exactly where the interval leaves v out. Coefficients of a noisy
fit have the hull of that interval and Fieller's (`trimask_theory.mechanisms.noisy_regression`); z is then the smallest
number of deviations at which the hull reaches v, so that the two agree there too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from trimask.errors import ParameterError
from trimask.fit.report import Block, Facts, Report, figures, noise_notes, of_data, places_for
from trimask_theory.mechanisms.noisy_regression import Combination
from trimask_theory.moments.noise_law import Matrix

PARTS = ["estimate", "std err", "sampling", "privacy"]
NOT_DETERMINED = "not determined"
Scale = Literal["linear", "log", "loglog"]
_SCALES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "linear": (lambda e: e, lambda x: x, np.ones_like),
    "log": (np.log, np.exp, lambda e: 1 / e),
    "loglog": (lambda e: np.log(-np.log(e)), lambda x: np.exp(-np.exp(x)), lambda e: 1 / (e * -np.log(e))),
}  # to the scale, back from it, and its slope


def critical_values(alpha: float, df: Any = None, bias: Any = 0.0) -> Matrix:
    """c with P(|T + bias| > c) = alpha, for each bias in standard errors, and each number of degrees of freedom."""
    if not 0 < alpha < 1:
        raise ParameterError("alpha", "in (0, 1)", alpha)
    free = np.inf if df is None else df
    plain, each, free = np.broadcast_arrays(-special.stdtrit(free, alpha / 2), np.atleast_1d(bias), free)

    def one(start: float, b: float, df: float | None) -> float:
        if b == 0 or not np.isfinite(b):
            return start if b == 0 else np.inf
        return float(brentq(lambda c: _beyond(c, df, b) - alpha, start, start + b + 1e-9, xtol=1e-12))

    return np.array(
        [
            one(float(c), float(b), None if np.isinf(d) else float(d))
            for c, b, d in zip(plain, each, free, strict=True)
        ]
    )


def _beyond(c: Any, df: Any, bias: Any) -> Any:
    """P(|T + bias| > c)."""
    free = np.inf if df is None else df
    return np.minimum(special.stdtr(free, bias - c) + special.stdtr(free, -c - bias), 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class EstimateTable(Report):
    """A row an estimate, each with its errors; interval and p-value are of one law.

    Attributes
    ----------
    index : Index
        What is estimated.
    estimate, sampling, privacy : array
        Values and the two parts of their standard errors; infinite or NaN where there is none to give.
    df : float or array, optional
        Of Student's law; None: the normal one.
    scale : "linear", "log" or "loglog"
        Where intervals are made; "log" only for estimates `clear` standard errors above zero, else linear.
    bounds : tuple
        What can be: estimates and intervals are cut to it.
    null : float or array, optional
        The value that p-values are about; None: nothing is tested.
    bias : array, optional
        A bound on each estimate's bias, which intervals and p-values count in.
    ranges : array of bool, optional
        Rows whose two ends are a range and no interval of a level: what shrinking took is not, or too vaguely, corrected, or
        rows are taken as normal that cannot be.
    cautions : tuple
        What a reader must know of these intervals.
    combination : Combination, optional
        Of a noisy fit, whose intervals are joined with Fieller's, or are Fieller's where it has no covariance.
    ends : callable, optional
        The interval at so many deviations, where it is made in another way.
    before, after : mapping
        More columns of the table, left of the estimates and right of the intervals.
    head, caption, style
        How it prints: the estimates' heading, the table's, and "number", "percent", "count" or a number of decimals.
    spread : array, optional
        Deviations shown in brackets behind estimates.
    join : str
        Between the parts of a name.
    total : array, optional
        Standard errors where the two parts are not told apart.

    Examples
    --------
    >>> import numpy as np, pandas as pd, trimask
    >>> found = trimask.fit.EstimateTable(pd.Index(["a"]), np.array([2.0]), np.array([0.6]), np.array([0.8]), null=0.0)
    >>> found.table().round(2).loc["a"].tolist()
    [2.0, 1.0, 0.6, 0.8, 2.0, 0.05, 0.04, 3.96]
    """

    index: pd.Index
    estimate: Matrix
    sampling: Matrix
    privacy: Matrix
    _: KW_ONLY
    df: float | Matrix | None = None
    scale: Scale = "linear"
    bounds: tuple[float, float] = (-np.inf, np.inf)
    null: float | Matrix | None = None
    bias: Matrix | None = None
    ranges: NDArray[np.bool_] | None = None
    cautions: tuple[str, ...] = ()
    combination: Combination | None = None
    ends: Callable[[float], Matrix] | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    head: str = "estimate"
    caption: str = ""
    style: Literal["number", "percent", "count"] | int = "number"
    spread: Matrix | None = None
    clear: float = 2.0
    join: str = " "
    total: Matrix | None = None

    @classmethod
    def of(cls, index: Any, found: Combination, **more: Any) -> EstimateTable:
        """The combinations `found`, a row of `index` each, with their errors and intervals; `more` as above."""
        parts = [np.sqrt(np.maximum(np.diag(part), 0.0)) for part in (found.cov_sampling, found.cov_widened)]
        return cls(pd.Index(index), found.estimates, *parts, combination=found, **more)

    @property
    def title(self) -> str:
        """What it is of."""
        return self.caption or self.head

    @property
    def facts(self) -> Facts:
        """None beside the title."""
        return []

    @property
    def notes(self) -> tuple[str, ...]:
        """The cautions, and what a range is."""
        said = [f"Caution: {words}." for words in self.cautions]
        if self.ranges is not None and self.ranges.any():
            said.append(
                "A range is no confidence interval and may well leave the truth out: rows were shrunk by more than it "
                "allows for, or taken as normal where they cannot be."
            )
        return tuple(said)

    def blocks(self, alpha: float) -> list[Block]:
        """The one table."""
        return [self.block(alpha)]

    @cached_property
    def errors(self) -> Matrix:
        """Standard errors, both parts together."""
        found: Matrix = np.hypot(self.sampling, self.privacy) if self.total is None else self.total
        return found

    @cached_property
    def values(self) -> Matrix:
        """The estimates, cut to what can be."""
        return np.clip(self.estimate, *self.bounds)

    @property
    def frame(self) -> pd.DataFrame:
        """Estimates and their errors, with the columns before and after."""
        parts = dict(zip(PARTS, (self.values, self.errors, self.sampling, self.privacy), strict=True))
        return pd.DataFrame({**(self.before or {}), **parts, **(self.after or {})}, index=self.index)

    @cached_property
    def _on_scale(self) -> tuple[Matrix, Matrix, NDArray[np.bool_]]:
        """Estimates and errors on the scale, and where it is used."""
        to, _, slope = _SCALES[self.scale]
        used = np.full(len(self.estimate), self.scale != "linear")
        if self.scale == "log":
            used = (self.estimate > 0) & (self.estimate >= self.clear * self.errors)
        elif self.scale == "loglog":
            used = (self.estimate > 0) & (self.estimate < 1)
        safe = np.where(used, self.estimate, 0.5)
        at = np.where(used, to(safe), self.estimate)
        return at, np.where(used, np.abs(slope(safe)), 1.0) * self.errors, used

    @cached_property
    def _bias(self) -> Matrix:
        """The bias bound in standard errors."""
        if self.bias is None:
            return np.zeros(len(self.estimate))
        ratio = np.zeros(len(self.estimate))
        np.divide(self.bias, self.errors, out=ratio, where=(self.errors > 0) & np.isfinite(self.errors))
        return np.abs(ratio)

    def interval(self, alpha: float = 0.05) -> Matrix:
        """Lower and upper ends of level 1 - `alpha`, a row an estimate, within the bounds."""
        reach = np.broadcast_to(critical_values(alpha, self.df, self._bias), self.estimate.shape)
        made = self.ends
        if self.combination is not None:
            made = _fieller(self.combination)
        if made is not None:
            each = {c: made(c) for c in np.unique(reach)}
            found = np.array([each[c][i] for i, c in enumerate(reach)]).reshape(-1, 2)
        else:
            at, error, used = self._on_scale
            _, back, _ = _SCALES[self.scale]
            with np.errstate(over="ignore"):
                found = np.column_stack([at - reach * error, at + reach * error])
                found[used] = np.sort(back(found[used]), axis=1)
        cut: Matrix = np.clip(found, *self.bounds)
        return cut

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """The intervals of level 1 - `alpha` as a frame: lower ends in column 0, upper ends in column 1."""
        return pd.DataFrame(self.interval(alpha), index=self.index)

    def deviations(self, value: Any) -> Matrix:
        """Standard errors by which each estimate is from a `value`, on the scale of its interval."""
        if self.combination is not None:
            found = self.combination
            gap = np.asarray(value, dtype=float) - found.estimates
            A, B, C = found.quadratics.T
            spread = np.maximum(np.maximum(np.diag(found.covariance), A + B * gap + C * gap**2), 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                # No value is excluded from where Fieller's interval has no end.
                reached: Matrix = np.minimum(np.abs(gap) / np.sqrt(spread), 1 / np.sqrt(np.maximum(C, 0.0)))
            return reached
        at, error, used = self._on_scale
        with np.errstate(divide="ignore", invalid="ignore"):
            about = np.where(used, _SCALES[self.scale][0](np.asarray(value, dtype=float)), value)
            away: Matrix = np.abs(at - about) / error
        return away

    @cached_property
    def statistics(self) -> Matrix:
        """Signed deviations from the value tested: t or z."""
        null = 0.0 if self.null is None else self.null
        return np.sign(self.estimate - null) * self.deviations(null)

    @cached_property
    def pvalues(self) -> Matrix:
        """Two-sided, of the law of the intervals; NaN where nothing is tested."""
        if self.null is None:
            return np.full(len(self.estimate), np.nan)
        found: Matrix = _beyond(np.abs(self.statistics), self.df, self._bias)
        return found if self.ranges is None else np.where(self.ranges, np.nan, found)

    @cached_property
    def determined(self) -> NDArray[np.bool_]:
        """Whether the release says something: a finite error, and an interval shorter than all that can be."""
        low, high = self.interval().T
        found: NDArray[np.bool_] = np.isfinite(self.estimate) & np.isfinite(low) & np.isfinite(high)
        if np.all(np.isfinite(self.bounds)):
            found &= (low > self.bounds[0]) | (high < self.bounds[1])
        return found | (np.isfinite(self.estimate) & np.isnan(self.errors))

    def table(self, alpha: float = 0.05) -> pd.DataFrame:
        """All of it as a frame: estimate, std err and its parts, test, interval of level 1 - `alpha`."""
        found = self.frame.drop(columns=list(self.after or {})).rename(columns={"estimate": self.head})
        letter = "z" if self.df is None else "t"
        tests = {} if self.null is None else {letter: self.statistics, f"P>|{letter}|": self.pvalues}
        low, high = self.interval(alpha).T
        more = {**tests, f"[{alpha / 2:g}": low, f"{1 - alpha / 2:g}]": high, **(self.after or {})}
        if self.bias is not None:
            more["bias at most"] = self.bias
        if self.ranges is not None and self.ranges.any():
            more["note"] = np.where(self.ranges, "range, no interval", "")
        return found.assign(**more)

    def block(self, alpha: float = 0.05) -> Block:
        """The table ready to print, intervals of level 1 - `alpha`; figures of a row share the decimals of its error."""
        table = self.table(alpha)
        first = len(self.before or {})
        tests = 0 if self.null is None else 2
        rows = []
        for name, known, values in zip(self.index, self.determined, table.to_numpy(), strict=True):
            extra = [_cell(value) for value in values[:first]]
            numbers = [float(value) for value in values[first : first + 6 + tests]]
            rest = [_cell(value) for value in values[first + 6 + tests :]]
            called = self.join.join(map(str, name)) if isinstance(name, tuple) else str(name)
            if not known:
                rows.append([called, *extra, NOT_DETERMINED, *["-"] * (5 + tests), *rest])
                continue
            shown = self._figures([*numbers[:4], *numbers[-2:]], len(rows))
            tested = [f"{value:.{2 + j}f}" for j, value in enumerate(numbers[4 : 4 + tests])]
            rows.append([called, *extra, *shown[:4], *tested, *shown[4:], *rest])
        columns = list(map(str, table.columns))
        if self.spread is not None:
            columns[first] += " (SD)"
        return Block([str(self.index.name or ""), *columns], rows, self.caption)

    def _figures(self, values: list[float], row: int) -> list[str]:
        """estimate, error, its parts and the interval's ends."""
        if self.style == "percent":
            return ["-" if v != v else f"{v:.{p}%}" for v, p in zip(values, (1, 2, 2, 2, 1, 1), strict=True)]
        if self.style == "count":
            return ["-" if v != v else f"{v:,.0f}" for v in values]
        places = places_for(values[1], values[0]) if self.style == "number" else int(self.style)
        shown = figures(values, places)
        if self.spread is not None:
            shown[0] += f" ({figures([float(self.spread[row])], places)[0]})"
        return shown


def _fieller(found: Combination) -> Callable[[float], Matrix]:
    return lambda deviations: found.interval(deviations=deviations)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "-" if value != value else f"{value:,.0f}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Estimates(Report):
    """A result made of tables of estimates: what every fit returns has this.

    `tables` has them by name, the main one first. `about` are facts and `remarks` notes beside the usual ones.
    """

    what: str = ""
    label: str
    nobs: int
    sigma: float
    tables: Mapping[str, EstimateTable]
    about: Facts = ()
    remarks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What this is, and whether the noise was corrected."""
        return f"{self.what} {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the tables are of."""
        noise = ("noise sigma", f"{self.sigma:.4g}")
        return [("data", self.label), ("rows", f"{self.nobs:,}"), noise, *self.about]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        cautions = [note for table in self.tables.values() for note in table.notes]
        return tuple(dict.fromkeys([*noise_notes(self.sigma), *self.remarks, *cautions]))

    def estimates(self, of: str | None = None) -> EstimateTable:
        """The table `of` this name; the main one by default."""
        name = next(iter(self.tables)) if of is None else of
        if name not in self.tables:
            raise ParameterError("of", "one of " + ", ".join(map(repr, self.tables)), of)
        return self.tables[name]

    def table(self, alpha: float = 0.05, of: str | None = None) -> pd.DataFrame:
        """The table `of` this name: estimates, errors, their parts, tests, and intervals of level 1 - `alpha`."""
        return self.estimates(of).table(alpha)

    def conf_int(self, alpha: float = 0.05, of: str | None = None) -> pd.DataFrame:
        """Intervals of level 1 - `alpha` of the table `of` this name: lower ends in column 0, upper ends in column 1."""
        return self.estimates(of).conf_int(alpha)

    def adjusted(self, method: str = "holm", of: str | None = None) -> pd.Series[float]:
        """p-values of the table `of` this name, adjusted for how many they are.

        `method` is "holm" or "bonferroni", about the chance of any false finding, or "bh" (Benjamini, Hochberg), about the
        share of false ones among the found.
        """
        table = self.estimates(of)
        return pd.Series(adjust(table.pvalues, method), index=table.index, name=f"P, {method}")

    def blocks(self, alpha: float) -> list[Block]:
        """The tables ready to print."""
        return [table.block(alpha) for table in self.tables.values()]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.what}, {self.label}, {self.nobs:,} rows>"


class Framed:
    """The table of this name of a result (the main one by default) as a frame: a row an estimate, with its errors."""

    def __init__(self, of: str | None = None) -> None:
        self.of = of

    def __get__(self, result: Estimates | None, _: type[Estimates]) -> pd.DataFrame:
        return self if result is None else result.estimates(self.of).frame  # type: ignore[return-value]  # of the class


def adjust(pvalues: Matrix, method: str) -> Matrix:
    """p-values adjusted for their number: Holm's, Bonferroni's, or Benjamini and Hochberg's; NaN is not counted."""
    found = np.array(pvalues, dtype=float)
    known = ~np.isnan(found)
    p, m = found[known], int(known.sum())
    order = np.argsort(p)
    rank = np.empty(m, dtype=int)
    rank[order] = np.arange(m)
    match method:
        case "bonferroni":
            made = m * p
        case "holm":
            made = np.maximum.accumulate((m - np.arange(m)) * p[order])[rank]
        case "bh":
            made = np.minimum.accumulate((m / np.arange(1, m + 1) * p[order])[::-1])[::-1][rank]
        case _:
            raise ParameterError("method", "'holm', 'bonferroni' or 'bh'", method)
    found[known] = np.minimum(made, 1.0)
    return found
