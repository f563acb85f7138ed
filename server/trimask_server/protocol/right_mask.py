"""B_k: putting it on and taking it off, without ever forming a p x p matrix (docs/theory/masking-and-pooling.md#right-mask).

For n <= p and B Haar on O(p), X = L Q (thin LQ) gives X B = L (Q B), and Q B is a Haar frame independent of X. So R_k
draws a frame F and computes X B = (X Q'^T) F, and a party with (F, Q') takes it off: (A X B) F^T Q' = A X. Here
Q' = O Q with O Haar on O(n): the rows of Q itself are Gram-Schmidt of the rows of X, the first of them a
person's component up to
scale, and must not be handed to the unmasking node. O Q shows the row space alone, which A X shows anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trimask_core.errors import Refused
from trimask_core.randomness import RandomSource
from trimask_core.refusals import Reason
from trimask_core.rows.normal import NormalStream
from trimask_core.rows.rotation import HaarFrame, Matrix

__all__ = ["PROBES", "RightMask", "apply_right_mask", "check_gram", "remove_right_mask"]

PROBES = 8
# Left masking moves the projected Gram matrix by rounding alone, about 1e-14 of its trace; a data-sized change of one
# entry moves it by 1e-6/n or more.
_TOLERANCE = 1e-11


@dataclass(frozen=True)
class RightMask:
    """B_k as the unmasking node gets it, with the invariant to check: (X B Z)^T (X B Z) for secret Z."""

    frame_seed: bytes = field(repr=False)
    basis: Matrix = field(repr=False)
    probe_seed: bytes = field(repr=False)
    probe_gram: Matrix = field(repr=False)


def _probe(seed: bytes, masked: Matrix) -> Matrix:
    projections = masked @ NormalStream(seed, b"gram probe").standard_normal((masked.shape[1], PROBES))
    return projections.T @ projections


def apply_right_mask(component: Matrix, source: RandomSource) -> tuple[Matrix, RightMask]:
    """X^k B_k for a fresh B_k, and B_k."""
    n, p = component.shape
    orthonormal, triangular = np.linalg.qr(component.T)
    rotation = HaarFrame(source.seed(), n, n)
    basis = rotation.rotate(orthonormal.T.copy())
    frame_seed, probe_seed = source.seed(), source.seed()
    # X Q'^T = (Q R)^T (O Q^T)^T = (O R)^T
    masked = HaarFrame(frame_seed, n, p).apply(rotation.rotate(triangular.copy()).T)
    return masked, RightMask(frame_seed, basis, probe_seed, _probe(probe_seed, masked))


def check_gram(masked: Matrix, mask: RightMask) -> None:
    """Refuse a returned block whose Gram matrix is not the one sent (docs/theory/masking-and-pooling.md#gram-check)."""
    returned = _probe(mask.probe_seed, masked)
    if not np.abs(returned - mask.probe_gram).max() <= _TOLERANCE * np.trace(mask.probe_gram):
        raise Refused(
            Reason.GRAM_CHANGED,
            "left masking changed the Gram matrix: rows were dropped, altered or mixed on the way",
        )


def remove_right_mask(masked: Matrix, mask: RightMask) -> Matrix:
    """A X^k from A X^k B_k, after checking it."""
    n, p = mask.basis.shape
    if masked.shape != (n, p):
        raise Refused(Reason.WRONG_SHAPE, f"the masked block must be {n} x {p}")
    check_gram(masked, mask)
    return HaarFrame(mask.frame_seed, n, p).unapply(masked) @ mask.basis
