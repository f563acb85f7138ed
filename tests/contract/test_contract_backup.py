"""Backup and restore of either store by hand: what comes back, what does not, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import ConfigError, Refused
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.publication import Catalogue
from trimask_server.settings.config import NodeConfig, StoreConfig
from trimask_server.store.backup import Kept, back_up, restore
from trimask_server.store.data_keys import KeyRing, Vault
from trimask_server.store.database import open_store
from trimask_server.suites.rows.suite import FactorLedger

STUDY = b"s" * 32
BLOCK = np.random.default_rng(0).normal(size=(20, 4))


@pytest.fixture(params=["sqlite", "postgresql"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> NodeConfig:
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return NodeConfig("collector", tmp_path / "data", tmp_path, "localhost:1", store=StoreConfig(url))


def _run(config: NodeConfig, ring: KeyRing, work: Any) -> Any:
    store = open_store(config, "collector")

    async def course() -> Any:
        return await work(store, FactorLedger(store, Vault(ring)))

    try:
        return asyncio.run(course())
    finally:
        store.close()


async def _pool(store: Any, factors: FactorLedger) -> bytes:
    await store.write(
        lambda tx: tx.run(
            "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, '{}', 'open', 0)"
            " ON CONFLICT DO NOTHING",
            (STUDY,),
        )
    )
    await Ledger(store).plan(STUDY, b"b" * 16, [bytes([i]) * 16 for i in range(20)])
    await factors.pool(STUDY, b"b" * 16, BLOCK, release_rows=100)
    return bytes(store.generation)


async def _state(store: Any, factors: FactorLedger) -> tuple[list[tuple[int, str]], bytes]:
    return [(r.number, r.state) for r in await Catalogue(store).releases(STUDY)], store.generation


def test_a_restored_collector_forgets_what_it_may_have_published_since(config: NodeConfig) -> None:
    ring, file = KeyRing.generate(), Path(config.data).parent / "backup"
    first = _run(config, ring, _pool)
    assert back_up(config, "collector", file) == file.stat().st_size > 1000
    with pytest.raises(ConfigError, match="exists already"):
        back_up(config, "collector", file)
    with pytest.raises(ConfigError, match="not empty"):
        restore(config, "collector", file)
    restore(config, "collector", file, force=True)
    state, second = _run(config, ring, _state)
    assert state == [(1, "discarded"), (1001, "discarded")]
    assert second != first

    async def refused(store: Any, factors: FactorLedger) -> None:
        with pytest.raises(Refused, match="no factor"):
            await factors.factor(STUDY, 1)
        assert await store.read(lambda tx: tx.rows("SELECT 1 FROM data_keys")) == []
        # What is pooled next is in a release that cannot have been published before.
        await Ledger(store).plan(STUDY, b"c" * 16, [b"n" * 16])
        await factors.pool(STUDY, b"c" * 16, BLOCK, release_rows=100)

    _run(config, ring, refused)
    assert _run(config, ring, _state)[0][-1] == (1002, "open")

    restore(config, "collector", file, force=True, kept=Kept(factors=True))

    async def kept(store: Any, factors: FactorLedger) -> None:
        factor = await factors.factor(STUDY, 1)
        assert np.allclose(factor.T @ factor, BLOCK.T @ BLOCK)
        assert store.generation not in (first, second)

    _run(config, ring, kept)
    with pytest.raises(ConfigError, match="which is not in the ring"):  # the backup has no keys in it
        _run(config, KeyRing.generate(), kept)


def test_what_is_not_this_stores_backup_is_refused_and_nothing_changes(config: NodeConfig) -> None:
    ring, folder = KeyRing.generate(), Path(config.data).parent
    generation = _run(config, ring, _pool)
    (folder / "text").write_text("hello")
    other = NodeConfig("R1", folder / "other", folder, "localhost:1", store=config.store)
    open_store(other, "right").close()
    back_up(other, "right", folder / "provider")
    for name, words in (("none", "no backup"), ("text", "is not a backup"), ("provider", "is not one of")):
        with pytest.raises(ConfigError, match=words):
            restore(config, "collector", folder / name, force=True)
    state, after = _run(config, ring, _state)
    assert (state, after) == ([(1, "open")], generation)


def test_a_store_in_use_is_not_replaced(config: NodeConfig) -> None:
    ring, file = KeyRing.generate(), Path(config.data).parent / "backup"
    _run(config, ring, _pool)
    running = open_store(config, "collector")
    back_up(config, "collector", file)  # while it runs
    with pytest.raises(ConfigError, match="in use"):
        restore(config, "collector", file, force=True)
    running.close()
    restore(config, "collector", file, force=True)


def test_a_restored_provider_marks_the_studies_whose_ledger_is_not_known_to_be_kept(
    config: NodeConfig,
) -> None:
    """Those of the backup alone; once lost, for ever."""
    config = replace(config, name="R1")
    folder = Path(config.data).parent

    def run(sql: str, *values: Any) -> Any:
        store = open_store(config, "right")
        try:
            return asyncio.run(store.write(lambda tx: tx.run(sql, values) if values else tx.rows(sql)))
        finally:
            store.close()

    def register(name: bytes, state: str = "open") -> None:
        run(
            "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, '{}', ?, 0)",
            name,
            state,
        )

    def marks() -> dict[bytes, int]:
        return {bytes(row[0]): row[1] for row in run("SELECT study_id, lost FROM restored_ledgers")}

    register(b"first")
    register(b"over", "collected")
    back_up(config, "right", folder / "one")
    restore(config, "right", folder / "one", force=True, kept=Kept(ledger=True))
    assert marks() == {b"first": 0}
    restore(config, "right", folder / "one", force=True)
    assert marks() == {b"first": 1}
    register(b"second")
    back_up(config, "right", folder / "two")
    restore(config, "right", folder / "two", force=True, kept=Kept(ledger=True))
    assert marks() == {b"first": 1, b"second": 0}
    restore(config, "right", folder / "two", force=True)
    assert marks() == {b"first": 1, b"second": 1}
