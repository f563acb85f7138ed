"""A hundred releases added up: ours beside prv_accountant's bounds and dp_accounting, with the time each takes.

`python -m bench.theory_composition [FILE.json]`. Needs requirements-bench.txt. Time is processor time from a mechanism to an
epsilon, the best of five; prv_accountant is asked twice: with its usual error of 0.01, and with ours.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trimask_core.study.guarantee import Neighbours
from trimask_theory.accounting import Composition, GaussianMechanism, MaskedRelease, Mechanism
from trimask_theory.accounting.composition import LossDistribution
from trimask_theory.accounting.studies import loss_distributions
from trimask_theory.gaussian import gdp
from trimask_theory.masking import masked_noise

__all__ = ["measure"]

TIMES, DELTA = 100, 1e-6


class _OnLattice(GaussianMechanism):
    """A Gaussian mechanism composed through its loss distribution, to be compared with the exact answer."""

    @property
    def mu(self) -> float | None:  # type: ignore[override]
        """Kept back."""
        return None


def _best(work: Callable[[], Any], repeats: int = 5) -> tuple[Any, float]:
    best, found = float("inf"), None
    for _ in range(repeats):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return found, best


def _to_dp_accounting(mechanism: Mechanism, step: float = 1e-4) -> Any:
    """A `PrivacyLossDistribution` of dp_accounting, with pessimistic estimates."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    made = [
        pld_pmf.DensePLDPmf(loss.step, loss.first, loss.mass.copy(), loss.infinity_mass, True)
        for loss in loss_distributions(mechanism, step)
    ]
    return privacy_loss_distribution.PrivacyLossDistribution(*made)


def _to_prv_accountant(mechanism: Mechanism) -> list[Any]:
    """`PrivacyRandomVariable`s of prv_accountant, one for each direction; every mass is spread evenly about its place."""
    from prv_accountant import PrivacyRandomVariable

    class Loss(PrivacyRandomVariable):  # type: ignore[misc]
        """A loss on a lattice, made continuous."""

        def __init__(self, loss: LossDistribution) -> None:
            self._loss = loss
            self._places = loss.step * (loss.first - 0.5 + np.arange(loss.mass.size + 1.0))
            self._below = np.concatenate([[0.0], np.cumsum(loss.mass)]) / loss.mass.sum()
            self._mean = float(loss.mass @ loss.losses) / float(loss.mass.sum())

        def mean(self) -> float:
            """The mean loss."""
            return self._mean

        def cdf(self, t: Any) -> Any:
            """P[L <= t], given that L ends."""
            at = np.asarray(t, dtype=np.float64)  # it asks in long doubles
            return np.interp(at, self._places, self._below, left=0.0, right=1.0)

        def rdp(self, alpha: float) -> float:
            """An upper bound: all mass at the upper end of its cell."""
            return self._loss.log_moment(alpha - 1) / (alpha - 1) + self._loss.step

        @property
        def pm_inf(self) -> float:
            """The mass at infinity."""
            return self._loss.infinity_mass

    return [Loss(loss) for loss in loss_distributions(mechanism, mechanism.spread / 200)]


def measure(name: str, make: Callable[[], Mechanism], exact: float | None = None) -> dict[str, Any]:
    """epsilon at delta = 1e-6 of a hundred of them by each accountant, and seconds."""
    from prv_accountant import PRVAccountant

    ours, seconds = _best(lambda: Composition([make()] * TIMES).epsilon(DELTA))
    (variable,) = _to_prv_accountant(make())

    def prv(error: float) -> Callable[[], Any]:
        return lambda: PRVAccountant(
            prvs=[variable], max_self_compositions=[TIMES], eps_error=error, delta_error=1e-9
        ).compute_epsilon(DELTA, [TIMES])

    usual, usual_seconds = _best(prv(0.01))
    # About what our lattice overstates epsilon by.
    fine, fine_seconds = _best(prv(2e-5 * ours), 1)
    google = _to_dp_accounting(make()).self_compose(TIMES).get_epsilon_for_delta(DELTA)
    return {
        "mechanism": name,
        "releases": TIMES,
        "delta": DELTA,
        "ours": ours,
        "exact": exact,
        "seconds": seconds,
        "prv": usual,
        "prv_seconds": usual_seconds,
        "prv_fine": fine,
        "prv_fine_seconds": fine_seconds,
        "dp_accounting": google,
        "ratio": usual_seconds / seconds,
        "ratio_fine": fine_seconds / seconds,
    }


def main(arguments: list[str]) -> int:
    """Print the comparison; write it as JSON to the file named, if one is."""
    warnings.simplefilter("ignore")
    sigma = masked_noise.calibrate(0.2, 1e-6, 2000, 6).sigma
    neighbours = Neighbours("record")
    rows = [
        measure("Gaussian, mu = 0.1", lambda: _OnLattice(0.1, neighbours), gdp.epsilon(DELTA, 1.0)),
        measure("masked release, 2,000 x 6, (0.2, 1e-6)", lambda: MaskedRelease(sigma, 2000, 6)),
    ]
    for row in rows:
        print(
            "{mechanism}, {releases} times, delta {delta:g}: ours {ours:.6f} (exact {exact}) in {seconds:.3f} s; "
            "prv_accountant [{prv[0]:.4f}, {prv[2]:.4f}] in {prv_seconds:.3f} s (ours times {ratio:.2f}), at our error "
            "[{prv_fine[0]:.5f}, {prv_fine[2]:.5f}] in {prv_fine_seconds:.2f} s (ours times {ratio_fine:.1f}); "
            "dp_accounting {dp_accounting:.6f}".format(**row)
        )
    if arguments:
        Path(arguments[0]).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
