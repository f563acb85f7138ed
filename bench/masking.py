"""Masks on and off, against the matrix products they stand for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from trimask_core.randomness import SystemRandom
from trimask_core.rotation import haar_rotate
from trimask_server.right_mask import apply_right_mask, remove_right_mask

from bench.measure import best_seconds, race
from bench.results import Result, Settings, share_of_limit

__all__ = ["left", "right", "unmasking"]

RIGHT_PROVIDERS = 3
_SIZES = ((256, 1044), (1024, 4104))  # block rows, and columns at four noise columns a row


def left(settings: Settings) -> Iterator[Result]:
    """A_j on K1 matrices side by side, drawing A_j included, against one dgemm with an explicit A."""
    rng = np.random.default_rng(1)
    for n, p in _SIZES:
        M = rng.standard_normal((n, RIGHT_PROVIDERS * p))
        A, out = rng.standard_normal((n, n)), np.empty_like(M)
        seconds, limit = race(
            lambda M=M: haar_rotate(os.urandom(32), M),
            lambda A=A, M=M, out=out: np.matmul(A, M, out=out),
            settings.repeats(6, 3),
        )
        flops = 2.0 * n * n * M.shape[1]
        yield share_of_limit(
            "left masking",
            f"{n:,} rows × {RIGHT_PROVIDERS} components × {p:,}",
            seconds,
            limit,
            "dgemm by an A that is already there",
            required=0.5 if n == 1024 else None,
            rows=n,
            columns=p,
            gflops=flops / seconds / 1e9,
            dgemm_gflops=flops / limit / 1e9,
        )


def right(settings: Settings) -> Iterator[Result]:
    """X^k B_k by frames against the p x p matrix: the product alone, and with the drawing of B."""
    rng = np.random.default_rng(2)
    source = SystemRandom()
    for n, p in _SIZES[: 1 if settings.quick else 2]:
        X, B = rng.standard_normal((n, p)), rng.standard_normal((p, p))
        seconds, limit = race(
            lambda X=X: apply_right_mask(X, source), lambda X=X, B=B: X @ B, settings.repeats(4)
        )
        yield share_of_limit(
            "right masking",
            f"{n:,} × {p:,}, product alone",
            seconds,
            limit,
            "X B with a p × p B that is already there",
            frame_bytes=8 * n * p,
            explicit_bytes=8 * p * p,
        )
        drawn = limit + best_seconds(lambda p=p: _explicit_haar(p), settings.repeats(3, 1) if n < 1024 else 1)
        yield share_of_limit(
            "right masking",
            f"{n:,} × {p:,}, drawing B too",
            seconds,
            drawn,
            "B by QR of a p × p Gaussian (numpy's generator), then X B",
        )


def _explicit_haar(p: int) -> object:
    Q, R = np.linalg.qr(np.random.default_rng(3).standard_normal((p, p)))
    return Q * np.sign(np.diag(R))


def unmasking(settings: Settings) -> Iterator[Result]:
    """A X^k from A X^k B_k, Gram check included, against the product by an explicit B^T."""
    rng = np.random.default_rng(4)
    for n, p in _SIZES[: 1 if settings.quick else 2]:
        masked, mask = apply_right_mask(rng.standard_normal((n, p)), SystemRandom())
        B = rng.standard_normal((p, p))
        seconds, limit = race(
            lambda masked=masked, mask=mask: remove_right_mask(masked, mask),
            lambda masked=masked, B=B: masked @ B.T,
            settings.repeats(4),
        )
        yield share_of_limit(
            "unmasking",
            f"{n:,} × {p:,} with its Gram check",
            seconds,
            limit,
            "product by a p × p B that is already there",
        )
