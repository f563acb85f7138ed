"""What the exponential mechanism for principal components gives and costs, in the high-dimensional limit.

Statement. V on the Stiefel manifold has density proportional to exp((p beta/2) tr V^T Sigma V). With H
and H' taken at l_k:
- utility (Theorem 1): U^T V V^T U -> diag((1 - H(l_i)/beta)_+);
- privacy (Theorem 2), beta > H: sharp sigma_beta-Gaussian DP, add or remove one row of norm sqrt(p), with
  sigma_beta^2 = (beta - H)^2 / (2 D theta^2 (2 (beta - H) + D H')) for beta >= H - D H',
  else -H'/(2 theta^2).
The second case is a plateau: less beta costs utility and buys no privacy.

Assumptions. n / p^{3/2} -> theta, the top k + 1 eigenvalues and the bulk converge, D > 0, rows of norm at
most sqrt(p) (Yun and Dudeja 2025, Assumption 1). Asymptotic. Only `pure_epsilon` and
`finite_delta` are proved at finite p, for exact draws.
Derivation: docs/theory/mechanisms.md#pca.

Statement (any small change of the matrix, not only one row's: Yun and Dudeja 2025, Theorem 5). Let Sigma~ = Sigma +
E/sqrt(p), E symmetric of nuclear norm at most 1, and beta > H(l_k). In the limit the laws of the two mechanisms are told
apart like N(0, 1) and N(sqrt(v), 1), and their Renyi divergence of order a is a v/2, with v from (12) and (13):
    v = sum_{j<=k<i} E_ij^2 (beta - H(l_j))/(l_j - l_i) + (1/2) sum_{j,j'<=k} E_jj'^2 K(l_j, l_j'),
    K(g, g') = (1/p) sum_{i>k} 1/((g - l_i)(g' - l_i)),   E_ij = u_i^T E u_j.
It is the variance of (sqrt(p) beta/2) tr V^T E V: of the terms linear in Z and of those quadratic in it; what E does
beyond the first k eigenvectors alone vanishes as 1/p. A row x added is E = sqrt(p) x x^T/n, and v at its largest is
sigma_beta^2 (Theorem 2), so that the mechanism is (a, a sigma_beta^2/2)-Renyi DP for every order a > 1, and no better.

Assumptions. As above; the matrix need not be a covariance. Asymptotic in p.
Derivation: docs/theory/mechanisms.md#pca.

Statement (the spectrum: eigenvalues, gap, and the Hilbert transform of the bulk). For the covariance Sigma = (1/n) sum
x_i x_i^T of n rows in p dimensions, eigenvalues l_1 >= ... >= l_p, and k components: H(g) = (1/p) sum_{i>k} 1/(g - l_i),
its derivatives, the gap D = l_k - l_{k+1}, and the sample ratio theta = n / p^{3/2} (Yun and Dudeja 2025, Assumption 1
and equation 3).

Assumptions. Rows of norm at most sqrt(p), so that trace Sigma <= p; a gap D > 0. Definitions: nothing to
prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError
from trimask_theory.checks import matrix, non_negative, positive, whole


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Eigenvalues in falling order, eigenvectors in the columns beside them, for n rows and k components."""

    eigenvalues: NDArray[np.float64]
    eigenvectors: NDArray[np.float64] = field(repr=False)
    rows: int
    components: int

    @property
    def dimension(self) -> int:
        """p, the number of attributes."""
        return self.eigenvalues.size

    @property
    def leading(self) -> NDArray[np.float64]:
        """The eigenvalues l_1..l_k of the components asked for."""
        return self.eigenvalues[: self.components]

    @property
    def bulk(self) -> NDArray[np.float64]:
        """The eigenvalues l_{k+1}..l_p left out."""
        return self.eigenvalues[self.components :]

    @property
    def gap(self) -> float:
        """D = l_k - l_{k+1}."""
        return float(self.leading[-1] - self.bulk[0])

    @property
    def theta(self) -> float:
        """n / p^{3/2}, the ratio that stays fixed in the limit."""
        return float(self.rows / self.dimension**1.5)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Sigma, put together again."""
        return (self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T

    def with_row(self, row: ArrayLike) -> Spectrum:
        """The spectrum of the neighbouring data set that holds `row` as well."""
        added = np.asarray(row, dtype=np.float64)
        if added.shape != (self.dimension,) or not np.all(np.isfinite(added)):
            raise ParameterError("row", f"{self.dimension} finite numbers")
        # In the basis of the eigenvectors: n diag(l) + y y^T.
        y = self.eigenvectors.T @ added
        grown = (self.rows * np.diag(self.eigenvalues) + np.outer(y, y)) / (self.rows + 1)
        values, vectors = np.linalg.eigh(grown)
        basis = self.eigenvectors @ vectors[:, ::-1]
        return Spectrum(values[::-1].copy(), basis, self.rows + 1, self.components)


def from_covariance(covariance: ArrayLike, rows: int, components: int) -> Spectrum:
    """The spectrum of a p x p covariance of `rows` rows; masked data give it too, as (AX)^T (AX) / n."""
    sigma = matrix("covariance", covariance, "a square matrix of finite numbers", square=True)
    p = sigma.shape[0]
    scale = float(np.abs(sigma).max(initial=0.0))
    if not np.allclose(sigma, sigma.T, rtol=0, atol=1e-9 * scale):
        raise ParameterError("covariance", "symmetric")
    if float(np.trace(sigma)) > p * (1 + 1e-9):
        raise ParameterError(
            "covariance", f"of rows of norm at most sqrt(p), so its trace at most {p}", float(np.trace(sigma))
        )
    rows, components = whole("rows", rows, 1), whole("components", components, 1)
    if components >= p:
        raise ParameterError("components", f"at most {p - 1}, one less than the attributes", components)
    values, vectors = np.linalg.eigh((sigma + sigma.T) / 2)
    spectrum = Spectrum(values[::-1].copy(), vectors[:, ::-1].copy(), rows, components)
    # Below the rounding of eigh a gap is not one; without a gap the components themselves are not defined.
    if spectrum.gap <= 8 * p * np.finfo(np.float64).eps * scale:
        raise ParameterError(
            "covariance",
            f"such that the gap l_{components} - l_{components + 1} is positive: with equal eigenvalues the "
            f"first {components} components are not determined and no privacy level can be given",
            spectrum.gap,
        )
    return spectrum


def from_rows(data: ArrayLike, components: int) -> Spectrum:
    """The spectrum of data whose rows already have norm at most sqrt(p)."""
    x = matrix("data", data)
    norm = float(np.sqrt(np.max(np.einsum("ij,ij->i", x, x))))
    limit = float(np.sqrt(x.shape[1]))
    if norm > limit * (1 + 1e-9):
        raise ParameterError(
            "data", f"of rows of norm at most sqrt(p) = {limit:.6g}; scale or clip them", norm
        )
    return from_covariance(x.T @ x / x.shape[0], x.shape[0], components)


def hilbert(spectrum: Spectrum, at: ArrayLike) -> NDArray[np.float64]:
    """H(g), defined above the bulk (equation 3)."""
    return _moment(spectrum, at, 1)


def hilbert_prime(spectrum: Spectrum, at: ArrayLike) -> NDArray[np.float64]:
    """H'(g) = -(1/p) sum 1/(g - l_i)^2, negative."""
    return -_moment(spectrum, at, 2)


def hilbert_second(spectrum: Spectrum, at: ArrayLike) -> NDArray[np.float64]:
    """H''(g) = (2/p) sum 1/(g - l_i)^3."""
    return 2 * _moment(spectrum, at, 3)


def _moment(spectrum: Spectrum, at: ArrayLike, order: int) -> NDArray[np.float64]:
    points = np.asarray(at, dtype=np.float64)
    if not np.all(points > spectrum.bulk[0]):
        raise ParameterError("at", f"above the bulk, that is > {spectrum.bulk[0]:.6g}")
    powers = (points[..., None] - spectrum.bulk) ** -order
    return np.asarray(powers.sum(axis=-1) / spectrum.dimension, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Plateau:
    """The strongest privacy that still captures all k components, `mu`, and the betas at which it is had."""

    mu: float
    beta_low: float
    beta_high: float


def overlap(spectrum: Spectrum, beta: float) -> NDArray[np.float64]:
    """The diagonal of the limit of U^T V V^T U: how much of each component survives (Theorem 1)."""
    lost = hilbert(spectrum, spectrum.leading) / positive("beta", beta)
    return np.maximum(1 - lost, 0.0)


def spectral_error(spectrum: Spectrum, beta: float) -> float:
    """The limit of E |UU^T - VV^T|^2 in operator norm (equation 4, left)."""
    return 1 - float(overlap(spectrum, beta)[-1])


def frobenius_error(spectrum: Spectrum, beta: float) -> float:
    """The limit of E |UU^T - VV^T|^2 in Frobenius norm (equation 4, right)."""
    return 2 * float(np.sum(1 - overlap(spectrum, beta)))


def plateau(spectrum: Spectrum) -> Plateau:
    """s_min = sqrt(-H'(l_k) / (2 theta^2)), and (H, H - D H'), the betas that give it."""
    h, h_prime = _at_edge(spectrum)
    s_min = math.sqrt(-h_prime / 2) / spectrum.theta
    return Plateau(s_min, h, h - spectrum.gap * h_prime)


def sigma_beta(spectrum: Spectrum, beta: float) -> float:
    """The mu at which the mechanism is asymptotically mu-GDP, and no better (Theorem 2)."""
    h, h_prime = _at_edge(spectrum)
    excess = _excess(beta, h)
    d = spectrum.gap
    if excess < -d * h_prime:
        return math.sqrt(-h_prime / 2) / spectrum.theta
    return excess / (spectrum.theta * math.sqrt(2 * d * (2 * excess + d * h_prime)))


def beta_for(spectrum: Spectrum, mu: float) -> float:
    """The largest beta that is mu-GDP in the limit (equation 7). Refused below the plateau."""
    lowest = plateau(spectrum).mu
    mu = positive("mu", mu)
    # mu = s_min itself is allowed; sqrt and square need not return it to the last digit.
    if mu < lowest * (1 - 1e-12):
        raise ParameterError("mu", f"at least {lowest:.6g}, the best that captures these components", mu)
    w2, s2 = mu * mu, lowest * lowest
    h = float(hilbert(spectrum, spectrum.leading[-1]))
    return h + 2 * spectrum.theta**2 * spectrum.gap * (w2 + math.sqrt(max(w2 * w2 - w2 * s2, 0.0)))


def worst_neighbour(spectrum: Spectrum, beta: float) -> NDArray[np.float64]:
    """The row easiest to detect, sqrt(p)(sqrt(t) u_k + sqrt(1-t) u_{k+1}) (Proposition 1)."""
    h, h_prime = _at_edge(spectrum)
    excess = _excess(beta, h)
    # The variance is -t^2 H'/2 + t(1-t) excess/D, over theta^2. On the plateau it grows all the way to t = 1;
    # the printed min{1, excess/(2 excess + D H')} is negative there once 2 excess < -D H', so it is not used.
    t = excess / (2 * excess + spectrum.gap * h_prime) if excess > -spectrum.gap * h_prime else 1.0
    k = spectrum.components
    mixed = math.sqrt(t) * spectrum.eigenvectors[:, k - 1] + math.sqrt(1 - t) * spectrum.eigenvectors[:, k]
    return np.asarray(math.sqrt(spectrum.dimension) * mixed, dtype=np.float64)


def pure_epsilon(spectrum: Spectrum, beta: float) -> float:
    """p^2 beta / n: the epsilon of pure DP, proved at any p and any spectrum, and usually too large to use.

    One row of n changes tr V^T Sigma V by at most p/n either way, so the log density by (p beta/2)(2 p/n).
    This is the bound of Chaudhuri, Sarwate, Sinha (2013) that the paper compares with; it needs an exact
    sample.
    """
    return spectrum.dimension**2 * non_negative("beta", beta) / spectrum.rows


def _at_edge(spectrum: Spectrum) -> tuple[float, float]:
    edge = spectrum.leading[-1]
    return float(hilbert(spectrum, edge)), float(hilbert_prime(spectrum, edge))


def finite_delta(spectrum: Spectrum, beta: float, epsilon: float) -> float:
    """delta at `epsilon`, proved at any p, n and spectrum: the log density moves within a range of p^2 beta/(2 n).

    For one row added or removed, the divisor n kept (docs/theory/mechanisms.md#pca-finite). Usually too large to use.
    """
    reach = 0.5 * pure_epsilon(spectrum, beta)
    beyond = reach - non_negative("epsilon", epsilon)
    if beyond <= 0:
        return 0.0
    return math.expm1(-0.5 * beyond) ** 2 / -math.expm1(-reach)


def _excess(beta: float, h: float) -> float:
    if not positive("beta", beta) > h:
        raise ParameterError("beta", f"above H(l_k) = {h:.6g}, below which a component is lost", beta)
    return beta - h


def perturbation_variance(spectrum: Spectrum, beta: float, perturbation: ArrayLike) -> float:
    """v of Theorem 5 for Sigma~ = Sigma + E/sqrt(p): the two releases are sqrt(v) apart, as normals are."""
    p, k = spectrum.dimension, spectrum.components
    change = np.asarray(perturbation, dtype=np.float64)
    if change.shape != (p, p) or not np.isfinite(change).all():
        raise ParameterError("perturbation", f"a {p} x {p} matrix of finite numbers", change.shape)
    if not np.allclose(change, change.T, rtol=0, atol=1e-9 * np.abs(change).max()):
        raise ParameterError("perturbation", "symmetric")
    excess = positive("beta", beta) - hilbert(spectrum, spectrum.leading)
    if excess[-1] <= 0:
        raise ParameterError("beta", "above H(l_k), below which a component is lost", beta)
    turned = spectrum.eigenvectors.T @ change @ spectrum.eigenvectors[:, :k]
    apart: NDArray[np.float64] = spectrum.leading - spectrum.bulk[:, None]
    linear = float(np.sum(turned[k:] ** 2 * excess / apart))
    both = (1 / apart).T @ (1 / apart) / p
    return linear + 0.5 * float(np.sum(turned[:k] ** 2 * both))


def renyi(spectrum: Spectrum, beta: float, order: float) -> float:
    """The epsilon of (order, epsilon)-Renyi DP (Definition 4) in the limit: order sigma_beta^2/2, for orders above 1."""
    order = positive("order", order)
    if not order > 1 or not math.isfinite(order):
        raise ParameterError("order", "a finite number above 1", order)
    return order * sigma_beta(spectrum, beta) ** 2 / 2
