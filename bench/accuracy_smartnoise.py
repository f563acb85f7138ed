"""SmartNoise's sums on the people of `bench.accuracy_categories`, as a Gram matrix; None where it is not installed.

`smartnoise-sql` answers queries; a regression is built on the sums of all products of two columns, each a column of its own
in [-1, 1]. A query of 55 sums of 20,190 rows takes it long, so what is drawn here is what that query adds: its own Laplace
mechanism at sensitivity 1, with the epsilon a sum at which its own odometer comes to half of epsilon for all sums. Half,
because its neighbours add or remove a row, and a replaced record is two; delta comes to about 1.3e-6 that way at epsilon 1.
It pins other versions of pandas and OpenDP than ours and so is not in requirements-bench.txt: `pip install smartnoise-sql`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib import import_module

import numpy as np
from scipy import optimize

from bench.accuracy_scores import Array
from bench.accuracy_setting import DELTA

__all__ = ["smartnoise"]


def smartnoise(
    gram: Array, solve: Callable[[Array], Array], epsilon: float, repetitions: int
) -> Array | None:
    """Fits of so many noisy Gram matrices."""
    try:
        snsql = import_module("snsql")
        odometer = import_module("snsql.sql.odometer")
        laplace = import_module("snsql.sql._mechanisms.laplace")
    except ImportError:
        return None
    pairs = list(itertools.combinations_with_replacement(range(len(gram)), 2))

    def spent(a_sum: float) -> float:
        kept = odometer.OdometerHeterogeneous(snsql.Privacy(epsilon=epsilon, delta=DELTA))
        for _ in pairs:
            kept.spend(snsql.Privacy(epsilon=a_sum, delta=0.0))
        return float(kept.spent[0])

    a_sum = optimize.brentq(lambda x: spent(x) - epsilon / 2, 1e-5, 3.0, xtol=1e-5)
    mechanism = laplace.Laplace(a_sum, delta=0.0, sensitivity=1.0)
    first, second = np.array(pairs).T
    fits = []
    for _ in range(repetitions):
        noisy = np.zeros_like(gram)
        noisy[first, second] = noisy[second, first] = mechanism.release(gram[first, second].tolist())
        fits.append(solve(noisy))
    return np.array(fits)
