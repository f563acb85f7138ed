"""Datasets of any size as a collector publishes them: pooled, masked, written and signed by its own code, then served."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.example import ATTRIBUTES, YES_NO, definition, sign
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.rows.arrays import Matrix
from trimask_core.study.party import Party, read_secret
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.release_files import plan_hash, sign_bound
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.publication import Catalogue, Tally
from trimask_server.local.cluster import ProcessCluster, free_base_port
from trimask_server.local.keys import make_keys, node_places
from trimask_server.runtime.context import make_context
from trimask_server.runtime.host import Host
from trimask_server.settings.config import load_config
from trimask_server.suites.rows.suite import FactorLedger, Publisher
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

__all__ = ["FORMULA", "SLOPES", "Published", "publishing"]

FORMULA = "a0 ~ " + " + ".join(f"a{i}" for i in range(1, ATTRIBUTES))
SLOPES = np.linspace(-0.1, 0.1, ATTRIBUTES - 1)
"""Coefficients behind a0, all columns in scaled units."""
_BLOCK = 65_536


@dataclass(frozen=True)
class Published:
    """Where a dataset is served, and how large it is."""

    address: str
    tls_name: str
    roots: str
    dataset_id: str
    rows: int
    file_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """For a process that pulls it."""
        return asdict(self)


@contextmanager
def publishing(sizes: Sequence[int]) -> Iterator[list[Published]]:
    """A collector process that serves a dataset of each size, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="trimask-published-") as name:
        folder = Path(name)
        parties = make_keys(folder, node_places(3, 2, "127.0.0.1", free_base_port(12)))
        found = [asyncio.run(_publish(folder, parties, rows)) for rows in sizes]
        cluster = ProcessCluster(folder)
        try:
            cluster.start("collector")
            cluster.wait_ready("collector")
            yield found
        finally:
            cluster.stop()


async def _publish(folder: Path, parties: dict[str, Party], rows: int) -> Published:
    """One study of this many people, from noisy blocks to a signed dataset, by the collector's own ledger and publisher."""
    roots = (folder / "authority" / "ca.pem").read_text(encoding="ascii")
    right, left = [parties[f"R{k}"] for k in (1, 2, 3)], [parties[f"L{j}"] for j in (1, 2)]
    study = create_study(
        load_definition(definition(128, rows)), parties["collector"], right, left, roots, SystemClock().now_ms(),
        SystemRandom(),
        bytes(32),
    )  # fmt: skip
    signed = sign(SignedStudy(study), folder)
    keys = [SigningKey(read_secret(folder / role / "identity.key")) for role in study.right_roles]
    context = make_context("collector", load_config(folder / "collector" / "node.toml", "collector"))
    host = Host(context)
    await host.load()
    try:
        ledger, catalogue = Ledger(context.database), Catalogue(context.database)
        factors = FactorLedger(context.database, context.vault)
        for start in range(0, rows, _BLOCK):
            count = min(_BLOCK, rows - start)
            block = _people(count, start) + study.protection.sigma * _normals(count, start)
            block_id = os.urandom(16)
            ids = sorted(os.urandom(16) for _ in range(count))
            plan = plan_hash(study.id, block_id, b"".join(ids))
            await ledger.plan(study.id, block_id, ids)
            await ledger.note_bound(block_id, b"".join(sign_bound(key, plan) for key in keys))
            await factors.pool(study.id, block_id, block, rows)
        (release,) = await catalogue.releases(study.id)
        dataset_id = await Publisher(context, factors).publish(signed, release, Tally(0, {}, {}))
        ((_, _, manifest, _),) = await catalogue.datasets(study.id)
    finally:
        await host.stop(0.0)
    party = parties["collector"]
    size = json.loads(manifest)["files"][0]["bytes"]
    return Published(party.address, party.tls_name, roots, dataset_id, rows, size)


def _people(count: int, seed: int) -> Matrix:
    """Scaled rows: ones, the response, and what it depends on."""
    rng = np.random.default_rng([1, seed])
    features = rng.uniform(-1, 1, (count, ATTRIBUTES - 1))
    features[:, -YES_NO:] = np.sign(
        features[:, -YES_NO:]
    )  # a fit counts on it that yes-or-no columns are +-1
    response = features @ SLOPES + rng.uniform(-0.2, 0.2, count)
    return np.column_stack([np.ones(count), response, features])


def _normals(count: int, seed: int) -> Matrix:
    return np.random.default_rng([2, seed]).standard_normal((count, ATTRIBUTES + 1))
