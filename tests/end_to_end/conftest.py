"""Clusters that the tests of a run, or of a module, share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trimask_lab import Lab


@pytest.fixture(scope="session")
def running_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("lab"))
    with lab.in_thread(request):
        yield lab


@pytest.fixture(scope="module")
def lab(running_lab: Lab) -> Iterator[Lab]:
    """A cluster on one thread, shared by all tests of a run; studies are those of a module."""
    yield running_lab
    running_lab.rest()


@pytest.fixture(scope="module")
def process_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A cluster of processes, shared by the tests of a module."""
    lab = Lab(tmp_path_factory.mktemp("processes"))
    with lab.in_processes(request):
        yield lab
