"""A whole cluster and what a test does with it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import trimask
from trimask.catalogue import StudyStatus
from trimask.channel import open_channel
from trimask_cli import owner
from trimask_cli.keys import make_keys, node_places, read_secret
from trimask_core.identity import SigningKey
from trimask_core.randomness import SystemRandom
from trimask_core.study import SignedStudy, Study, approve
from trimask_server.local_cluster import ProcessCluster, ThreadCluster, free_base_port
from trimask_server.local_postgres import LocalPostgres
from trimask_theory.study_plan import create_study, load_definition

NUMBERS = """
title = "Numbers"
purpose = "An exact study for tests"
contact = "nobody@example.org"
[privacy]
exact = true
[collection]
block_rows = 24
release_rows = 48
[[attributes]]
name = "x"
kind = "continuous"
minimum = -10
maximum = 10
[[attributes]]
name = "y"
kind = "continuous"
minimum = 0
maximum = 4
"""


class Lab:
    """Keys for a cluster, and studies on it."""

    def __init__(self, folder: Path, right: int = 3, left: int = 2) -> None:
        self.folder = folder
        self.right, self.left = right, left
        base = free_base_port(2 * (1 + right + left))
        self.parties = make_keys(folder, node_places(right, left, "127.0.0.1", base))
        self.owner = folder / "owner"

    def use_postgres(self, server: LocalPostgres) -> str:
        """Every node in its own schema of a new database; its address."""
        url = server.create_database(f"lab_{secrets.token_hex(6)}")
        for name in self.parties:
            with (self.folder / name / "node.toml").open("a") as file:
                file.write(f'\n[store]\nurl = "{url}"\n')
        return url

    def key(self, name: str) -> SigningKey:
        return SigningKey(read_secret(self.folder / name / "identity.key"))

    def new_study(self, definition: str = NUMBERS, **changes: Any) -> SignedStudy:
        """A study every party has approved, not yet open."""
        study = create_study(
            load_definition(definition).changed(**changes),
            self.parties["collector"],
            [self.parties[f"R{k}"] for k in range(1, self.right + 1)],
            [self.parties[f"L{j}"] for j in range(1, self.left + 1)],
            (self.folder / "authority" / "ca.pem").read_text(),
            int(time.time() * 1000),
            SystemRandom(),
        )
        signed = SignedStudy(study)
        for name in self.parties:
            signed = signed.with_approval(approve(study, self.key(name), 1))
        return signed

    def open_study(self, definition: str = NUMBERS, **changes: Any) -> SignedStudy:
        signed = self.new_study(definition, **changes)
        owner.open_study(signed, self.owner)
        return signed

    def close(self, study: Study) -> StudyStatus:
        """Close and wait until everything is published."""
        owner.close_study(study, self.owner)
        return self.wait(study, lambda status: status.state == "closed")

    def wait(self, study: Study, ready: Callable[[StudyStatus], bool], seconds: float = 120) -> StudyStatus:
        deadline = time.monotonic() + seconds
        pause = __import__("threading").Event()
        while True:
            status = owner.study_status(study)
            if ready(status):
                return status
            assert time.monotonic() < deadline, f"still waiting: {status}"
            pause.wait(0.05)

    def datasets(self, study: Study) -> list[trimask.Dataset]:
        with trimask.connect(
            study.collector.address,
            roots=self.owner / "ca.pem",
            tls_name=study.collector.tls_name,
            cache=self.folder / "cache",
        ) as connection:
            return [connection.dataset(info.id) for info in connection.datasets(study.id)]

    def channel_as(self, name: str, to: str) -> grpc.Channel:
        """A mutual-TLS channel with `name`'s certificate to `to`'s peer port."""
        keys = self.folder / name
        party = self.parties[to]
        return open_channel(
            party.peer_address,
            keys / "ca.pem",
            tls_name=party.tls_name,
            certificate=keys / "tls.pem",
            key=keys / "tls.key",
        )


def exact_gram(study: Study, people: list[dict[str, Any]]) -> np.ndarray:
    rows = np.array([study.schema.encode(answers) for answers in people])
    return rows.T @ rows


def people(count: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {"x": float(x), "y": float(y)}
        for x, y in zip(rng.uniform(-10, 10, count), rng.uniform(0, 4, count), strict=True)
    ]


def _workers(lab: Lab, request: pytest.FixtureRequest) -> int:
    """TRIMASK_TEST_STORE=postgresql runs this suite with two workers of every node on one PostgreSQL server."""
    if os.environ.get("TRIMASK_TEST_STORE") != "postgresql":
        return 1
    lab.use_postgres(request.getfixturevalue("postgres_server"))
    return 2


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A cluster on one thread, shared by all tests of a run."""
    lab = Lab(tmp_path_factory.mktemp("lab"))
    with ThreadCluster(lab.folder, _workers(lab, request)) as cluster:
        lab.cluster = cluster  # type: ignore[attr-defined]
        yield lab


@pytest.fixture(scope="module")
def process_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A cluster of processes, shared by the tests of a module."""
    lab = Lab(tmp_path_factory.mktemp("processes"))
    with ProcessCluster(lab.folder, _workers(lab, request)) as cluster:
        lab.cluster = cluster  # type: ignore[attr-defined]
        yield lab


@pytest.fixture(scope="session")
def tools() -> Any:
    """`exact_gram` and `people`, for tests that cannot import this module."""

    class Tools:
        pass

    Tools.exact_gram = staticmethod(exact_gram)  # type: ignore[attr-defined]
    Tools.people = staticmethod(people)  # type: ignore[attr-defined]
    Tools.Lab = Lab  # type: ignore[attr-defined]
    return Tools
