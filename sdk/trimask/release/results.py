"""What private releases give back, whether a collector or the holder of the rows made them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trimask_core.guarantee import Guarantee

if TYPE_CHECKING:
    import pandas as pd

    from trimask.release.answer import Answer

__all__ = ["PrivateComponents", "PrivateFit", "PrivateGram", "PrivateProjection", "PrivateSum"]


@dataclass(frozen=True, eq=False)
class PrivateSum:
    """`total` by column, `noise` the standard deviation of the noise in each; over `rows` rows."""

    total: pd.Series[float]
    noise: pd.Series[float]
    rows: int
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)

    @property
    def mean(self) -> pd.Series[float]:
        """The mean of each column; the number of rows is public."""
        return self.total / self.rows

    def __str__(self) -> str:
        lines = [
            f"{name:<24} {value: .6g}  (noise sd {sd:.3g})"
            for name, value, sd in zip(self.total.index, self.total, self.noise, strict=True)
        ]
        return "\n".join([f"Private sum over {self.rows} rows", *lines, str(self.guarantee)])


@dataclass(frozen=True, eq=False)
class PrivateProjection:
    """D^T G plus noise of standard deviation `sigma`: one row a column of the data."""

    values: pd.DataFrame
    sigma: float
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)

    def __str__(self) -> str:
        size = f"{self.values.shape[0]} x {self.values.shape[1]}"
        return f"Private projection, {size}, noise sd {self.sigma:.4g}\n{self.guarantee}"


@dataclass(frozen=True, eq=False)
class PrivateGram:
    """X^T X by column with noise of standard deviation `noise` in each entry; `units` are those of the columns.

    The noise may leave it without being positive definite. Whatever is computed from it costs nothing more.
    """

    values: pd.DataFrame
    noise: pd.DataFrame
    units: str
    rows: int
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return (
            f"Private Gram matrix over {self.rows} rows, {self.units} units\n{self.values}\n"
            f"noise sd\n{self.noise}\n{self.guarantee}"
        )


@dataclass(frozen=True, eq=False)
class PrivateFit:
    """Coefficients by feature; `one` is the intercept.

    `params` is None when the noise is larger than what the columns carry (`gram` is then not positive definite): no
    number would mean anything. `sigma` is the regularisation of M_LS and M_ALS, or the noise on `gram`. `units` are
    those of `params`. `bse` are standard errors, of noise and sampling together, where the law of the noise is known: for
    the noisy Gram matrix of the moments suite.
    """

    response: str
    params: pd.Series[float] | None
    units: str
    sigma: float
    guarantee: Guarantee
    gram: pd.DataFrame | None = field(default=None, repr=False)
    answer: Answer | None = field(default=None, repr=False)
    bse: pd.Series[float] | None = None

    def __str__(self) -> str:
        if self.params is None:
            lines = ["the noise is larger than what these columns carry: no coefficients"]
        elif self.bse is not None:
            lines = [
                f"{name:<24} {value: .6g}  (standard error {error:.3g})"
                for name, value, error in zip(self.params.index, self.params, self.bse, strict=True)
            ]
        else:
            lines = [
                f"{name:<24} {value: .6g}" for name, value in zip(self.params.index, self.params, strict=True)
            ]
        head = f"Private least squares for {self.response}, {self.units} units, sigma {self.sigma:.4g}"
        return "\n".join([head, *lines, str(self.guarantee)])


@dataclass(frozen=True, eq=False)
class PrivateComponents:
    """Orthonormal components in the columns, or None when a private test found the target not achievable."""

    components: pd.DataFrame | None
    beta: float | None
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)

    @property
    def achievable(self) -> bool:
        """Whether there are components."""
        return self.components is not None

    def __str__(self) -> str:
        if self.components is None:
            return f"Private components: not achievable at this price\n{self.guarantee}"
        return f"Private components, beta {self.beta:.4g}\n{self.components}\n{self.guarantee}"
