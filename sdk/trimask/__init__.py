"""Trimask for researchers: pull a masked dataset, verify it, and fit honest models to it.

    import trimask

    with trimask.connect("collector.example.org:7443") as collector:
        dataset = collector.dataset("3f2a9c01d4e5-1")
    print(trimask.fit.ols(dataset, "sbp ~ age + smoker + C(region)").summary())

Parts are imported when they are first used, so that `import trimask` itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimask import errors, fit, plot, release
    from trimask.catalogue import DatasetInfo, StudyInfo, StudyStatus
    from trimask.connection import Connection, connect
    from trimask.dataset import Dataset
    from trimask.example import example
    from trimask.fit.ols_results import OLSResults
    from trimask.manifest import Manifest
    from trimask.moments import Moments
    from trimask.simulation import simulate
    from trimask.synthetic import synthesize

    __version__: str

__all__ = [
    "Connection",
    "Dataset",
    "DatasetInfo",
    "Manifest",
    "Moments",
    "OLSResults",
    "StudyInfo",
    "StudyStatus",
    "connect",
    "errors",
    "example",
    "fit",
    "plot",
    "release",
    "simulate",
    "synthesize",
]

_HOME = {
    "Connection": "connection",
    "Dataset": "dataset",
    "DatasetInfo": "catalogue",
    "Manifest": "manifest",
    "Moments": "moments",
    "OLSResults": "fit.ols_results",
    "StudyInfo": "catalogue",
    "StudyStatus": "catalogue",
    "connect": "connection",
    "example": "example",
    "simulate": "simulation",
    "synthesize": "synthetic",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        found = import_module("trimask.citation").version()
    elif name in _HOME:
        found = getattr(import_module(f"trimask.{_HOME[name]}"), name)
    elif name in __all__:
        found = import_module(f"trimask.{name}")
    else:
        raise AttributeError(f"module 'trimask' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
