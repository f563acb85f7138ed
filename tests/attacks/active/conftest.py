"""A cluster that the attacks of a run share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trimask_lab import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Two right providers and a left one, on one thread."""
    lab = Lab(tmp_path_factory.mktemp("active"), right=2, left=1)
    with lab.in_thread(request):
        yield lab
