"""Masks, against the matrix products they stand for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from bench.measure import best_seconds, race
from bench.results import Result, Settings, share_of_limit
from trimask_core.basics.randomness import SystemRandom
from trimask_core.rows.arrays import haar_rotate
from trimask_server.suites.rows.math import apply_right_mask

__all__ = ["left", "right"]

RIGHT_PROVIDERS = 4
_SIZES = ((256, 1044), (1024, 4104))  # block rows, and columns at four noise columns a row


def left(settings: Settings) -> Iterator[Result]:
    """A_j on K1 matrices side by side, drawing A_j included, against one dgemm with an explicit A."""
    for n, p in _SIZES:
        yield _left(n, p, settings)


def _left(n: int, p: int, settings: Settings) -> Result:
    rng = np.random.default_rng(1)
    M, A = rng.standard_normal((n, RIGHT_PROVIDERS * p)), rng.standard_normal((n, n))
    out = np.empty_like(M)
    seconds, limit = race(
        lambda: haar_rotate(os.urandom(32), M), lambda: np.matmul(A, M, out=out), settings.repeats(6, 3)
    )
    flops = 2.0 * n * n * M.shape[1]
    return share_of_limit(
        "left masking",
        f"{n:,} rows × {RIGHT_PROVIDERS} components × {p:,}",
        seconds,
        limit,
        "dgemm by an A that is already there",
        required=0.5 if n == 1024 else None,
        gflops=flops / seconds / 1e9,
        dgemm_gflops=flops / limit / 1e9,
    )


def right(settings: Settings) -> Iterator[Result]:
    """X^k B_k by frames against the p x p matrix: the product alone, and with the drawing of B."""
    for n, p in _SIZES[: 1 if settings.quick else 2]:
        yield from _right(n, p, settings)


def _right(n: int, p: int, settings: Settings) -> Iterator[Result]:
    rng, source = np.random.default_rng(2), SystemRandom()
    X, B = rng.standard_normal((n, p)), rng.standard_normal((p, p))
    seconds, limit = race(lambda: apply_right_mask(X, source), lambda: X @ B, settings.repeats(4))
    yield share_of_limit(
        "right masking",
        f"{n:,} × {p:,}",
        seconds,
        limit,
        "X B by a p × p B that is already there",
        frame_bytes=8 * n * p,
        explicit_bytes=8 * p * p,
    )
    # Ten seconds of arithmetic at the larger size: once is enough for a ratio far from 1.
    drawn = limit + best_seconds(lambda: _explicit_haar(p), settings.repeats(3, 1) if n < 1024 else 1)
    yield share_of_limit(
        "right masking",
        f"{n:,} × {p:,}, B drawn too",
        seconds,
        drawn,
        "B by QR of a p × p Gaussian from numpy's generator, then X B",
    )


def _explicit_haar(p: int) -> object:
    Q, R = np.linalg.qr(np.random.default_rng(3).standard_normal((p, p)))
    return Q * np.sign(np.diag(R))
