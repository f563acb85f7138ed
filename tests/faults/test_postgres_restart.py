"""PostgreSQL stopped and started again while blocks are masked, politely and by a crash: every row once, nothing left."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest

from trimask_client import Client
from trimask_core.study.signed import SignedStudy
from trimask_lab import Lab, exact_gram, some_people
from trimask_patience import patience
from trimask_postgres import LocalPostgres
from trimask_server.local.cluster import ProcessCluster, ThreadCluster

_BLOCKS, _ROWS = 5, 24
_UNDER_WAY = "SELECT count(*) FROM trimask_collector.blocks WHERE state = 'planned' AND attempts > 0"


def _stop_in_the_middle_of_a_block(lab: Lab, server: LocalPostgres, how: signal.Signals) -> None:
    """Stop the server the moment a try at a block is seen to have begun, leave it down for a while, start it again."""
    deadline = time.monotonic() + patience(60)
    with psycopg.connect(lab.database, autocommit=True) as watching:
        while watching.execute(_UNDER_WAY).fetchone() == (0,):
            assert time.monotonic() < deadline, "no try at a block was begun"
        server.stop(how)
    threading.Event().wait(1.0)  # the fault itself: so long there is no database
    server.start()


def _submit(signed: SignedStudy, people: list[dict[str, float]]) -> None:
    with Client(signed, attempts=100, sleep=lambda s: threading.Event().wait(min(s, 0.3)) and None) as client:
        for answers in people:
            client.submit(answers)


def _run(lab: Lab, server: LocalPostgres, stops: tuple[signal.Signals, ...]) -> None:
    signed = lab.open_study()
    people = some_people(_BLOCKS * _ROWS, seed=12)
    sending = threading.Thread(target=_submit, args=(signed, people))
    sending.start()
    for how in stops:
        _stop_in_the_middle_of_a_block(lab, server, how)
    sending.join(patience(120))
    assert not sending.is_alive()
    assert lab.close(signed.study).published_rows == len(people)
    datasets = lab.datasets(signed.study)
    total = sum(dataset.gram(units="scaled").to_numpy() for dataset in datasets)
    exact = exact_gram(signed.study, people)
    assert np.abs(total - exact).max() <= 1e-7 * np.abs(exact).max()
    for name in ("R1", "R2"):
        assert lab.query(name, "SELECT count(*), count(payload), count(block_id) FROM submissions") == [
            (len(people), 0, len(people))
        ]
        assert lab.query(name, "SELECT scope FROM data_keys") == []


@pytest.mark.slow
def test_a_server_that_crashes_in_the_middle_of_a_block(tmp_path: Path) -> None:
    with LocalPostgres() as server:
        lab = Lab(tmp_path, right=2, left=1)
        lab.use_postgres(server)
        with ThreadCluster(tmp_path):
            _run(lab, server, (signal.SIGQUIT,))


@pytest.mark.slow
def test_a_server_restarted_again_and_again_under_two_workers_of_every_node(tmp_path: Path) -> None:
    with LocalPostgres() as server:
        lab = Lab(tmp_path, right=2, left=1)
        lab.use_postgres(server)
        with ProcessCluster(tmp_path, workers=2):
            _run(lab, server, (signal.SIGINT, signal.SIGQUIT, signal.SIGINT))
