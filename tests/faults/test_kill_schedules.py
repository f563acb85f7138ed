"""kill -9 of random processes at random moments under load: every accepted row once, nothing left.

`make faults` runs fifty and more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trimask_faults.lab import FaultLab
from trimask_faults.schedule import run_schedule
from trimask_server.local.cluster import ProcessCluster, free_base_port
from trimask_server.local.keys import node_places

Cluster = tuple[FaultLab, ProcessCluster]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    lab = FaultLab(tmp_path_factory.mktemp("faults"), node_places(3, 2, "127.0.0.1", free_base_port(12)))
    with ProcessCluster(lab.folder) as processes:
        yield lab, processes


def _run(cluster: Cluster, seed: int) -> None:
    outcome = run_schedule(*cluster, seed)
    assert outcome.counts["kills"] >= 2
    assert outcome.counts["blocks"] >= 2


@pytest.mark.parametrize("seed", [0])
def test_random_kills(cluster: Cluster, seed: int) -> None:
    _run(cluster, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 20))
def test_more_random_kills(cluster: Cluster, seed: int) -> None:
    _run(cluster, seed)
