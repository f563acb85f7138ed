"""A small cluster with HTTP ports, on one thread, and what a test does with it."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from trimask_cli import owner
from trimask_core.identity import SigningKey
from trimask_core.party_files import read_secret
from trimask_core.randomness import SystemRandom
from trimask_core.signed_study import SignedStudy, approve
from trimask_server.local.cluster import ThreadCluster, free_base_port
from trimask_server.local.keys import make_keys, node_places
from trimask_server.programs.roles import Node
from trimask_theory.study_plan import create_study, load_definition

T = TypeVar("T")
DEFINITION = """
title = "Sleep & work <in numbers>"
purpose = "How sleep and working hours go together"
contact = "sleep@example.org"
[privacy]
exact = true
[collection]
block_rows = 16
release_rows = 32
[[attributes]]
name = "hours"
kind = "continuous"
minimum = 0
maximum = 12
[[attributes]]
name = "rested"
kind = "binary"
"""
NODES = ("collector", "R1", "R2", "L1")


@dataclass
class OpsLab:
    """Keys, a cluster, studies."""

    folder: Path
    parties: dict[str, Any]
    cluster: Any = None

    @classmethod
    def make(cls, folder: Path) -> OpsLab:
        base = free_base_port(3 * len(NODES))
        return cls(folder, make_keys(folder, node_places(2, 1, "127.0.0.1", base, http=True)))

    def new_study(self, title: str = "", **changes: Any) -> SignedStudy:
        text = DEFINITION.replace("Sleep & work <in numbers>", title) if title else DEFINITION
        study = create_study(
            load_definition(text).changed(**changes),
            self.parties["collector"],
            [self.parties["R1"], self.parties["R2"]],
            [self.parties["L1"]],
            (self.folder / "authority" / "ca.pem").read_text(),
            int(time.time() * 1000),
            SystemRandom(),
        )
        signed = SignedStudy(study)
        for name in self.parties:
            key = SigningKey(read_secret(self.folder / name / "identity.key"))
            signed = signed.with_approval(approve(study, key, 1))
        return signed

    def open_study(self, title: str = "", **changes: Any) -> SignedStudy:
        signed = self.new_study(title, **changes)
        owner.open_study(signed, self.folder / "owner")
        return signed

    def wait(self, ready: Callable[[], Any], seconds: float = 60) -> Any:
        """What `ready` returns once it is true."""
        deadline = time.monotonic() + seconds
        pause = __import__("threading").Event()
        while not (found := ready()):
            assert time.monotonic() < deadline, "still waiting"
            pause.wait(0.03)
        return found

    def node(self, name: str) -> Node:
        found: Node = self.cluster.nodes[name]
        return found

    def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the nodes' own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.cluster._loop).result(30)

    def http(self, name: str) -> str:
        line = next(
            line
            for line in (self.folder / name / "node.toml").read_text().splitlines()
            if line.startswith("http_listen")
        )
        return "http://" + line.split('"')[1]

    def get(self, name: str, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.http(name) + path, timeout=10) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def get_json(self, name: str, path: str) -> tuple[int, Any]:
        status, text = self.get(name, path)
        return status, json.loads(text)

    def metric(self, name: str, metric: str, **labels: str) -> float | None:
        """One sample of a node's /metrics."""
        from prometheus_client.parser import text_string_to_metric_families

        for family in text_string_to_metric_families(self.get(name, "/metrics")[1]):
            for sample in family.samples:
                if sample.name == metric and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None


@pytest.fixture(scope="session")
def ops_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpsLab]:
    """Shared by all tests that leave the nodes as they found them."""
    lab = OpsLab.make(tmp_path_factory.mktemp("ops"))
    with ThreadCluster(lab.folder) as lab.cluster:
        yield lab


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[OpsLab]:
    """A cluster of a test's own."""
    lab = OpsLab.make(tmp_path)
    with ThreadCluster(lab.folder) as lab.cluster:
        yield lab


@pytest.fixture
def keys_only(tmp_path: Path) -> OpsLab:
    """Keys and settings, nothing running."""
    return OpsLab.make(tmp_path)
