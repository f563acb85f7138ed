"""Two workers of every node on one PostgreSQL: any one of each may die at any time, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from trimask_client import Client
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import Refused
from trimask_lab import Lab, exact_gram, some_people
from trimask_postgres import LocalPostgres
from trimask_server.collector.study_leases import FencedStore, Jobs
from trimask_server.local.cluster import ProcessCluster
from trimask_server.store.database import COLLECTOR
from trimask_server.store.sqlite import SqliteStore


def driving_worker(url: str, workers: dict[str, str]) -> str:
    """The worker of the collector that has the study."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT worker FROM trimask_collector.jobs WHERE kind = 'drive'"
        ).fetchone()
    assert found is not None
    (name,) = (name for name, address in workers.items() if address == found[0].split()[-1])
    return name


@pytest.mark.slow
def test_a_study_goes_on_when_one_worker_of_every_node_is_killed(
    tmp_path: Path, postgres_server: LocalPostgres
) -> None:
    lab = Lab(tmp_path, right=2, left=1)
    url = lab.use_postgres(postgres_server)
    people = some_people(96, seed=3)
    with ProcessCluster(tmp_path, workers=2) as cluster:
        signed = lab.open_study()
        study = signed.study

        def submit(some: list[dict[str, Any]]) -> None:
            with Client(signed) as client:
                for answers in some:
                    client.submit(answers).verify(study)

        submit(people[:50])
        lab.wait(study, lambda status: status.pooled_blocks + status.masking_rows > 0)
        cluster.kill(driving_worker(url, cluster.workers))
        for name in ("R1", "R2#2", "L1"):
            cluster.kill(name)
        submit(people[50:])
        status = lab.close(study)
        datasets = lab.datasets(study)
    assert status.published_rows == len(people)
    exact = exact_gram(study, people)
    total = sum(dataset.gram(units="scaled").to_numpy() for dataset in datasets)
    assert np.abs(total - exact).max() <= 1e-7 * np.abs(exact).max()


async def _lost_lease(path: Path) -> None:
    store = SqliteStore(path, COLLECTOR)
    try:
        jobs, now = Jobs(store), SystemClock().now_ms()
        await jobs.enqueue("drive", b"study")
        mine = await jobs.lease("drive", "first", now, 1.0)
        assert mine is not None
        fenced = FencedStore(store, mine)
        note = "INSERT INTO notes (study_id, note) VALUES (?, ?) ON CONFLICT (study_id) DO UPDATE SET note = excluded.note"
        await fenced.write(lambda tx: tx.run(note, (b"study", "of the first")))
        assert await jobs.lease("drive", "second", now + 999, 1.0) is None
        theirs = await jobs.lease("drive", "second", now + 1001, 1.0)
        assert theirs is not None
        with pytest.raises(Refused, match="another worker"):
            await fenced.write(lambda tx: tx.run(note, (b"study", "too late")))
        assert await store.read(lambda tx: tx.row("SELECT note FROM notes")) == ("of the first",)
        # What a worker had before it was killed is its own again at once.
        assert await jobs.lease("drive", "second", now + 1002, 1.0) is None
        assert await jobs.reclaim("drive", "second", now + 1002) == 1
        again = await jobs.lease("drive", "second", now + 1002, 1.0)
        assert again is not None
        assert again.fence > theirs.fence
    finally:
        store.close()


def test_a_worker_that_lost_its_study_writes_nothing(tmp_path: Path) -> None:
    asyncio.run(_lost_lease(tmp_path / "collector.sqlite3"))
