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

from trimask_core.study.guarantee import Neighbours
from trimask_theory.accounting import Composition, GaussianMechanism, MaskedRelease, Mechanism, export
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


def measure(name: str, make: Callable[[], Mechanism], exact: float | None = None) -> dict[str, Any]:
    """epsilon at delta = 1e-6 of a hundred of them by each accountant, and seconds."""
    from prv_accountant import PRVAccountant

    ours, seconds = _best(lambda: Composition([make()] * TIMES).epsilon(DELTA))
    (variable,) = export.to_prv_accountant(make())

    def prv(error: float) -> Callable[[], Any]:
        return lambda: PRVAccountant(
            prvs=[variable], max_self_compositions=[TIMES], eps_error=error, delta_error=1e-9
        ).compute_epsilon(DELTA, [TIMES])

    usual, usual_seconds = _best(prv(0.01))
    # About what our lattice overstates epsilon by.
    fine, fine_seconds = _best(prv(2e-5 * ours), 1)
    google = export.to_dp_accounting(make()).self_compose(TIMES).get_epsilon_for_delta(DELTA)
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
