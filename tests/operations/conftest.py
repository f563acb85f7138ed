"""A small cluster with HTTP ports, on one thread, and what a test does with it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask_core.study.signed import SignedStudy
from trimask_lab import Lab
from trimask_patience import patience
from trimask_server.local.cluster import ThreadCluster

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


class OpsLab(Lab):
    """The smallest cluster, with HTTP ports."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 2, 1, http=True)

    def new_study(self, title: str = "", **changes: Any) -> SignedStudy:
        """A study of `DEFINITION`, under a title of its own."""
        text = DEFINITION.replace("Sleep & work <in numbers>", title) if title else DEFINITION
        return super().new_study(text, **changes)

    def open_study(self, title: str = "", **changes: Any) -> SignedStudy:
        return super().open_study(title, **changes)

    def http(self, name: str) -> str:
        line = next(
            line
            for line in (self.folder / name / "node.toml").read_text().splitlines()
            if line.startswith("http_listen")
        )
        return "http://" + line.split('"')[1]

    def get(self, name: str, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.http(name) + path, timeout=patience(10)) as answer:  # noqa: S310
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
def running_ops_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpsLab]:
    lab = OpsLab(tmp_path_factory.mktemp("ops"))
    with ThreadCluster(lab.folder) as lab.cluster:
        yield lab


@pytest.fixture(scope="module")
def ops_lab(running_ops_lab: OpsLab) -> Iterator[OpsLab]:
    """Shared by all tests that leave the nodes as they found them; studies are those of a module."""
    yield running_ops_lab
    running_ops_lab.rest()


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[OpsLab]:
    """A cluster of a test's own."""
    lab = OpsLab(tmp_path)
    with ThreadCluster(lab.folder) as lab.cluster:
        yield lab


@pytest.fixture
def keys_only(tmp_path: Path) -> OpsLab:
    """Keys and settings, nothing running."""
    return OpsLab(tmp_path)
