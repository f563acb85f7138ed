"""A whole cluster with its keys and studies, and what a test does with it.

TRIMASK_TEST_STORE=postgresql (`make test-postgres`) puts every node on one PostgreSQL server, with two workers of each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import grpc
import numpy as np
import psycopg
import pytest

import trimask
from trimask.data.connection import StudyStatus
from trimask_cli import owner
from trimask_client.grpc_channel import open_channel
from trimask_core.basics.clock import Clock
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey
from trimask_core.moments.report import MomentsSecret
from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key, read_secret
from trimask_core.study.signed import SignedStudy, approve, needs_commitment
from trimask_patience import patience, until
from trimask_postgres import LocalPostgres
from trimask_server.local.cluster import ProcessCluster, ThreadCluster, free_base_port, node_of
from trimask_server.local.keys import make_keys, node_places
from trimask_server.programs.roles import Node
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

__all__ = ["NUMBERS", "ON_POSTGRES", "Lab", "exact_gram", "some_people", "sqlite_only"]

T = TypeVar("T")
ON_POSTGRES = os.environ.get("TRIMASK_TEST_STORE") == "postgresql"
sqlite_only = pytest.mark.skipif(ON_POSTGRES, reason="reads SQLite's files")

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
    """Keys for a cluster, the cluster, and studies on it."""

    cluster: Any  # a ThreadCluster or a ProcessCluster, while it runs

    def __init__(
        self,
        folder: Path,
        right: int = 3,
        left: int = 2,
        *,
        http: bool = False,
        https: bool = False,
        organisations: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.right, self.left = right, left
        base = free_base_port(4 * (1 + right + left))
        places = node_places(right, left, "127.0.0.1", base, http=http, https=https)
        named = (
            [replace(place, organisation=organisations[place.name]) for place in places]
            if organisations
            else places
        )
        self.parties = make_keys(folder, named)
        self.owner = folder / "owner"
        self.database = ""  # the address of its PostgreSQL database, if it has one

    def use_postgres(self, server: LocalPostgres) -> str:
        """Every node in its own schema of a new database; its address."""
        self.database = server.create_database(f"lab_{secrets.token_hex(6)}")
        for name in self.parties:
            with (self.folder / name / "node.toml").open("a") as file:
                file.write(f'\n[store]\nurl = "{self.database}"\n')
        return self.database

    def _workers(self, request: pytest.FixtureRequest) -> int:
        if not ON_POSTGRES:
            return 1
        self.use_postgres(request.getfixturevalue("postgres_server"))
        return 2

    @contextlib.contextmanager
    def in_thread(self, request: pytest.FixtureRequest) -> Iterator[ThreadCluster]:
        """Run it on one thread of this process, on the store the suite is run with."""
        with ThreadCluster(self.folder, self._workers(request)) as self.cluster:
            yield self.cluster

    @contextlib.contextmanager
    def in_processes(self, request: pytest.FixtureRequest) -> Iterator[ProcessCluster]:
        """Run it as processes, on the store the suite is run with."""
        with ProcessCluster(self.folder, self._workers(request)) as self.cluster:
            yield self.cluster

    def workers(self, name: str) -> list[str]:
        """The names of a node's workers; its own alone if it has one."""
        return [worker for worker in self.cluster.workers if node_of(worker) == name]

    def nodes(self, name: str) -> list[Node]:
        """The workers of a node, in a cluster on a thread."""
        return [self.cluster.nodes[worker] for worker in self.workers(name)]

    @contextlib.contextmanager
    def at_another_time(self, name: str, clock: Clock) -> Iterator[None]:
        """All workers of a node go by another clock for a while. (No node changes its context; a test may.)"""
        contexts = [node.context for node in self.nodes(name)]
        kept = [context.clock for context in contexts]
        for context in contexts:
            object.__setattr__(context, "clock", clock)
        try:
            yield
        finally:
            for context, before in zip(contexts, kept, strict=True):
                object.__setattr__(context, "clock", before)

    def stop(self, name: str) -> None:
        """Stop all workers of a node."""
        for worker in self.workers(name):
            self.cluster.stop(worker)

    def start(self, name: str) -> None:
        """Start them again."""
        for worker in self.workers(name):
            self.cluster.start(worker)

    def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something on the thread the cluster runs on."""
        return asyncio.run_coroutine_threadsafe(work, self.cluster._loop).result(patience(30))

    def refusals(self, name: str) -> Counter[str]:
        """What a node has refused so far, by reason: all its workers together."""
        total: Counter[str] = Counter()
        for node in self.nodes(name):
            self.on_loop(node.host.save_refusals())
            counts = node.context.refusals  # the node's own save may be under way, on a busy machine for long
            self.until(lambda counts=counts: not any(counts._saving.values()))  # type: ignore[misc]
        for reason, count in self.query(name, "SELECT reason, count FROM refusals"):
            total[reason] += count
        return total

    def query(self, name: str, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask a node's store behind its back."""
        if not self.database:
            (path,) = (self.folder / name / "data").glob("*.sqlite3")
            with contextlib.closing(sqlite3.connect(path)) as connection:
                return connection.execute(sql, parameters).fetchall()
        with psycopg.connect(self.database) as server:
            server.execute(f"SET search_path TO trimask_{name.lower()}")
            return server.cursor(binary=True).execute(sql.replace("?", "%s"), parameters).fetchall()  # type: ignore[arg-type]

    def key(self, name: str) -> SigningKey:
        return SigningKey(read_secret(self.folder / name / "identity.key"))

    def node(self, name: str) -> Node:
        """A node of one worker, in a cluster on a thread."""
        (found,) = self.nodes(name)
        return found

    def rows(self, name: str, study_id: bytes) -> list[bytes]:
        """The ids of the submissions a right provider holds."""
        held = "SELECT submission_id FROM submissions WHERE study_id = ? AND payload IS NOT NULL"
        return [row[0] for row in self.query(name, held, (study_id,))]

    def new_study(self, definition: str = NUMBERS, *, without: str = "", **changes: Any) -> SignedStudy:
        """A study every party (but one) has approved, not yet open."""
        study = create_study(
            load_definition(definition).changed(**changes),
            self.parties["collector"],
            [self.parties[f"R{k}"] for k in range(1, self.right + 1)],
            [self.parties[f"L{j}"] for j in range(1, self.left + 1)],
            (self.folder / "authority" / "ca.pem").read_text(),
            int(time.time() * 1000),
            SystemRandom(),
            admission_key(self.owner).public,
        )
        signed = SignedStudy(study)
        for name in self.parties:
            if name != without:
                commitment = b""
                if needs_commitment(study, name):
                    commitment = MomentsSecret.load(self.folder / name).commitment(study.id)
                signed = signed.with_approval(approve(study, self.key(name), 1, commitment))
        return signed

    def open_study(self, definition: str = NUMBERS, **changes: Any) -> SignedStudy:
        signed = self.new_study(definition, **changes)
        self.open(signed)
        return signed

    def open(self, signed: SignedStudy) -> None:
        """Open it. A provider that answers too late, on a busy machine, is asked again."""
        until(lambda: self._opened(signed))

    def _opened(self, signed: SignedStudy) -> bool:
        try:
            owner.open_study(signed, self.owner)
        except Refused as error:
            if error.reason != Reason.UNREACHABLE:
                raise
            return False
        return True

    def close(self, study: Study) -> StudyStatus:
        """Close and wait until everything is published."""
        owner.close_study(study, self.owner)
        return self.wait(study, lambda status: status.state == "closed")

    def rest(self) -> None:
        """No driver looks after the studies so far. What tests left open would cost those after them a fifth of a core."""
        for node in self.nodes("collector"):
            studies = node.context.studies
            for study in studies.all():
                self.on_loop(studies.set_state(study.id, "closed"))

    def wait(self, study: Study, ready: Callable[[StudyStatus], bool], seconds: float = 120) -> StudyStatus:
        """Its status, once it is as it should be."""
        party = study.collector
        roots = (
            study.tls_roots or None
        )  # one connection for all: a new one each time costs more than what is waited for
        with trimask.connect(party.address, roots=roots, tls_name=party.tls_name) as connection:

            def asked() -> StudyStatus | None:
                status = connection.status(study.id)
                return status if ready(status) else None

            return until(asked, seconds, lambda: connection.status(study.id))

    until = staticmethod(until)

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
    """What masking must not change."""
    rows = np.array([study.schema.encode(answers) for answers in people])
    return rows.T @ rows


def some_people(count: int, seed: int) -> list[dict[str, Any]]:
    """Answers to the questions of `NUMBERS`."""
    rng = np.random.default_rng(seed)
    return [
        {"x": float(x), "y": float(y)}
        for x, y in zip(rng.uniform(-10, 10, count), rng.uniform(0, 4, count), strict=True)
    ]
