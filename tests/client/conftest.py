"""A real cluster on loopback, TLS and SQLite and all, with one open study."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trimask_cli.owner import open_study
from trimask_server.local.cluster import ThreadCluster, free_base_port
from trimask_server.local.keys import make_keys, node_places


@dataclass(frozen=True)
class Running:
    """A running cluster and the study that is open on it."""

    cluster: ThreadCluster
    made: Any

    def rows_held(self, role: str) -> int:
        """Submissions on a right provider's disk."""
        path = self.cluster.folder / role / "data" / "right.sqlite3"
        with sqlite3.connect(path) as connection:
            count: int = connection.execute("SELECT count(*) FROM submissions").fetchone()[0]
        connection.close()
        return count

    def refused(self, role: str) -> dict[str, int]:
        """A node's refusals by reason."""
        return self.cluster.nodes[role].context.refusals.as_dict()


@pytest.fixture(scope="session")
def keys_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys for a collector, two right providers and a left one."""
    folder = tmp_path_factory.mktemp("cluster")
    make_keys(folder, node_places(2, 1, "127.0.0.1", free_base_port(8)))
    return folder


@pytest.fixture(scope="session")
def running(keys_folder: Path, make_study: Callable[..., Any]) -> Iterator[Running]:
    """The cluster, with a study too large for these tests to fill a block of."""
    made = make_study(right=2, left=1, block_rows=64, keys=keys_folder)
    with ThreadCluster(keys_folder) as cluster:
        open_study(made.signed, keys_folder / "owner")
        yield Running(cluster, made)
