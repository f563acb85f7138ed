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

import pytest

from trimask_answers import LoneCollector, stand_in
from trimask_core.study.guarantee import Budget, Protection
from trimask_patience import patience
from trimask_proto.v1 import release_pb2 as pb

SCRIPT = Path(__file__).with_name("killed_collector.py")
# What a kill leaves in the ledger: the reservation is the first thing on disk, the answer with its cost the last.
STEPS = {
    "before it is reserved": [],
    "reserved": ["reserved"],
    "committed": ["reserved"],
    "drawn": ["reserved"],
    "before it is kept": ["reserved"],
    "kept, before the totals are erased": ["answered"],
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
def store(tmp_path: Path, make_study: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Any]:
    stand_in(monkeypatch.setattr)
    norm = make_study(suite="moments", sigma=0.0).study.protection.row_norm
    protection = Protection(norm, 0.0, "exact", budget=Budget(1.0, 1e-6))
    made = make_study(suite="moments", sigma=0.0, protection=protection)
    collector = LoneCollector(tmp_path / "collector.sqlite3", made.identities["collector"])
    asyncio.run(collector.open(made.signed))
    collector.database.close()
    return tmp_path / "collector.sqlite3", made


# The whole of the budget, so that the answer also ends answers: the kill may fall between the two.
@pytest.mark.parametrize(
    ("step", "left"),
    [
        pytest.param(
            step,
            left,
            marks=() if step in ("reserved", "committed", "kept, before the reply") else pytest.mark.slow,
        )
        for step, left in STEPS.items()
    ],
)
def test_killed_at(store: tuple[Path, Any], killed: Any, step: str, left: list[str]) -> None:
    path, made = store
    identity = made.identities["collector"]
    request = pb.AskReleaseRequest(
        study_id=made.study.id,
        request_id=bytes(16),
        approximate=pb.ApproximatePrice(epsilon=1.0, delta=1e-6),
        sum=pb.SumQuestion(columns=["age"]),
    )
    arguments = [str(path), identity.secret_bytes().hex(), request.SerializeToString().hex(), step]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=environment,
        capture_output=True,
        timeout=patience(120),
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    assert b"still alive" not in process.stdout

    def states() -> tuple[list[str], str]:
        collector = LoneCollector(path, identity)
        found = asyncio.run(collector.states(made.study.id))
        collector.database.close()
        return found

    assert states() == (left, "spent" if left == ["answered"] else "answerable")
    # The same request after a restart: answered, charged once, and the same bytes for ever.
    first, after = asyncio.run(killed.ask(path, identity.secret_bytes(), request))
    assert after == ["answered"]
    assert first.replayed == (left == ["answered"])
    again, after = asyncio.run(killed.ask(path, identity.secret_bytes(), request))
    assert (again.answer, after, again.replayed) == (first.answer, ["answered"], True)
    assert states() == (["answered"], "spent")
