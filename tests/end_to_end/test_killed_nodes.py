"""kill -9 of any node at any stage: the study completes, every accepted submission exactly once.

The oracle is exact: each person's row has its own size, so a lost or doubled row shows in the Gram matrix.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from trimask_client import Client
from trimask_lab import Lab, exact_gram, some_people
from trimask_patience import patience

NODES = ["collector", "R1", "R2", "R3", "L1", "L2"]


def share(*always: str) -> list[Any]:
    """Every node; those named run every time, the others in `make test-all`."""
    return [name if name in always else pytest.param(name, marks=pytest.mark.slow) for name in NODES]


def _submit(signed: Any, people: list[dict[str, Any]]) -> None:
    with Client(signed, attempts=12) as client:
        for answers in people:
            client.submit(answers)


def _check(lab: Lab, signed: Any, people: list[dict[str, Any]]) -> Any:
    status = lab.close(signed.study)
    datasets = lab.datasets(signed.study)
    assert sum(d.rows for d in datasets) == len(people)
    total = sum(d.gram(units="scaled").to_numpy() for d in datasets)
    exact = exact_gram(signed.study, people)
    assert np.abs(total - exact).max() <= 1e-7 * np.abs(exact).max()
    return status


@pytest.mark.parametrize("name", share("R2"))
def test_killed_while_devices_submit(process_lab: Lab, name: str) -> None:
    lab = process_lab
    signed = lab.open_study()
    people = some_people(60, seed=NODES.index(name))
    sending = threading.Thread(target=_submit, args=(signed, people))
    sending.start()
    lab.cluster.restart(name)
    sending.join(patience(120))
    assert not sending.is_alive()
    lab.cluster.wait_ready(name)
    _check(lab, signed, people)


@pytest.mark.parametrize("name", share("R1"))
def test_killed_while_blocks_are_masked(process_lab: Lab, name: str) -> None:
    """Blocks of 24 from 144 rows are under way from the 48th row on; the node dies in the middle of them."""
    lab = process_lab
    signed = lab.open_study()
    people = some_people(144, seed=10 + NODES.index(name))
    _submit(signed, people[:130])
    lab.cluster.restart(name)
    _submit(signed, people[130:])
    lab.cluster.wait_ready(name)
    _check(lab, signed, people)


@pytest.mark.parametrize("name", share("collector"))
@pytest.mark.slow
def test_killed_while_the_study_closes(process_lab: Lab, name: str) -> None:
    from trimask_cli import owner

    lab = process_lab
    signed = lab.open_study()
    people = some_people(100, seed=20 + NODES.index(name))
    _submit(signed, people)
    owner.close_study(signed.study, lab.owner)
    lab.cluster.restart(name)
    lab.cluster.wait_ready(name)
    _check(lab, signed, people)
