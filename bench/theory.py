"""The theory's cases, each against the milliseconds it may take."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator

from bench.measure import best_seconds
from bench.results import Result, Settings, share_of_budget

__all__ = ["theory"]

_MODULES = {
    "bench.theory_noise": "theory: noise",
    "bench.theory_ndis": "theory: pairs of Gaussians",
    "bench.theory_pca": "theory: PCA and sums",
}
Case = tuple[str, Callable[[], object], float]


def _forget() -> None:
    """Empty the library's tables: a calibration is asked for once, in a fresh process."""
    for name, module in list(sys.modules.items()):
        if name.startswith("trimask_theory"):
            for value in vars(module).values():
                clear = getattr(value, "cache_clear", None)
                if callable(clear):
                    clear()


def _cold(call: Callable[[], object], repeats: int) -> float:
    """The best of calls that find no table ready."""
    samples = []
    for _ in range(repeats):
        _forget()
        start = time.process_time()
        call()
        samples.append(time.process_time() - start)
    return min(samples)


def theory(settings: Settings) -> Iterator[Result]:
    """Every case of every module that is there."""
    for name, suite in _MODULES.items():
        if importlib.util.find_spec(name) is None:
            continue
        cases: list[Case] = importlib.import_module(name).cases()
        for title, call, limit_ms in cases:
            call()  # imports that happen on first use are the interpreter's, not the method's
            cold = _cold(call, settings.repeats(7, 3))
            warm = best_seconds(call, settings.repeats(3, 1), time.process_time) if cold < 0.05 else cold
            yield share_of_budget(suite, title, 1e3 * cold, limit_ms, "ms", "stated", warm_ms=1e3 * warm)
