"""A cluster to attack: two or three right providers and a collector, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from trimask_core.study.signed import SignedStudy
from trimask_lab import ON_POSTGRES, Lab
from trimask_moments import moments_people, open_moments, submit_all
from trimask_rogue import RogueCollector

if ON_POSTGRES:  # a patched part is one worker's; and the kept ledger is the same whatever the store is
    collect_ignore_glob = ["test_*.py"]

MakeLab = Callable[[int], Lab]
Rogue = Callable[..., tuple[RogueCollector, SignedStudy]]


@pytest.fixture
def make_lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeLab]:
    """Start a cluster of so many right providers."""
    with ExitStack() as stack:

        def make(right: int) -> Lab:
            lab = Lab(tmp_path / "lab", right=right, left=0)
            stack.enter_context(lab.in_thread(request))
            return lab

        yield make


@pytest.fixture
def rogue(make_lab: MakeLab) -> Rogue:
    """A study with reports waiting at every provider, and a collector that is out for more than its due."""

    def make(right: int = 2, people: int = 12, **settings: Any) -> tuple[RogueCollector, SignedStudy]:
        lab = make_lab(right)
        signed = open_moments(lab, **settings)
        lab.stop("collector")
        submit_all(signed, moments_people(people))
        return RogueCollector(lab, signed.study), signed

    return make
