"""Logistic regressions: of groups in a release, or of synthetic records.

Statement (one group: a saturated model). With a_g of the N_g people of level g answering yes, in the release's moments,
the log odds are log(a_g / (N_g - a_g)), their sampling variance 1/a_g + 1/(N_g - a_g), levels apart, and their noise that of
the gradient (1/a_g + 1/(N_g - a_g)) da_g - dN_g / (N_g - a_g). Without noise it is the maximum of the likelihood, with the
errors of its information. A level with a count that is not `_CLEAR` noise errors above zero has none: not determined.
Proved: the noise variance at given gradients. Asymptotic: the delta method.

Statement (several groups: main effects). The likelihood equations are sum of n(x) x expit(x'b) = sum of x y, n(x) the people
of each combination x of levels. The right side is in the release. So is n(x) of two groups, their two-way table, and the fit
is then that of the raw rows. Of more groups n is the law of largest entropy with the release's two-way tables, by iterative
proportional fitting; every m >= 0 with the same tables is as possible, and moves b, to first order, by -I^-1 sum of (m - n)
x expit(x'b), I the information. The largest such move of each coefficient, by linear programming, and the fit at the law
where it is reached, bound its bias: intervals and p-values count it. Where it is above `_MOST_BIAS` of log odds, moments
do not determine the model, and it is refused. Sampling errors are those of I;
the noise's are a parametric bootstrap's: the release's noise drawn anew, everything fitted again.
Exact with two groups, but for the noise; numerical with more: the law may be farther than one linear step finds.

Of a release itself there is no other logistic regression, and it says why.

Of synthetic records (`trimask.synthesize`):
The fit is the usual one, by Newton steps, to the records. Its errors are about the people of the release:
*Sampling*: the inverse of the information of as many people as the release has, however many records were drawn.
*Privacy*: that of one Newton step from everybody's share p (`step_noise`), times (w / w')^2, with w = p (1 - p) and w' its
mean over the records: noise in the sums of x y moves the logistic coefficient by 1 / w' where the step has 1 / w.
Not in the errors: what the records' model had to assume. It knows two-way tables and second moments; a response that
depends on three things at once in another way, or on the shape of a number within its cells, is estimated with a bias that
no interval shows. docs/researchers-reference.md has simulations.

Approximate in every part; no interval here is proved.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linprog

from trimask.errors import BeyondSecondMoments, FormulaError, ParameterError
from trimask.fit.design import INTERCEPT, Design, group_names, membership, original, unit
from trimask.fit.estimates import EstimateTable
from trimask.fit.formula import parse
from trimask.fit.least_squares import solve
from trimask.fit.noise import hidden, moments_of, outer
from trimask.fit.ols_results import binary_design
from trimask.fit.report import noise_notes
from trimask.fit.results import LinearResults, described
from trimask.fit.unavailable_models import refuse
from trimask.moments.moments import Moments, answers_of
from trimask_core.study.derived import ONES
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix

_STEPS = 50


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LogitResults(LinearResults):
    """Log odds of a logistic regression: the tables "coefficients" and "odds ratios".

    Attributes
    ----------
    records : int
        How many synthetic ones it is of; 0 for a release itself.
    weighted : bool
        Whether people of the release count by weights.
    bias : array, optional
        What a release's tables leave open of each log odds, where three groups or more are in the model.
    odds_ratios : Series
        exp of the slopes.

    Examples
    --------
    >>> import trimask
    >>> made = trimask.synthesize(trimask.example(), 5000)  # doctest: +SKIP
    >>> print(trimask.fit.logit(made, "smoker ~ age").summary())  # doctest: +SKIP
    """

    what: str = "Logistic regression"
    records: int = 0
    weighted: bool = False
    bias: Matrix | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        table = self._table(df=None, bias=self.bias)
        slopes = np.array([name != INTERCEPT for name in self.names])
        ratios = np.exp(self.coefficients[slopes])
        odds = EstimateTable(
            table.index[slopes], ratios, ratios * table.sampling[slopes], ratios * table.privacy[slopes], scale="log",
            clear=0.0, bounds=(0.0, np.inf), null=1.0, head="odds ratio", style=3,
            bias=None if self.bias is None else ratios * self.bias[slopes],
        )  # fmt: skip
        object.__setattr__(self, "tables", {"coefficients": table, "odds ratios": odds})

    @property
    def title(self) -> str:
        """What was fitted, and to what."""
        return f"{self.what} of SYNTHETIC records" if self.records else super().title

    @property
    def odds_ratios(self) -> pd.Series[float]:
        """exp of the slopes."""
        slopes = self.params.drop(INTERCEPT)
        return pd.Series(np.exp(slopes.to_numpy()), index=slopes.index, name="odds ratio")

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        if not self.records:
            return super().notes
        people = f"{self.nobs:,} people{' in effect' if self.weighted else ''}"
        return (
            *noise_notes(self.sigma),
            f"Fitted to {self.records:,} synthetic records, nobody's; errors are about the release's {people}.",
            "Errors are approximate, and leave out what the records' model assumes: two-way tables and second moments.",
        )


def logit(source: Any, formula: str = "", **_: Any) -> LogitResults:
    """Log odds: of groups in a release, exact of one or two; approximate of what `trimask.synthesize` returns.

    Parameters
    ----------
    source : Dataset, Moments, PrivateGram, Simulated, a list of datasets, or Synthetic
        A release, for a formula of groups and yes-or-no columns; synthetic records for others.
    formula : str
        With an intercept; the response is a yes-or-no attribute or a level.

    Returns
    -------
    LogitResults
        Log odds and `odds_ratios`, with sampling and noise in their errors.

    Raises
    ------
    BeyondSecondMoments
        A release does not determine this model; the message says what it does.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.logit(data, "smoker ~ C(activity)").odds_ratios.index.tolist()
    ['C(activity)[medium]', 'C(activity)[high]']
    >>> try:
    ...     trimask.fit.logit(data, "smoker ~ age")
    ... except trimask.errors.BeyondSecondMoments as error:
    ...     print(str(error)[:50])
    a logistic regression cannot be fitted to a releas
    >>> made = trimask.synthesize(data, 5000)  # doctest: +SKIP
    >>> trimask.fit.logit(made, "smoker ~ age").odds_ratios  # doctest: +SKIP
    """
    if not (isinstance(getattr(source, "frame", None), pd.DataFrame) and hasattr(source, "moments")):
        return _of_groups(moments_of(source), formula)
    moments: Moments = source.moments
    design = binary_design(moments.schema, formula, moments.gram)
    if INTERCEPT not in design.names:
        raise FormulaError(f"{formula.strip()!r}: a logistic regression needs an intercept here")
    share, privacy = step_noise(moments, design)  # refuses where the noise leaves nothing to say
    asked = source.frame[[item.name for item in moments.schema.attributes]]
    rows = np.array([moments.schema.encode(one) for one in answers_of(asked, moments.schema)])
    y = rows @ original(design.response, moments.schema)
    X = rows @ design.combine
    found, information, weight = _newton(X, X.T @ y)
    change = design.to_original / design.response_half_range
    grown = (share * (1 - share) / weight) ** 2
    sampling = change @ np.linalg.inv(information) @ change.T * (len(rows) / moments.rows)
    return LogitResults(
        **described(moments, design, formula) | {"unit": "log odds"}, coefficients=change @ found, cov_sampling=sampling,
        cov_privacy=privacy * grown, records=len(rows),
        weighted=bool(moments.weighted_by),
    )  # fmt: skip


_CLEAR = 3.0


@dataclass(frozen=True, eq=False)
class _Side:
    """A group on the right of a formula: its levels, who is in each, what coefficients are called, and the reference."""

    name: str
    levels: list[str]
    members: Matrix
    named: list[str]
    base: int


def _of_groups(moments: Moments, formula: str) -> LogitResults:
    """The log odds of each level against its reference."""
    schema = moments.schema
    asked = parse(formula, schema)
    design = binary_design(schema, formula, moments.gram)
    groups = group_names(schema)
    if not asked.terms or not asked.intercept or any(term.name not in groups for term in asked.terms):
        refuse("logit")
    sides = []
    for term in asked.terms:
        levels, U = membership(term, schema)
        # The level without a coefficient is the reference; of a yes-or-no column it is "no".
        named = [f"C({term.name})[{level}]" if term.categorical else term.name for level in levels]
        base = (
            next(at for at, name in enumerate(named) if name not in design.names) if term.categorical else 0
        )
        sides.append(_Side(term.name, levels, U, named, base))
    yes = original(design.response, schema)
    words = described(moments, design, formula) | {"unit": "log odds"}
    if len(sides) == 1:
        return _of_one_group(moments, words, sides[0], yes)
    return _of_several(moments, words, sides, yes)


_DRAWS = 200
_MOST_CELLS = 4096
_MOST_BIAS = 0.5


def _of_several(moments: Moments, words: dict[str, Any], sides: list[_Side], yes: Matrix) -> LogitResults:
    """Main effects of several groups, by the law of largest entropy with their two-way tables."""
    shape = [len(side.levels) for side in sides]
    if math.prod(shape) > _MOST_CELLS:
        raise ParameterError(
            "formula", f"of at most {_MOST_CELLS:,} combinations of levels", math.prod(shape)
        )
    cells = np.indices(shape).reshape(len(shape), -1)
    inside = [np.arange(size)[:, None] == at for size, at in zip(shape, cells, strict=True)]  # level x cell
    kept = [[at for at in range(size) if at != side.base] for size, side in zip(shape, sides, strict=True)]
    X = np.vstack([np.ones(cells.shape[1]), *(part[at] for part, at in zip(inside, kept, strict=True))]).T
    names = [INTERCEPT, *(side.named[at] for side, more in zip(sides, kept, strict=True) for at in more)]
    one = unit(moments.schema, ONES)

    def fitted(G: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Coefficients, their information, and the people of each cell."""
        people = _largest_entropy(inside, [side.members for side in sides], G)
        score = np.concatenate(
            [[one @ G @ yes], *(s.members[at] @ G @ yes for s, at in zip(sides, kept, strict=True))]
        )
        return (*_newton(X, score, people)[:2], people)

    for side in sides:
        _check_counts(moments, side, yes, words["response"])
    found, information, people = fitted(moments.gram)
    spread: Matrix = np.linalg.inv(information).astype(np.float64)
    rng, draws = np.random.default_rng(0), []  # of a simulation about the noise: nothing secret
    for _ in range(0 if moments.exact else _DRAWS):
        with suppress(ParameterError):
            draws.append(fitted(moments.gram + moments.law.draw(rng))[0])
    if not moments.exact and len(draws) < 0.95 * _DRAWS:
        said = f"{_DRAWS - len(draws)} of {_DRAWS} releases like this have no log odds"
        raise hidden(moments, [words["response"]], said)
    privacy = np.cov(np.array(draws).T) if draws else np.zeros_like(spread)
    bias = None
    if len(sides) > 2:
        bias = _undetermined(X, inside, people, found, spread)
        worst = int(np.argmax(bias))
        if bias[worst] > _MOST_BIAS:
            raise BeyondSecondMoments(
                f"a logistic regression of {len(sides)} groups is not determined by this release: its two-way tables leave "
                f"{names[worst]} open by {bias[worst]:.2f}. Instead: fit.logit of two groups, whose table is in the "
                "release; C(g, merge=[...]); fit.linear_probability"
            )
    how = (
        "largest entropy with the release's two-way tables" if bias is not None else "the release's own table"
    )
    return LogitResults(
        **words | {"names": tuple(names)}, coefficients=found, cov_sampling=spread, cov_privacy=privacy, bias=bias,
        about=[("references", ", ".join(f"{side.levels[side.base]} of {side.name}" for side in sides))],
        remarks=(
            f"People by all groups together: {how}.",
            *(["Intervals count what other laws with these tables would change (numerical)."] if bias is not None else []),
            *([] if moments.exact else [f"Errors by the noise: a parametric bootstrap of {_DRAWS} draws."]),
        ),
    )  # fmt: skip


def _largest_entropy(inside: list[Any], members: list[Matrix], G: Matrix) -> Matrix:
    """People of each cell, by iterative proportional fitting to the two-way tables, which noise may have below zero."""
    tables = []
    for i, j in itertools.combinations(range(len(members)), 2):
        flat = np.argmax(inside[i], axis=0) * len(inside[j]) + np.argmax(inside[j], axis=0)
        tables.append((flat, np.maximum(members[i] @ G @ members[j].T, 0.0).ravel()))
    found = np.full(inside[0].shape[1], 1.0)
    for _ in range(500 if len(tables) > 1 else 1):
        before = found
        for flat, table in tables:
            now = np.bincount(flat, weights=found, minlength=len(table))
            found = found * np.divide(table, now, out=np.zeros_like(table), where=now > 0)[flat]
        if np.abs(found - before).max() <= 1e-10 * found.max():
            break
    return found


def _undetermined(X: Matrix, inside: list[Any], people: Matrix, b: Matrix, spread: Matrix) -> Matrix:
    """By how much another law with the same two-way tables could move each coefficient."""
    rows = [
        first & second
        for one, other in itertools.combinations(inside, 2)
        for first in one
        for second in other
    ]
    tables = np.array(rows, dtype=float)
    p = 1 / (1 + np.exp(-X @ b))
    score, moves = X.T @ (people * p), -(spread @ (X * p[:, None]).T)
    found = np.zeros(len(b))
    for j, move in enumerate(moves):
        for sign in (1.0, -1.0):
            worst = linprog(-sign * move, A_eq=tables, b_eq=tables @ people, bounds=(0, None), method="highs")
            law = people if worst.x is None else np.asarray(worst.x, dtype=np.float64)
            found[j] = max(found[j], abs(move @ (law - people)))
            with suppress(ParameterError):
                found[j] = max(found[j], abs(_newton(X, score, law)[0][j] - b[j]))
    return found


def _clear(moments: Moments, members: Matrix, who: Matrix) -> NDArray[np.bool_]:
    """Which levels have such people, clear of the noise."""
    noise = np.sqrt(moments.law.variance(outers(members, who)))
    found: NDArray[np.bool_] = members @ moments.gram @ who > _CLEAR * noise
    return found


def _check_counts(moments: Moments, side: _Side, yes: Matrix, response: str) -> None:
    """Every level has people who say yes and people who say no, clear of the noise."""
    one = unit(moments.schema, ONES)
    for who in (yes, one - yes):
        clear = _clear(moments, side.members, who)
        lost = [level for level, there in zip(side.levels, clear, strict=True) if not there]
        if lost:
            said = f"the log odds of {response} are not determined in {', '.join(lost)}"
            raise hidden(moments, [response], f"{said}. Merge levels, C({side.name}, merge=[level, level])")


def _of_one_group(moments: Moments, words: dict[str, Any], side: _Side, yes: Matrix) -> LogitResults:
    """Exact, because the model is saturated; levels that the noise hides stand beside the others."""
    G, one, response = moments.gram, unit(moments.schema, ONES), words["response"]
    levels, U, named, base = side.levels, side.members, side.named, side.base
    a, size = U @ G @ yes, U @ G @ one
    b = size - a
    known = _clear(moments, U, yes) & _clear(moments, U, one - yes)
    if not known[base] or known.sum() < 2:
        said = f"the log odds of {response} are not determined in {levels[base]}, the reference, or in all others"
        raise hidden(moments, [response], f"{said}. Merge levels, C({side.name}, merge=[level, level])")
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(known, np.log(a / b), np.nan)
        drawn = np.where(known, 1 / a + 1 / b, np.nan)
        sides = np.outer(1 / a + 1 / b, yes) - np.outer(1 / b, one)
    gradients = outers(U, np.where(known[:, None], sides, 0.0))
    privacy = moments.law.covariance(gradients)
    others = [at for at in range(len(levels)) if at != base]
    change = np.vstack([np.eye(len(levels))[base], np.eye(len(levels))[others] - np.eye(len(levels))[base]])
    lost = [levels[at] for at in others if not known[at]]
    spread = change @ np.diag(np.nan_to_num(drawn)) @ change.T
    gone = np.concatenate([[False], ~known[others]])
    spread[gone], spread[:, gone] = np.nan, np.nan
    return LogitResults(
        **words | {"names": (INTERCEPT, *(named[at] for at in others))},
        coefficients=np.array([odds[base], *(odds[others] - odds[base])]), cov_sampling=spread,
        cov_privacy=change @ privacy @ change.T, about=[("reference", levels[base])],
        remarks=(
            "Exact for one group: the log odds of its counts; rows need satisfy no model.",
            *([f"The noise hides a count of {', '.join(lost)}: merge levels."] if lost else []),
        ),
    )  # fmt: skip


def step_noise(moments: Moments, design: Design) -> tuple[float, Matrix]:
    """Everybody's share p, and what the release's noise does to one Newton step from the model without regressors.

    The step's slopes are b_j / w and its intercept log(p / (1 - p)) + (b_0 - p) / w, with b the linear probability model and
    w = p (1 - p). The covariance is that of its gradients in the moments, p's noise included, grown where those of the
    linear fit are (`trimask_theory.mechanisms.noisy_regression`).
    """
    estimate, n, one = solve(moments, design), moments.rows, unit(moments.schema, ONES)
    response = original(design.response, moments.schema)  # 0 or 1: its share is the mean
    p = float(one @ moments.gram @ response) / n
    if not 0 < p < 1:
        said = f"the share of {design.response} comes out as {p:.3g}, and has no log odds"
        raise hidden(moments, [design.response], said)
    w, b = p * (1 - p), estimate.params
    first = np.array([name == INTERCEPT for name in design.names], dtype=float)
    # d(1/w) = -(1 - 2p)/w^2 dp; d log(p/(1-p)) = dp/w, which cancels the -dp/w of b_0 - p.
    pull = -(1 - 2 * p) / w**2 * (b - first * p)
    gradients = estimate.gradients / w + pull[:, None, None] * outer(one, response) / n
    return p, moments.law.covariance(gradients) * np.outer(estimate.grown, estimate.grown)


def _newton(X: Matrix, score: Matrix, people: Matrix | float = 1.0) -> tuple[Matrix, Matrix, float]:
    """b with sum of people x expit(x'b) = score, the information, and the mean of p (1 - p)."""
    b = np.zeros(X.shape[1])
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(X @ b, -30, 30)))
        weight = people * p * (1 - p)
        information = X.T @ (X * weight[:, None])
        if not np.linalg.cond(information) < 1e12:
            break
        step = np.linalg.solve(information, score - X.T @ (people * p))
        b = b + step
        if float(np.abs(step).max()) < 1e-9:
            return b, information, float(weight.mean())
    raise ParameterError(
        "formula",
        "one whose regressors do not decide the response: Newton's steps do not settle",
    )
