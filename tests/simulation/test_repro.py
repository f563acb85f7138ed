"""What the simulation and the fuzzers found, each in its smallest form."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from trimask_core.errors import ConfigError, StudyError, VerificationError
from trimask_core.receipt import Receipt
from trimask_core.study import SignedStudy
from trimask_server.config import load_config
from trimask_server.refusals import Refusals
from trimask_server.right.rows import RowStore
from trimask_server.store.schema import PROVIDER
from trimask_server.store.sqlite import SqliteStore
from trimask_server.store.studies import StudyRegistry
from trimask_simulation.people import make_study


def test_repro_closed_study_stays_closed(tmp_path: Path) -> None:
    """A copy of ListPending(stop_intake) that arrived after EraseStudy set a closed study back to closing."""

    async def run() -> None:
        database = SqliteStore(tmp_path / "right.sqlite3", PROVIDER)
        studies = StudyRegistry(database)
        signed = make_study()[0]
        await studies.register(signed, 1)
        await studies.set_state(signed.study.id, "closed")
        await studies.set_state(signed.study.id, "closing")
        assert studies.state(signed.study.id) == "closed"
        await studies.load()
        assert studies.state(signed.study.id) == "closed"
        database.close()

    asyncio.run(run())


def test_repro_counts_survive_a_full_disk(tmp_path: Path) -> None:
    """Counts that could not be written were forgotten."""

    class Full:
        async def write(self, function: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

    async def run() -> None:
        database = SqliteStore(tmp_path / "right.sqlite3", PROVIDER)
        counts = Refusals({})
        counts.count("malformed")
        with pytest.raises(sqlite3.OperationalError):
            await counts.save(Full())  # type: ignore[arg-type]
        counts.count("malformed")
        await counts.save(database)
        assert (await Refusals.load(database)).as_dict() == {"malformed": 2}
        database.close()

    asyncio.run(run())


def test_repro_nothing_stays_between_cells(tmp_path: Path) -> None:
    """SQLite's secure_delete overwrites freed cells, but not the copies a page keeps when its rows move to another."""

    def digest(*parts: object) -> bytes:
        return hashlib.sha512(repr(parts).encode()).digest()

    async def run() -> None:
        database = SqliteStore(tmp_path / "right.sqlite3", PROVIDER)
        studies, rows = StudyRegistry(database), RowStore(database)
        signed = make_study()[0]
        study_id = signed.study.id
        await studies.register(signed, 1)
        payloads = {digest("id", i)[:16]: (digest("payload", i) + digest("more", i))[:81] for i in range(200)}
        for submission_id, payload in payloads.items():
            await rows.insert(study_id, submission_id, payload, 1)
        ids = list(payloads)
        for number, first in enumerate(range(0, 200, 9)):
            block_id = bytes([number]) * 16
            await rows.assign(study_id, block_id, sorted(ids[first : first + 9]))
            await rows.erase_block(study_id, block_id)
        left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert [i for i, payload in enumerate(payloads.values()) if payload[-24:] in left] == []
        database.close()

    asyncio.run(run())


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"a":' * 100_000])
def test_repro_deep_json_is_not_a_study(deep: bytes) -> None:
    """Deep nesting ran out of stack: an internal error with a traceback in the node's log."""
    with pytest.raises(StudyError, match="not a signed study"):
        SignedStudy.from_json(deep)
    with pytest.raises(VerificationError, match="not a receipt"):
        Receipt.from_json(deep.decode())


def test_repro_half_a_surrogate_pair_is_not_a_title() -> None:
    """Text that has no UTF-8 form has no id; that came out when the id was first asked for."""
    data = json.loads(make_study()[0].to_json())
    data["study"]["title"] = "\ud800"
    with pytest.raises(StudyError, match="not Unicode"):
        SignedStudy.from_json(json.dumps(data))


def test_repro_config_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(ConfigError, match=r"node\.toml is not TOML"):
        load_config(tmp_path / "node.toml", "right")
