"""kill -9 of random processes at random moments under load: every accepted row once, nothing left.

`make faults` runs fifty and more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trimask_faults.lab import FaultLab
from trimask_faults.schedule import Outcome, cluster_of, run_schedule
from trimask_server.local.cluster import ProcessCluster

Cluster = tuple[FaultLab, ProcessCluster]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of("rows", tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture(scope="module")
def moments_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of("moments", tmp_path_factory.mktemp("moments")) as made:
        yield made


def _run(cluster: Cluster, seed: int) -> Outcome:
    outcome = run_schedule(*cluster, seed)
    assert outcome.counts["kills"] >= 2
    assert outcome.counts["blocks"] >= 2
    return outcome


@pytest.mark.parametrize("seed", [0])
def test_random_kills(cluster: Cluster, seed: int) -> None:
    _run(cluster, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_random_kills_in_a_study_of_moments(moments_cluster: Cluster, seed: int) -> None:
    _run(moments_cluster, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 20, 2))
def test_more_random_kills(cluster: Cluster, seed: int) -> None:
    _run(cluster, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 20, 2))
def test_more_random_kills_in_a_study_of_moments(moments_cluster: Cluster, seed: int) -> None:
    _run(moments_cluster, seed)
