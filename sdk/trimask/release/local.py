"""The mechanisms on raw rows, for whoever holds them: plain functions of an array or a DataFrame.

Nothing is kept and nothing is counted: add up what you spend. Rows that break the stated bound are refused, never clipped
silently. `neighbours` says what the price is for: "record" (the default, one row replaced by any other) or, where the
paper has it, "add-remove", at half the price. Noise is cryptographic unless `source` says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask.errors import ParameterError
from trimask.release.results import PrivateComponents, PrivateFit, PrivateProjection, PrivateSum
from trimask.release.solving import solve_gram
from trimask_core.guarantee import Guarantee
from trimask_core.randomness import SystemRandom
from trimask_core.rows.normal import SecureNormals
from trimask_theory import least_squares, noisy_gram, record, vector_sum
from trimask_theory import pca as pca_theory
from trimask_theory import projection as projection_theory
from trimask_theory.calibration import Calibration

if TYPE_CHECKING:
    from trimask_theory.normal_source import NormalSource

__all__ = ["clipped_sum", "ols", "pca", "projection", "sum"]

Array = NDArray[np.float64]
_NEIGHBOURS = ("record", "add-remove")


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
    """Sums of columns with public ranges: "gaussian" (Algorithm 1) or "elliptical" (Algorithm 2)."""
    rows, names = _rows(data)
    mechanism = {"gaussian": vector_sum.gaussian, "elliptical": vector_sum.elliptical}[
        _one_of("method", method, ("gaussian", "elliptical"))
    ]
    low, high = _wide(lower, len(names)), _wide(upper, len(names))
    found = mechanism(rows, low, high, epsilon=epsilon, delta=delta, source=_source(source))
    return _sum(found, names, len(rows))


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
    """Algorithm 3: rows scaled and clipped around a public centre by public deviations; private for any rows."""
    rows, names = _rows(data)
    found = vector_sum.clipped(
        rows,
        _wide(centre, len(names)),
        _wide(deviations, len(names)),
        epsilon=epsilon,
        delta=delta,
        source=_source(source),
        clip_probability=clip_probability,
    )
    return _sum(found, names, len(rows))


def projection(
    data: Any,
    *,
    row_norm: float,
    epsilon: float,
    delta: float,
    reduced_dim: int = 1,
    method: str = "sharp",
    neighbours: str = "record",
    leverage: float | None = None,
    source: NormalSource | None = None,
) -> PrivateProjection:
    """M_RP: D^T G plus noise. `leverage`, a public bound on every row's, asks for the relative form (Theorem 6)."""
    import pandas as pd

    rows, names = _rows(data, row_norm)
    price = _price(epsilon, delta, neighbours)
    if leverage is None:
        found = projection_theory.calibrate(*price, reduced_dim, row_norm, method)
    else:
        found = projection_theory.relative_calibrate(*price, reduced_dim, leverage, row_norm, method)
    values = projection_theory.release(rows, reduced_dim, found.sigma, _source(source))
    guarantee = _stated(found, row_norm, epsilon, delta, neighbours)
    return PrivateProjection(pd.DataFrame(values, index=names), found.sigma, guarantee)


def ols(
    data: Any,
    response: str | int,
    features: Sequence[str | int] | None = None,
    *,
    row_norm: float,
    epsilon: float,
    delta: float,
    method: str = "LS",
    reduced_dim: int | None = None,
    calibration: str = "sharp",
    neighbours: str = "record",
    leverage: float | None = None,
    residual: float | None = None,
    source: NormalSource | None = None,
) -> PrivateFit:
    """Least squares on the columns as they are: "LS" (M_LS), "ALS" (M_ALS) or "noisy_gram".

    `row_norm` bounds a row of the features and the response together. `leverage` and `residual`, public bounds, ask for
    the relative form (Figure 13). For an intercept, give a column of ones, which counts in the norm.
    """
    import pandas as pd

    _one_of("method", method, ("LS", "ALS", "noisy_gram"))
    every, names = _rows(data)
    last = _place(names, response)
    places = [i for i in range(len(names)) if i != last]
    if features is not None:
        places = [_place(names, feature) for feature in features]
    if last in places or len(set(places)) != len(places) or not places:
        raise ParameterError("features", "at least one column, each once, and not the response")
    rows, _ = _rows(every[:, [*places, last]], row_norm)
    chosen, normals = [names[i] for i in places], _source(source)
    labels = [*chosen, names[last]]
    if method == "noisy_gram":
        if neighbours != "record":
            raise ParameterError("neighbours", "'record' for the noisy Gram matrix", neighbours)
        if (reduced_dim, leverage, residual) != (None, None, None):
            raise ParameterError("reduced_dim, leverage and residual", "left out for the noisy Gram matrix")
        found = noisy_gram.calibrate(epsilon, delta, row_norm)
        noisy = noisy_gram.release(rows.T @ rows, found.sigma, row_norm, normals)
        solution = solve_gram(noisy)
        params = None if solution is None else pd.Series(solution, index=chosen, dtype=float)
        gram = pd.DataFrame(noisy, index=labels, columns=labels)
        return PrivateFit(names[last], params, "given", found.sigma, found.guarantee, gram)
    r, d = 10 * rows.shape[1] if reduced_dim is None else reduced_dim, len(places)
    price = _price(epsilon, delta, neighbours)
    if leverage is None and residual is None:
        found = least_squares.calibrate(*price, r, d, row_norm, calibration, method)
    elif leverage is None or residual is None:
        raise ParameterError("leverage and residual", "given together")
    else:
        found = least_squares.relative_calibrate(
            *price, r, d, leverage, residual, row_norm, calibration, method
        )
    if method == "LS":
        solution = least_squares.release(rows.T @ rows, r, found.sigma, normals)
    else:
        solution = least_squares.sketch(rows, r, found.sigma, normals)
    guarantee = _stated(found, row_norm, epsilon, delta, neighbours)
    return PrivateFit(
        names[last], pd.Series(solution, index=chosen, dtype=float), "given", found.sigma, guarantee
    )


def pca(
    data: Any,
    components: int,
    *,
    mu: float,
    row_norm: float | None = None,
    method: str = "adaptive",
    test_share: float = 0.2,
    neighbours: str = "record",
    source: NormalSource | None = None,
) -> PrivateComponents:
    """Principal components of D^T D / n: "adaptive" (Algorithm 3), "exponential" (1) or "rank" (4).

    Asymptotic Gaussian DP. Only "adaptive" protects the choice of beta; the other two take it from the data's own
    spectrum so that they are mu-private at it. "rank" replaces values by ranks: rows of any size, no `row_norm`.
    """
    import pandas as pd

    _one_of("method", method, ("adaptive", "exponential", "rank"))
    _one_of("neighbours", neighbours, _NEIGHBOURS)
    step = record.one_step_mu(mu) if neighbours == "record" else _positive("mu", mu)
    rows, names = _rows(data)
    if method == "rank":
        if row_norm is not None:
            raise ParameterError("row_norm", "left out: ranks are bounded by themselves", row_norm)
        scaled = pca_theory.rank_transform(rows)
    else:
        if row_norm is None:
            raise ParameterError("row_norm", "given: it is what the noise is calibrated to")
        rows, _ = _rows(data, row_norm)
        scaled = rows * (math.sqrt(rows.shape[1]) / row_norm)
    spectrum = pca_theory.from_rows(scaled, components)
    normals = _source(source)
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


def _one_of(name: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ParameterError(name, "one of " + ", ".join(map(repr, choices)), value)
    return value


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(name, "a finite number > 0", value)
    return float(value)


def _source(given: NormalSource | None) -> NormalSource:
    return SecureNormals(SystemRandom()) if given is None else given


def _rows(data: Any, row_norm: float | None = None) -> tuple[Array, list[str]]:
    """The rows as numbers and the columns' names; refused where a row is longer than was promised."""
    given = data.to_numpy() if hasattr(data, "to_numpy") else data
    try:
        rows = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("data", "numbers only") from None
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
        raise ParameterError("data", "a matrix of finite numbers, one row a person")
    if row_norm is not None:
        limit = _positive("row_norm", row_norm)
        # The guarantee rests on the bound, so longer rows are refused; the message names none of them.
        if float(np.sqrt(np.max(np.einsum("ij,ij->i", rows, rows)))) > limit * (1 + 1e-12):
            raise ParameterError("data", f"of rows of norm at most row_norm = {limit:g}; scale or clip them")
    names = getattr(data, "columns", None)
    return rows, [f"x{i}" for i in range(rows.shape[1])] if names is None else [str(name) for name in names]


def _wide(values: ArrayLike, size: int) -> Array:
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (size,))


def _place(names: Sequence[str], which: str | int) -> int:
    place = names.index(which) if isinstance(which, str) and which in names else which
    if not isinstance(place, int) or not -len(names) <= place < len(names):
        raise ParameterError("column", "one of " + ", ".join(names), which)
    return place % len(names)


def _price(epsilon: float, delta: float, neighbours: str) -> tuple[float, float]:
    """The add/remove price the theory calibrates for."""
    if _one_of("neighbours", neighbours, _NEIGHBOURS) == "record":
        return record.one_step(epsilon, delta)
    return epsilon, delta


def _stated(found: Calibration, row_norm: float, epsilon: float, delta: float, neighbours: str) -> Guarantee:
    if neighbours == "add-remove":
        return found.guarantee
    return record.two_steps(found.guarantee, row_norm, epsilon=float(epsilon), delta=float(delta))


def _sum(found: vector_sum.SumRelease, names: list[str], rows: int) -> PrivateSum:
    import pandas as pd

    return PrivateSum(
        pd.Series(found.value, index=names, dtype=float),
        pd.Series(found.noise, index=names, dtype=float),
        rows,
        found.guarantee,
    )
