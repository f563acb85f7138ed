"""The mechanisms on raw rows, for whoever holds them: plain functions of an array or a DataFrame.

Nothing is kept and nothing is counted: add up what you spend. Rows that break the stated bound are refused, never clipped
silently. `neighbours` says what the price is for: "record" (the default, one row replaced by any other) or, where the
paper has it, "add-remove", at half the price. `method` is the mechanism, `calibration` how a paper's noise is found.
Noise is cryptographic unless `source` says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from trimask.errors import ParameterError
from trimask.release import local_rows
from trimask.release.local_rows import (
    NEIGHBOURS,
    Sketch,
    normals_of,
    on_public_steps,
    one_step_price,
    place_of,
    private_sum,
    rows_of,
    sketched_fit,
    stated,
    wide,
)
from trimask.release.results import (
    FIT_METHODS,
    PrivateComponents,
    PrivateFit,
    PrivateGram,
    PrivateProjection,
    PrivateSum,
    centred_components,
    gram_fit,
    warn_of_projection,
)
from trimask.release.source import columns_for, formula_of
from trimask.release.tables import PrivateMeans, PrivateTable, private_counts, private_means
from trimask_core.study.derived import ONES
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.checks import one_of, positive
from trimask_theory.mechanisms import counts, record, vector_sum
from trimask_theory.mechanisms import pca as pca_theory
from trimask_theory.mechanisms import projection as projection_theory
from trimask_theory.moments import sensitivity

if TYPE_CHECKING:
    from trimask_theory.gaussian.grid_gaussian import NormalSource

__all__ = ["clipped_sum", "gram", "group_means", "histogram", "ols", "pca", "projection", "sum", "table"]

_SWEEPS = 200


def sum(  # noqa: A001 - release.local.sum
    data: Any,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    method: str = "elliptical",
    source: NormalSource | None = None,
) -> PrivateSum:
    """Sums of columns with public ranges: "gaussian" (Algorithm 1) or "elliptical" (Algorithm 2), by `method`.

    `lower` and `upper` are the columns' bounds, one number each or one for all.
    `data` are rows of numbers, one a person; `epsilon` and `delta` the price; `source` the generator (cryptographic
    by default).

    >>> import numpy as np, trimask
    >>> rows = np.random.default_rng(0).uniform(0, 10, (5000, 2))
    >>> found = trimask.release.local.sum(rows, 0, 10, epsilon=1.0, delta=1e-6)
    >>> abs(found.mean["x0"] - rows[:, 0].mean()) < 0.1
    np.True_
    """
    rows, names = rows_of(data)
    mechanism = {"gaussian": vector_sum.gaussian, "elliptical": vector_sum.elliptical}[
        one_of("method", method, ("gaussian", "elliptical"))
    ]
    low, high = wide(lower, len(names)), wide(upper, len(names))
    found = mechanism(rows, low, high, epsilon=epsilon, delta=delta, source=normals_of(source))
    return private_sum(found, names, len(rows))


def clipped_sum(
    data: Any,
    centre: ArrayLike,
    deviations: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    clip_probability: float | None = None,
    source: NormalSource | None = None,
) -> PrivateSum:
    """Algorithm 3: rows scaled and clipped around a public `centre` by public `deviations`; private for any rows.

    `clip_probability` is the share of rows that is clipped if they are normal with these deviations (1/n by default).
    `data` are rows of numbers, one a person; `epsilon` and `delta` the price; `source` the generator (cryptographic
    by default).

    >>> import numpy as np, trimask
    >>> rows = np.random.default_rng(0).normal(5, 2, (5000, 1))
    >>> found = trimask.release.local.clipped_sum(rows, 5, 2, epsilon=1.0, delta=1e-6)
    >>> abs(found.mean["x0"] - 5) < 0.2
    np.True_
    """
    rows, names = rows_of(data)
    found = vector_sum.clipped(
        rows,
        wide(centre, len(names)),
        wide(deviations, len(names)),
        epsilon=epsilon,
        delta=delta,
        source=normals_of(source),
        clip_probability=clip_probability,
    )
    return private_sum(found, names, len(rows))


def table(
    data: Any,
    levels: Mapping[str, Sequence[object]],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    source: NormalSource | None = None,
) -> PrivateTable:
    """How many people gave each combination of answers: a sensitivity of sqrt 2, however many cells there are.

    `data` is a DataFrame, or what becomes one, with a column for each question; `levels` every question's public levels,
    answers outside of which are refused. The price is `epsilon` and `delta`, or `mu`; `source` the generator (cryptographic
    by default).

    >>> import pandas as pd, trimask
    >>> rows = pd.DataFrame({"health": ["good", "poor"] * 500, "plan": ["a", "a", "b", "b"] * 250})
    >>> levels = {"health": ["good", "poor"], "plan": ["a", "b"]}
    >>> found = trimask.release.local.table(rows, levels, epsilon=1.0, delta=1e-6)
    >>> abs(found.counts.loc["good", "a"] - 250) < 60
    np.True_
    """
    codes = local_rows.codes_of(data, levels)
    found = counts.release(
        local_rows.cells_of(codes, levels), sensitivity.table(), normals_of(source),
        epsilon=epsilon, delta=delta, mu=mu,
    )  # fmt: skip
    return private_counts(levels, found.values, found.noise, len(codes), found.guarantee, joint=True)


def histogram(
    data: Any,
    levels: Mapping[str, Sequence[object]],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    source: NormalSource | None = None,
) -> PrivateTable:
    """How many people gave each answer, question by question: a sensitivity of sqrt 2 for one, sqrt(2 G) for G.

    `data`, `levels`, the price (`epsilon` and `delta`, or `mu`) and `source` are as in `table`.

    >>> import pandas as pd, trimask
    >>> rows = pd.DataFrame({"health": ["good", "poor"] * 500})
    >>> found = trimask.release.local.histogram(rows, {"health": ["good", "poor"]}, mu=1.0)
    >>> abs(found.counts["good"] - 500) < 10
    np.True_
    """
    codes = local_rows.codes_of(data, levels)
    values = [np.bincount(codes[:, at], minlength=len(of)) for at, of in enumerate(levels.values())]
    found = counts.release(
        np.concatenate(values), sensitivity.histograms(len(levels)), normals_of(source),
        epsilon=epsilon, delta=delta, mu=mu,
    )  # fmt: skip
    return private_counts(levels, found.values, found.noise, len(codes), found.guarantee, joint=False)


def group_means(
    data: Any,
    number: str,
    lower: float,
    upper: float,
    by: Mapping[str, Sequence[object]],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    source: NormalSource | None = None,
) -> PrivateMeans:
    """The mean of a number in each group, and how many people are in it: a sensitivity of 2 in half ranges.

    `number` is a column of `data` within the public bounds `lower` and `upper`, outside of which it is refused; `by` the
    questions that make the groups with their levels. The price (`epsilon` and `delta`, or `mu`) and `source` are as in
    `table`.

    >>> import pandas as pd, trimask
    >>> rows = pd.DataFrame({"health": ["good", "poor"] * 500, "visits": [1, 4] * 500})
    >>> found = trimask.release.local.group_means(rows, "visits", 0, 20, {"health": ["good", "poor"]}, mu=1.0)
    >>> abs(found.estimates.frame.loc["poor", "estimate"] - 4) < 1
    np.True_
    """
    codes = local_rows.codes_of(data, by)
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    scaled = (local_rows.number_of(data, number, lower, upper) - middle) / half
    values = np.concatenate([local_rows.cells_of(codes, by, scaled), local_rows.cells_of(codes, by)])
    found = counts.release(
        values, sensitivity.group_means(-1, 1), normals_of(source), epsilon=epsilon, delta=delta, mu=mu
    )
    noise, span = (found.noise, found.noise), (middle, half)
    return private_means(number, by, found.values, noise, span, len(codes), found.guarantee)


def projection(
    data: Any,
    *,
    row_norm: float,
    epsilon: float,
    delta: float,
    reduced_dim: int = 1,
    calibration: str = "sharp",
    neighbours: str = "record",
    leverage: float | None = None,
    source: NormalSource | None = None,
) -> PrivateProjection:
    """M_RP: D^T G plus noise. `leverage`, a public bound on every row's, asks for the relative form (Theorem 6).

    It is offered as its paper states it, with a warning: `gram` has less error at the same price. `row_norm` is a
    public bound on a row, `reduced_dim` the number of columns of G, `calibration` how the noise is found,
    `neighbours` whom the price is for (see the module).
    `data` are rows of numbers, one a person; `epsilon` and `delta` the price; `source` the generator (cryptographic
    by default).

    >>> import numpy as np, trimask
    >>> x = np.random.default_rng(0).uniform(-1, 1, (5000, 2))
    >>> trimask.release.local.projection(x, row_norm=2**0.5, epsilon=1.0, delta=1e-6)  # doctest: +SKIP
    """
    warn_of_projection(reduced_dim)
    rows, names = rows_of(data, row_norm)
    price = one_step_price(epsilon, delta, neighbours)
    if leverage is None:
        found = projection_theory.calibrate(*price, reduced_dim, row_norm, calibration)
    else:
        found = projection_theory.relative_calibrate(*price, reduced_dim, leverage, row_norm, calibration)
    values = on_public_steps(
        projection_theory.release(rows, reduced_dim, found.sigma, normals_of(source)), found.sigma
    )
    guarantee = stated(found, row_norm, epsilon, delta, neighbours)
    return PrivateProjection(pd.DataFrame(values, index=names), found.sigma, guarantee)


def gram(
    data: Any,
    columns: Sequence[str] | None = None,
    *,
    row_norm: float | None = None,
    schema: Schema | None = None,
    intercept: bool = True,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    source: NormalSource | None = None,
) -> PrivateGram:
    """X^T X of columns with Gaussian noise: a source for every `trimask.fit`, one spend for all models.

    `data` are rows of numbers with `row_norm` a public bound on a row of the columns taken, or raw answers with the
    `schema` whose declared bounds they keep (and whose groups, squares and products they then have). `columns` are
    all by default. With `intercept` a column `one` is added, and its 1 to the norm. The price is epsilon and delta, or mu.

    >>> import numpy as np, trimask
    >>> x = np.random.default_rng(0).uniform(-1, 1, (5000, 2))
    >>> gram = trimask.release.local.gram(x, row_norm=2**0.5, epsilon=1.0, delta=1e-6)
    >>> trimask.fit.ols(gram, "x1 ~ x0").names
    ('Intercept', 'x0')
    """
    normals = normals_of(source)
    if schema is not None:
        if row_norm is not None:
            raise ParameterError("row_norm", "left out where a schema has the bounds", row_norm)
        asked = [
            *([ONES] if intercept else []),
            *(columns or [c.name for c in schema.columns if c.name != ONES]),
        ]
        return local_rows.of_answers(data, schema, asked, (epsilon, delta, mu), normals)
    if row_norm is None:
        raise ParameterError("row_norm", "given, or a schema: it is what the noise is calibrated to")
    every, names = rows_of(data)
    chosen = [name for name in names if name != ONES] if columns is None else [str(name) for name in columns]
    taken = every[:, [place_of(names, name) for name in chosen if name != ONES]]
    rows, _ = rows_of(taken, row_norm)
    named = [name for name in chosen if name != ONES]
    return local_rows.of_rows(rows, named, row_norm, intercept, (epsilon, delta, mu), normals)


def ols(
    data: Any,
    formula: str,
    features: Sequence[str] | None = None,
    *,
    row_norm: float | None = None,
    schema: Schema | None = None,
    epsilon: float,
    delta: float,
    method: str = "noisy_gram",
    reduced_dim: int | None = None,
    calibration: str = "sharp",
    neighbours: str = "record",
    leverage: float | None = None,
    residual: float | None = None,
    source: NormalSource | None = None,
) -> PrivateFit:
    """Least squares: the `formula` "y ~ x1 + x2", or a response and a list of `features` with `one` for an intercept.

    `row_norm` bounds a row of the features and the response together, without the intercept's 1, which is added to it; or
    `schema` has the bounds of raw answers. "noisy_gram" gives standard errors, tests and intervals; its `.gram` is a source
    for other models. "M_LS" and "M_ALS" are the papers' mechanisms, on rows of numbers, with coefficients alone and a
    `PaperMechanism` warning of their error; `leverage` and `residual`, public bounds, ask for the relative form
    (Figure 13). `data` are the rows, `method` is one of the names above, `reduced_dim` the r of the paper,
    `calibration` and `neighbours` as in the module's description.

    >>> import numpy as np, pandas as pd, trimask
    >>> rows = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (5000, 2)), columns=["x", "y"])
    >>> fit = trimask.release.local.ols(rows, "y ~ x", row_norm=2**0.5, epsilon=1.0, delta=1e-6)
    >>> list(fit.conf_int().index)
    ['Intercept', 'x']
    """
    one_of("method", method, FIT_METHODS)
    formula = formula_of(formula, features)
    if method == "noisy_gram":
        if neighbours != "record":
            raise ParameterError("neighbours", "'record' for the noisy Gram matrix", neighbours)
        if (reduced_dim, leverage, residual) != (None, None, None):
            raise ParameterError("reduced_dim, leverage and residual", "left out for the noisy Gram matrix")
        named = schema or _named(data, row_norm)
        _, needed = columns_for(formula, named)
        price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "source": source}
        kept = [name for name in needed if name != ONES]
        bound: dict[str, Any] = {"row_norm": row_norm} if schema is None else {"schema": schema}
        return gram_fit(gram(data, kept, intercept=ONES in needed, **bound, **price), formula)
    if schema is not None or row_norm is None:
        raise ParameterError("row_norm", f"given, and no schema: {method} is for rows of numbers")
    asked, _ = columns_for(formula, _named(data, row_norm))
    every, names = rows_of(data)
    chosen = [term.name for term in asked.terms]
    places = [place_of(names, name) for name in [*chosen, asked.response]]
    rows, _ = rows_of(every[:, places], row_norm)
    norm = row_norm
    if asked.intercept:
        rows, norm = np.column_stack([np.ones(len(rows)), rows]), math.hypot(row_norm, 1.0)
    sketch = Sketch(method, reduced_dim, calibration, neighbours, leverage, residual)
    slopes = ["Intercept"] * asked.intercept + chosen
    return sketched_fit(rows, slopes, norm, formula, (epsilon, delta), sketch, normals_of(source))


def _named(data: Any, row_norm: float | None) -> Schema:
    """The columns of rows of numbers, for reading a formula."""
    if row_norm is None:
        raise ParameterError("row_norm", "given, or a schema: it is what the noise is calibrated to")
    _, names = rows_of(data)
    reach = positive("row_norm", row_norm)
    return Schema(tuple(Attribute(name, "continuous", -reach, reach) for name in names if name != ONES))


def pca(
    data: Any,
    components: int,
    *,
    mu: float | None = None,
    epsilon: float | None = None,
    row_norm: float | None = None,
    method: str = "adaptive",
    test_share: float = 0.2,
    neighbours: str = "record",
    source: NormalSource | None = None,
) -> PrivateComponents:
    """Principal components of D^T D / n: "adaptive" (Algorithm 3), "exponential" (1) or "rank" (4); or "noisy_gram".

    "noisy_gram" is about the mean, with errors, by a Gram matrix that has the price's noise: proved Gaussian DP. The others
    are the papers', about the origin: asymptotic Gaussian DP at the price `mu`. Only "adaptive" protects the choice of
    beta; the other two take it from the data's own spectrum so that they are mu-private at it. "exponential" may be paid
    with `epsilon` instead: its beta then holds for any data, and delta = 0 (proved for one component). "rank" replaces
    values by ranks: rows of any size, no `row_norm`. `method` is one of these; `test_share` of mu^2 pays for choosing beta
    ("adaptive"); `neighbours` says whom the price is for (see the module), `source` is the generator (cryptographic by
    default).

    >>> import numpy as np, trimask
    >>> x = np.random.default_rng(0).uniform(-1, 1, (5000, 3)) * [1, 0.5, 0.2]
    >>> found = trimask.release.local.pca(x, 1, mu=1.0, row_norm=1.2, method="noisy_gram")
    >>> list(found.components.index)
    ['x0', 'x1', 'x2']
    """
    one_of("method", method, ("adaptive", "exponential", "rank", "noisy_gram"))
    one_of("neighbours", neighbours, NEIGHBOURS)
    if (mu is None) == (epsilon is None) or (epsilon is not None and method != "exponential"):
        raise ParameterError("price", 'mu, or epsilon for "exponential"')
    if epsilon is not None:
        return _pure_components(data, components, epsilon, row_norm, neighbours, normals_of(source))
    assert mu is not None  # noqa: S101 - for the type checker
    if method == "noisy_gram":
        if neighbours != "record":
            raise ParameterError("neighbours", "'record' for the noisy Gram matrix", neighbours)
        found_gram = gram(data, row_norm=row_norm, mu=mu, source=source)
        columns = [column.name for column in found_gram.moments.columns if column.name != ONES]
        return centred_components(found_gram, components, columns)
    step = record.one_step_mu(mu) if neighbours == "record" else positive("mu", mu)
    rows, names = rows_of(data)
    if method == "rank":
        if row_norm is not None:
            raise ParameterError("row_norm", "left out: ranks are bounded by themselves", row_norm)
        scaled = pca_theory.rank_transform(rows)
    else:
        if row_norm is None:
            raise ParameterError("row_norm", "given: it is what the noise is calibrated to")
        rows, _ = rows_of(data, row_norm)
        scaled = rows * (math.sqrt(rows.shape[1]) / row_norm)
    spectrum = pca_theory.from_rows(scaled, components)
    normals = normals_of(source)
    if method == "adaptive":
        if not 0 < test_share < 1:
            raise ParameterError("test_share", "a number in (0, 1)", test_share)
        test, target = step * math.sqrt(test_share), step * math.sqrt(1 - test_share)
        found = pca_theory.adaptive(spectrum, test, target, normals)
        frame, beta, guarantee = found.components, found.beta, found.guarantee
    else:
        beta = pca_theory.beta_for(spectrum, step)
        if method == "rank":
            released = pca_theory.rank_transformed(rows, components, beta, normals)
        else:
            released = pca_theory.exponential(spectrum, beta, normals)
        frame, guarantee = released.components, released.guarantee
    if neighbours == "record":
        guarantee = record.two_steps(guarantee, row_norm, mu=float(mu))
    shown = None if frame is None else pd.DataFrame(frame, index=names)
    return PrivateComponents(shown, beta, guarantee)


def _pure_components(
    data: Any, components: int, epsilon: float, row_norm: float | None, neighbours: str, normals: NormalSource
) -> PrivateComponents:
    """The exponential mechanism at the beta that costs epsilon for any data (`trimask_theory.mechanisms.pca.pure_epsilon`).

    exp((epsilon / (2 R^2)) tr V^T D^T D V) changes by a factor e^epsilon at most when a row is replaced: no gap is needed,
    and a refusal for lack of one would reveal something about the data.
    """
    if row_norm is None or neighbours != "record":
        raise ParameterError(
            "row_norm and neighbours", "a bound on a row, and 'record', where epsilon is paid"
        )
    rows, names = rows_of(data, row_norm)
    p, beta = rows.shape[1], positive("epsilon", epsilon) * len(rows) / rows.shape[1] ** 2
    if not 1 <= components < p:
        raise ParameterError("components", f"between 1 and {p - 1}, one less than the columns", components)
    values, vectors = np.linalg.eigh(rows.T @ rows * (p / row_norm**2 / len(rows)))
    spectrum = pca_theory.Spectrum(values[::-1].copy(), vectors[:, ::-1].copy(), len(rows), components)
    frame = pca_theory.gibbs(spectrum, beta, normals, _SWEEPS)[0]
    drawn = "drawn exactly by rejection"
    if components > 1:
        drawn = f"drawn by {_SWEEPS} sweeps of a Gibbs chain, which reaches the law only in the limit"
    guarantee = Guarantee(
        neighbours=Neighbours("record", row_norm=float(row_norm)),
        basis="proved" if components == 1 else "asymptotic",
        because=f"exponential mechanism with the utility tr V^T X^T X V, of sensitivity R^2; {drawn}",
        citation="McSherry and Talwar 2007; Chaudhuri, Sarwate, Sinha 2013; Yun and Dudeja 2025, Algorithm 1",
        epsilon=float(epsilon),
        delta=0.0,
    )
    return PrivateComponents(pd.DataFrame(frame, index=names), beta, guarantee)
