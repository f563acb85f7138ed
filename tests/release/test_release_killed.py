"""kill -9 at every step of an answer, in a process of its own: charged once, or not at all, and never lost."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stored_rows import put_release
from trimask_core.study import Budget, Protection
from trimask_proto.v1 import release_pb2 as pb
from trimask_server.collector.releases.factors import Factors
from trimask_server.store.data_keys import Vault
from trimask_server.store.master_keys import KeyRing
from trimask_server.store.schema import COLLECTOR
from trimask_server.store.sqlite import SqliteStore
from trimask_server.store.studies import StudyRegistry

SCRIPT = Path(__file__).with_name("killed_collector.py")
# What a kill leaves in the ledger: the reservation is the first thing on disk, the answer with its cost the last.
STEPS = {
    "before it is reserved": [],
    "reserved": ["reserved"],
    "factor read": ["reserved"],
    "drawn": ["reserved"],
    "before it has its place": ["reserved"],
    "before it is witnessed": ["reserved"],
    "before it is kept": ["reserved"],
    "kept, before the reply": ["answered"],
}


@pytest.fixture(scope="module")
def killed() -> Any:
    spec = importlib.util.spec_from_file_location("killed_collector", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def store(tmp_path: Path, make_study: Any) -> tuple[Path, Any]:
    plain = make_study(sigma=0.0).study.protection.row_norm
    made = make_study(sigma=0.0, protection=Protection(plain, 0.0, "exact", budget=Budget(1.0, 1e-6)))
    path = tmp_path / "collector.sqlite3"
    database = SqliteStore(path, COLLECTOR)

    async def fill() -> None:
        registry = StudyRegistry(database)
        await registry.register(made.signed, 1)
        await registry.set_state(made.study.id, "closed")
        rows = np.random.default_rng(1).uniform(-1, 1, (48, made.study.attributes))
        factor, vault = np.linalg.qr(rows, mode="r"), Vault(KeyRing.open(tmp_path))
        await database.write(lambda tx: put_release(tx, vault, made.study.id, factor, 48))
        await Factors(database, vault).make_answerable(made.study.id, made.study.release_rows)

    asyncio.run(fill())
    database.close()
    return path, made


# The whole of the budget, so that the answer also erases the factor: the kill may fall between the two.
@pytest.mark.parametrize(
    ("step", "left"),
    [
        pytest.param(
            step,
            left,
            marks=()
            if step in ("reserved", "before it is witnessed", "kept, before the reply")
            else pytest.mark.slow,
        )
        for step, left in STEPS.items()
    ],
)
def test_killed_at(store: tuple[Path, Any], killed: Any, step: str, left: list[str]) -> None:
    path, made = store
    key = made.identities["collector"].secret_bytes()
    request = pb.AskReleaseRequest(
        study_id=made.study.id,
        request_id=bytes(16),
        approximate=pb.ApproximatePrice(epsilon=1.0, delta=1e-6),
        sum=pb.SumMechanism(columns=["age"], method=pb.SUM_METHOD_GAUSSIAN),
    )
    arguments = [str(path), key.hex(), request.SerializeToString().hex(), step]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    assert b"still alive" not in process.stdout
    found, factor = asyncio.run(killed.states(path, made.study.id))
    assert found == left
    assert factor == ("spent" if left == ["answered"] else "answerable")
    # The same request after a restart: answered, charged once, and the same bytes for ever.
    first, after = asyncio.run(killed.ask(path, key, request))
    assert after == ["answered"]
    assert first.replayed == (left == ["answered"])
    again, after = asyncio.run(killed.ask(path, key, request))
    assert (again.answer, after, again.replayed) == (first.answer, ["answered"], True)
    assert asyncio.run(killed.states(path, made.study.id)) == (["answered"], "spent")
