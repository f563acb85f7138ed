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
    from trimask.data.connection import Connection, DatasetInfo, StudyInfo, StudyStatus, connect
    from trimask.data.dataset import Dataset
    from trimask.data.manifest import Manifest
    from trimask.fit.ols_results import OLSResults
    from trimask.moments.moments import Moments
    from trimask.simulation import example, simulate
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
    "Connection": "data.connection",
    "Dataset": "data.dataset",
    "DatasetInfo": "data.connection",
    "Manifest": "data.manifest",
    "Moments": "moments.moments",
    "OLSResults": "fit.ols_results",
    "StudyInfo": "data.connection",
    "StudyStatus": "data.connection",
    "connect": "data.connection",
    "example": "simulation",
    "simulate": "simulation",
    "synthesize": "synthetic",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        found = import_module("trimask.data.description").version()
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
