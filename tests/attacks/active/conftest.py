"""Clusters of the rows suite to attack, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from trimask_lab import ON_POSTGRES, Lab

if ON_POSTGRES:  # a patched part is one worker's
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def running_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("active"), right=2, left=1)
    with lab.in_thread(request):
        yield lab


@pytest.fixture(scope="module")
def lab(running_lab: Lab) -> Iterator[Lab]:
    """Two right providers and a left one, which the attacks of a run share; studies are those of a module."""
    yield running_lab
    running_lab.rest()


@pytest.fixture
def start_lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], Lab]]:
    """Start four right providers, two left ones and a collector, once they are as the attack wants them."""
    with ExitStack() as stack:

        def start() -> Lab:
            lab = Lab(tmp_path / "lab", right=4, left=2)
            stack.enter_context(lab.in_thread(request))
            return lab

        yield start
