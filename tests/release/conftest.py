"""A cluster with one study that answers, and what a test does with it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask_server.local_cluster import ThreadCluster

_END_TO_END = Path(__file__).parents[1] / "end_to_end" / "conftest.py"


def _lab_module() -> Any:
    spec = importlib.util.spec_from_file_location("release_lab", _END_TO_END)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def lab_module() -> Any:
    """The end-to-end tests' `Lab`, `people` and `exact_gram`."""
    return _lab_module()


@pytest.fixture(scope="session")
def release_lab(tmp_path_factory: pytest.TempPathFactory, lab_module: Any) -> Iterator[Any]:
    """A cluster on one thread; `cluster` lets a test stop and start the collector."""
    lab = lab_module.Lab(tmp_path_factory.mktemp("release-lab"), 2, 1)
    with ThreadCluster(lab.folder) as cluster:
        lab.cluster = cluster
        yield lab
