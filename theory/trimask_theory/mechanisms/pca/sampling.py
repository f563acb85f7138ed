"""Samples of the exponential mechanism's law: exp((p beta/2) tr V^T Sigma V) on p x k frames.

Statement. Write V = U (I - Z^T Z)^{1/2} Q + U_perp Z Q. Under Haar measure Q is Haar on O(k), independent
of Z, and Z has density proportional to det(I - Z^T Z)^{-1/2} on Z^T Z < I (the truncation of a Haar frame);
the exponent is a constant less (p beta/2) sum (l_j - l_{k+i}) Z_ij^2. So the law is, exactly, independent
normal Z_ij ~ N(0, 1/(p beta (l_j - l_{k+i}))) reweighted by det(I - Z^T Z)^{-1/2} on Z^T Z < I.
`approximate` drops the weight (Yun and Dudeja 2025, Algorithm 2), which costs vanishing total variation as
p grows (Theorem 4); `log_weight` is what it drops. `gibbs` draws columns in turn from their exact
conditional laws (Hoff 2009, section 4), each by rejection from an angular central Gaussian (Kent, Ganeiban,
Mardia 2018).

Assumptions. D > 0; `approximate` needs beta > H(l_k). `approximate` is asymptotic; the reweighting, the
conditional draws, and `gibbs` for k = 1 are exact; `gibbs` for k > 1 converges, with no proved rate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import ParameterError
from trimask_theory.checks import non_negative, positive, whole
from trimask_theory.gaussian.grid_gaussian import NormalSource
from trimask_theory.mechanisms.pca.limits import Spectrum, hilbert

Array = NDArray[np.float64]


def haar(dimension: int, columns: int, draws: int, source: NormalSource) -> Array:
    """`draws` independent Haar frames, dimension x columns each."""
    columns = whole("columns", columns, 1)
    dimension, draws = whole("dimension", dimension, columns), whole("draws", draws, 1)
    return _orthonormal(source.standard_normal((draws, dimension, columns)))


def approximate(spectrum: Spectrum, beta: float, source: NormalSource, draws: int = 1) -> Array:
    """Algorithm 2: `draws` frames, as an array draws x p x k.

    Where Z^T Z < I fails the printed formula gives no frame; Z is drawn again. That only brings the law
    nearer: the exact one has no mass there.
    """
    beta, draws, k = positive("beta", beta), whole("draws", draws, 1), spectrum.components
    h = float(hilbert(spectrum, spectrum.leading[-1]))
    if beta <= h:
        raise ParameterError("beta", f"above H(l_k) = {h:.6g} for the approximate sampler; use gibbs", beta)
    spread = 1 / np.sqrt(spectrum.dimension * beta * (spectrum.leading - spectrum.bulk[:, None]))
    z = np.empty((draws, *spread.shape))
    root = np.empty((draws, k, k))
    left = np.arange(draws)
    while left.size:
        z[left] = spread * source.standard_normal((left.size, *spread.shape))
        values, vectors = np.linalg.eigh(_remainder(z[left]))
        root[left] = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        left = left[values[:, 0] <= 0]
    rotation = haar(k, k, draws, source)
    frame = np.concatenate([root, z], axis=1) @ rotation
    return np.asarray(spectrum.eigenvectors @ frame, dtype=np.float64)


def log_weight(spectrum: Spectrum, frames: Array) -> Array:
    """log exact over approximate density, up to a constant: -1/2 log det(I - Z^T Z) = -log |det U^T V|."""
    _, logs = np.linalg.slogdet(spectrum.eigenvectors[:, : spectrum.components].T @ frames)
    return np.asarray(-logs, dtype=np.float64)


def total_variation(spectrum: Spectrum, frames: Array) -> float:
    """The distance between the approximate law and the exact one, estimated from `approximate` frames."""
    logs = log_weight(spectrum, frames)
    weights = np.exp(logs - logs.max())
    return float(np.mean(np.abs(weights / weights.mean() - 1)) / 2)


def gibbs(
    spectrum: Spectrum,
    beta: float,
    source: NormalSource,
    sweeps: int = 50,
    start: Array | None = None,
    draws: int = 1,
) -> Array:
    """`draws` independent chains of `sweeps` sweeps each, as draws x p x k; any beta >= 0.

    A sweep turns the frame by a Haar rotation of its columns, which the law does not see, and then draws
    each column given the others. `start` (draws x p x k) continues earlier chains; otherwise they begin at
    Haar frames.
    """
    beta, sweeps, draws = non_negative("beta", beta), whole("sweeps", sweeps, 1), whole("draws", draws, 1)
    p, k, values = spectrum.dimension, spectrum.components, spectrum.eigenvalues
    half = p * beta / 2
    if k == 1:
        frames = bingham(np.broadcast_to(half * values, (draws, p)), source)[:, :, None]
        return np.asarray(spectrum.eigenvectors @ frames, dtype=np.float64)
    if start is None:
        state = haar(p, k, draws, source)
    elif np.shape(start) == (draws, p, k):
        state = np.asarray(spectrum.eigenvectors.T @ start, dtype=np.float64)
    else:
        raise ParameterError("start", f"an array of shape {(draws, p, k)}", np.shape(start))
    # Rows of Sigma's own basis from here on, where Sigma is diag(values).
    for _ in range(sweeps):
        state = state @ haar(k, k, draws, source)
        for column in range(k):
            others = np.delete(state, column, axis=2)
            state[:, :, column] = _column(values, half, others, source)
    # Rounding would let the columns drift from orthogonality over many sweeps.
    return np.asarray(spectrum.eigenvectors @ _orthonormal(state), dtype=np.float64)


def bingham(exponents: Array, source: NormalSource) -> Array:
    """Unit vectors of density proportional to exp(sum_i e_i x_i^2), one a row e of `exponents`; exact."""
    if exponents.ndim != 2 or exponents.size == 0 or not np.all(np.isfinite(exponents)):
        raise ParameterError("exponents", "a matrix of finite numbers")
    draws, q = exponents.shape
    a = exponents.max(axis=1, keepdims=True) - exponents
    b = _envelope(a)
    spread = 1 / np.sqrt(1 + 2 * a / b[:, None])
    x = np.empty((draws, q))
    left = np.arange(draws)
    while left.size:
        proposal = spread[left] * source.standard_normal((left.size, q))
        proposal /= np.linalg.norm(proposal, axis=1, keepdims=True)
        x[left] = proposal
        u, bl = np.einsum("ij,ij->i", a[left], proposal**2), b[left]
        shortfall = u - q / 2 * np.log1p(2 * u / bl) - (q - bl) / 2 + q / 2 * np.log(q / bl)
        # Accept with probability exp(-shortfall), that is when an exponential variable exceeds it; half the
        # sum of two squared normals is one, so a single kind of randomness is enough.
        exponential = np.sum(source.standard_normal((left.size, 2)) ** 2, axis=1) / 2
        left = left[exponential < shortfall]
    return x


def _orthonormal(matrices: Array) -> Array:
    q, r = np.linalg.qr(matrices)
    # LAPACK ties the signs of Q to its first rows; with a positive diagonal of R the frame is equivariant, so
    # Haar from normals, and unchanged when the columns were orthonormal already.
    signs = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return np.asarray(q * signs[:, None, :], dtype=np.float64)


def _remainder(z: Array) -> Array:
    return np.asarray(np.eye(z.shape[2]) - np.swapaxes(z, 1, 2) @ z, dtype=np.float64)


def _envelope(a: Array) -> Array:
    """b with sum_i 1/(b + 2 a_i) = 1 in each row: the envelope accepted most often (Kent et al.)."""
    b = np.ones(a.shape[0])
    # The sum falls and is convex in b, and is at least 1 at b = 1 (some a_i is 0): Newton climbs to the
    # root. Any b in (0, q] gives exact draws, so the tolerance only touches speed.
    for _ in range(60):
        inverse = 1 / (b[:, None] + 2 * a)
        step = (inverse.sum(axis=1) - 1) / np.sum(inverse**2, axis=1)
        b += step
        if np.all(step <= 1e-9 * b):
            break
    return np.minimum(b, a.shape[1])


def _column(values: Array, half: float, others: Array, source: NormalSource) -> Array:
    """A column given the others W: Bingham on the sphere orthogonal to them."""
    across, moved = np.swapaxes(others, 1, 2), values[:, None] * others
    # P Sigma P for P = I - W W^T, with the span of W sent below every eigenvalue so that eigh lists it first.
    below = across @ moved - (values[0] + 1) * np.eye(others.shape[2])
    crossed = moved @ across
    compressed = np.diag(values) - crossed - np.swapaxes(crossed, 1, 2) + others @ below @ across
    levels, basis = np.linalg.eigh(compressed)
    free = slice(others.shape[2], None)
    coordinates = bingham(half * levels[:, free], source)
    return np.asarray(np.einsum("nij,nj->ni", basis[:, :, free], coordinates), dtype=np.float64)
