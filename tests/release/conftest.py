"""A cluster for studies that answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trimask_lab import Lab


@pytest.fixture(scope="session")
def running_release_lab(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("release-lab"), right=3, left=0)
    with lab.in_thread(request):
        yield lab


@pytest.fixture(scope="module")
def release_lab(running_release_lab: Lab) -> Iterator[Lab]:
    """A cluster on one thread; a test may stop and start its collector. Studies are those of a module."""
    yield running_release_lab
    running_release_lab.rest()
