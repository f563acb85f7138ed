"""What shrinking rows does to an estimate: how much of its error is the pilot's correction, and whether that is allowed.

The correction and its error are in the moments and their law already (`trimask.moments.moments`), so every
estimate has them. This is the rule of docs/theory/verified-moments.md#pilot: an interval is one while the correction's
standard error, which is also the bias that may be left, is at most ALLOWED of what sampling and noise make. Beyond, the
pilot's few long rows decide, and the two ends are a range; so they are where rows were shrunk and nothing was corrected.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimask.errors import CollinearColumns, NoiseExceedsSignal
from trimask.fit.covariance import covariance_of, numeric_columns
from trimask.fit.estimates import Estimates, EstimateTable
from trimask.fit.least_squares import Estimate
from trimask.fit.noise import Source, moments_of
from trimask.moments.moments import COUNTED, NOT_CORRECTED, SHRUNK, Moments
from trimask.moments.waves import entry_weights, waves_of, weighed
from trimask_core.study.derived import ONES
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix, SumLaw
from trimask_theory.planning.pilot import ALLOWED


def bias_left(
    moments: Moments, gradients: Matrix, sampling: Matrix, uncorrected: Matrix | None = None
) -> Matrix:
    """The correction's standard error over that of sampling and noise, of functions of the Gram matrix with these
    gradients (m x p x p) and sampling variances.

    `uncorrected` is the correction itself, where a release will not have it: its size is then in the bias.
    """
    counted = moments.law.correction(gradients)
    rest = np.maximum(moments.law.variance(gradients) - counted, 0.0) + sampling
    found = np.zeros(len(gradients))
    np.divide(counted / COUNTED, rest, out=found, where=rest > 0)
    found[(rest <= 0) & (counted > 0)] = np.inf
    left = np.sqrt(found)
    if uncorrected is not None:
        left += np.abs(np.einsum("aij,ij->a", gradients, uncorrected)) / np.sqrt(np.maximum(rest, 1e-300))
    return left


_Fit = TypeVar("_Fit", bound=Callable[..., Estimates])


def marked(fit: _Fit) -> _Fit:
    """A fit of waves by their precision, whose estimates outside the rule are marked as ranges.

    The correction's part of an error is what the error loses without it, so it is fitted once more, with that law.
    """

    @wraps(fit)
    def fitted(dataset: Source, *args: Any, **kwargs: Any) -> Estimates:
        moments = _by_precision(fit, dataset, args, kwargs)
        found = fit(moments, *args, **kwargs)
        if SHRUNK not in moments.label:
            return found
        plain = replace(moments, law=moments.law.uncorrected())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said once already
            without = fit(plain, *args, **kwargs) if _corrected(moments) else None
        tables = {
            name: replace(table, ranges=_ranges(table, None if without is None else without.tables[name]))
            for name, table in found.tables.items()
        }
        object.__setattr__(found, "tables", tables)  # our own, made a moment ago
        return found

    return fitted  # type: ignore[return-value]  # the fit's own signature


def _by_precision(
    fit: Callable[..., Estimates], source: Source, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Moments:
    """The moments behind a source, waves weighted by the precision of what each of them says of these estimates."""
    waves = (
        waves_of([moments_of(part) for part in source])
        if isinstance(source, (list, tuple)) and source
        else []
    )
    if len(waves) < 2:
        return moments_of(source)
    precisions = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a wave alone
        for wave in waves:
            with suppress(NoiseExceedsSignal, CollinearColumns):
                errors = next(iter(fit(wave, *args, **kwargs).tables.values())).errors
                precisions.append(np.where(errors > 0, errors, np.inf) ** -2.0)
                continue
            precisions.append(np.zeros(1))
    total = sum(precisions)
    if not np.any(total):
        return weighed(waves, entry_weights(waves))
    shares = [
        np.mean((one / np.where(total > 0, total, 1.0))[total > 0])
        for one in np.broadcast_arrays(*precisions)
    ]
    return weighed(waves, np.array(shares))


def _corrected(moments: Moments) -> bool:
    """Whether all that was shrunk is corrected, of every wave, and the law still tells the correction's error apart."""
    told = moments.observed is not None or isinstance(moments.law, SumLaw)
    return told and NOT_CORRECTED not in moments.label


def _ranges(table: EstimateTable, without: EstimateTable | None) -> NDArray[np.bool_]:
    """Of a table, and of the same one without the correction's error; None where nothing was corrected."""
    before = np.zeros(len(table.estimate), dtype=bool) if table.ranges is None else table.ranges
    if without is None:
        return np.ones(len(table.estimate), dtype=bool)
    known = np.isfinite(table.errors) & np.isfinite(without.errors)
    whole, rest = (np.where(known, part.errors, 0.0) ** 2 for part in (table, without))
    found: NDArray[np.bool_] = before | known & ((whole - rest) / COUNTED > ALLOWED**2 * rest)
    return found


def slopes_left(estimate: Estimate, uncorrected: Matrix | None = None) -> Matrix:
    """Of the coefficients of a fit."""
    return bias_left(estimate.moments, estimate.gradients, np.diag(estimate.cov_sampling), uncorrected)


def means_left(moments: Moments, uncorrected: Matrix | None = None) -> Matrix:
    """Of the means of all columns but `one`, shares among them."""
    names = [column.name for column in moments.columns]
    one = names.index(ONES)
    size, means = float(moments.gram[one, one]), moments.gram[one] / float(moments.gram[one, one])
    unit = np.eye(len(names))
    others = [j for j in range(len(names)) if j != one]
    gradients = outers(unit[others] - means[others, None] * unit[one], unit[one]) / size
    variances = np.maximum(np.diag(moments.gram)[others] / size - means[others] ** 2, 0.0)
    return bias_left(moments, gradients, variances / moments.rows, uncorrected)


def second_moments_left(moments: Moments, uncorrected: Matrix | None = None) -> Matrix:
    """Of all variances and covariances of numeric columns."""
    covariance = covariance_of(moments, numeric_columns(moments.schema))
    first, second = np.triu_indices(len(covariance.names))
    unit = np.eye(len(covariance.names))
    gradients = outers(unit[first], unit[second])
    return bias_left(
        moments,
        covariance.W @ gradients @ covariance.W.T / covariance.degrees,
        covariance.sampling_variance(gradients),
        uncorrected,
    )
