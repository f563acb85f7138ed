"""The audit log: there exactly when what it records is, refused to change by the database, and proved whole by its chain."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SigningKey
from trimask_server.runtime.audit import HEAD_FILE, AuditEntry, AuditHead, AuditLog, verify_chain
from trimask_server.runtime.metrics import Refusals
from trimask_server.store.database import PROVIDER
from trimask_server.store.interface import StoreError, Transaction
from trimask_server.store.sqlite import SqliteStore

KEY = SigningKey.generate(DeterministicRandom("audit key"))
OTHER = SigningKey.generate(DeterministicRandom("another node's key"))


class Store:
    """A log over a real store that can be opened again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open()

    def open(self) -> None:
        self.database = SqliteStore(self.folder / "right.sqlite3", PROVIDER)
        self.log = AuditLog(
            self.database, KEY, ManualClock(1_000), self.folder, logging.getLogger("audit-test")
        )
        asyncio.run(self.log.load())
        asyncio.run(self.log.record_missing())

    def add(self, count: int) -> None:
        async def course() -> None:
            for number in range(count):
                await self.log.record("block_assigned", rows=number)

        asyncio.run(course())

    def entries(self) -> list[AuditEntry]:
        return asyncio.run(self.log.read(0, 10_000))

    def tamper(self, *statements: str) -> None:
        """Change the file as somebody with the disk would: the triggers go first."""
        self.database.close()
        with sqlite3.connect(self.folder / "right.sqlite3") as raw:
            raw.execute("DROP TRIGGER audit_no_update")
            raw.execute("DROP TRIGGER audit_no_delete")
            for statement in statements:
                raw.execute(statement)
        raw.close()
        self.open()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path)
    yield found
    found.database.close()


def test_a_whole_log_is_whole(store: Store) -> None:
    store.add(5)
    report = verify_chain(store.entries(), KEY.public, [asyncio.run(store.log.head())])
    assert (report.whole, report.entries, report.last.sequence) == (True, 5, 5)


@pytest.mark.parametrize(
    ("statements", "broken_at", "words"),
    [
        (["UPDATE audit SET details = '{\"rows\":9}' WHERE sequence = 3"], 3, "was changed"),
        (["UPDATE audit SET kind = 'block_erased' WHERE sequence = 2"], 2, "was changed"),
        (["UPDATE audit SET time_ms = 5 WHERE sequence = 4"], 4, "was changed"),
        (["DELETE FROM audit WHERE sequence = 1"], 1, "missing"),
        (["DELETE FROM audit WHERE sequence = 3"], 3, "missing"),
        (
            [
                "UPDATE audit SET sequence = 99 WHERE sequence = 2",
                "UPDATE audit SET sequence = 2 WHERE sequence = 3",
                "UPDATE audit SET sequence = 3 WHERE sequence = 99",
            ],
            2,
            "does not follow",
        ),
        (["UPDATE audit SET signature = zeroblob(64) WHERE sequence = 5"], 5, "did not write it"),
    ],
)
def test_tampering_is_found_at_the_first_entry(
    store: Store, statements: list[str], broken_at: int, words: str
) -> None:
    store.add(6)
    store.tamper(*statements)
    report = verify_chain(store.entries(), KEY.public)
    assert (report.whole, report.broken_at, report.entries) == (False, broken_at, broken_at - 1)
    assert words in report.why


def test_a_log_cut_short_is_missed_by_whoever_kept_a_head(store: Store) -> None:
    store.add(6)
    kept = asyncio.run(store.log.head())
    store.tamper(
        "DELETE FROM audit WHERE sequence > 4",
        "UPDATE audit_head SET sequence = 4, hash = (SELECT hash FROM audit WHERE sequence = 4)",
    )
    assert verify_chain(store.entries(), KEY.public).whole  # what is left fits together, so only a head tells
    report = verify_chain(store.entries(), KEY.public, [kept])
    assert (report.broken_at, "cut short" in report.why) == (5, True)
    store.add(3)  # and growing it again does not help: entry 6 is another now
    report = verify_chain(store.entries(), KEY.public, [kept])
    assert (report.broken_at, "rewritten" in report.why) == (6, True)


def test_the_node_itself_misses_what_its_kept_head_had(store: Store) -> None:
    store.add(4)
    asyncio.run(store.log.save_head())
    store.tamper(
        "DELETE FROM audit WHERE sequence > 2",
        "UPDATE audit_head SET sequence = 2, hash = (SELECT hash FROM audit WHERE sequence = 2)",
    )
    last = store.entries()[-1]
    assert (last.sequence, last.kind) == (3, "log_cut_short")
    assert '"missed":4' in last.details


def test_repro_a_restored_store_is_no_log_cut_short(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """After `trimask node restore` the node logged an ERROR about its own log, though all was well."""
    store.add(4)
    asyncio.run(store.log.save_head())
    store.tamper(
        "DELETE FROM audit WHERE sequence > 2",
        "UPDATE audit_head SET sequence = 2, hash = (SELECT hash FROM audit WHERE sequence = 2)",
        "UPDATE store_facts SET value = randomblob(16) WHERE name = 'generation'",  # as `store.backup` does
    )
    last = store.entries()[-1]
    assert (last.sequence, last.kind) == (3, "store_restored")
    assert '"missed":4' in last.details
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_repro_a_restored_log_is_whole_as_soon_as_the_node_answers(store: Store) -> None:
    """`trimask node audit --verify` right after a restore compared the log with the head of the store before, which is
    replaced once a second: BROKEN, where all was well."""
    store.add(4)
    asyncio.run(store.log.save_head())
    store.tamper(
        "DELETE FROM audit WHERE sequence > 2",
        "UPDATE audit_head SET sequence = 2, hash = (SELECT hash FROM audit WHERE sequence = 2)",
        "UPDATE store_facts SET value = randomblob(16) WHERE name = 'generation'",
    )
    store.add(2)
    kept = AuditHead.from_json((store.folder / HEAD_FILE).read_text())
    assert verify_chain(store.entries(), KEY.public, [kept]).whole


def test_a_good_start_adds_nothing(store: Store) -> None:
    store.add(4)
    asyncio.run(store.log.save_head())
    store.database.close()
    store.open()
    assert [entry.kind for entry in store.entries()] == ["block_assigned"] * 4
    assert AuditHead.from_json((store.folder / HEAD_FILE).read_text()).sequence == 4


def test_the_database_refuses_changes_and_deletions(store: Store) -> None:
    store.add(2)
    for statement in ("UPDATE audit SET kind = 'x'", "DELETE FROM audit WHERE sequence = 1"):
        with pytest.raises(StoreError, match="append-only"):
            asyncio.run(store.database.write(lambda tx, sql=statement: tx.run(sql)))  # type: ignore[misc]
    assert len(store.entries()) == 2


def test_an_entry_is_there_only_if_its_transaction_is(store: Store) -> None:
    async def course() -> None:
        def fail(tx: Transaction) -> None:
            store.log.append(tx, "block_erased", rows=3)
            raise RuntimeError("no")

        results = await asyncio.gather(
            store.log.record("node_started"),
            store.database.write(fail),
            store.log.record("node_stopped"),
            return_exceptions=True,
        )
        assert isinstance(results[1], RuntimeError)

    asyncio.run(course())
    assert [entry.kind for entry in store.entries()] == ["node_started", "node_stopped"]
    assert verify_chain(store.entries(), KEY.public).whole


def test_another_nodes_log_does_not_pass_for_this_ones(store: Store) -> None:
    store.add(2)
    assert verify_chain(store.entries(), OTHER.public).broken_at == 1


def test_a_flood_of_refusals_is_one_entry(store: Store) -> None:
    refusals = Refusals({})
    for _ in range(10_000):
        refusals.count("malformed")
    refusals.count("bad_token")
    asyncio.run(refusals.save(store.database, store.log))
    asyncio.run(refusals.save(store.database, store.log))  # nothing new: nothing written
    (entry,) = store.entries()
    assert entry.details == '{"counts":{"bad_token":1,"malformed":10000}}'


def test_export_and_back(store: Store) -> None:
    store.add(3)
    entries = store.entries()
    assert [AuditEntry.from_json(entry.to_json()) for entry in entries] == entries
    head = asyncio.run(store.log.head())
    assert AuditHead.from_json(head.to_json()) == head
    for text in ("", "{}", '{"sequence": 1}', "[]", '{"sequence": 1, "hash": "zz", "signature": ""}'):
        with pytest.raises(VerificationError, match="not an audit"):
            AuditEntry.from_json(text)
        with pytest.raises(VerificationError, match="not an audit"):
            AuditHead.from_json(text)


def test_a_forged_head_is_not_taken(store: Store) -> None:
    store.add(1)
    head = asyncio.run(store.log.head())
    head.verify(KEY.public)
    for forged, identity in ((head, OTHER.public), (replace(head, hash=bytes(32)), KEY.public)):
        with pytest.raises(VerificationError):
            forged.verify(identity)


def test_the_head_file_that_cannot_be_read_is_passed_over(store: Store, caplog: Any) -> None:
    store.add(1)
    (store.folder / HEAD_FILE).write_text("{")
    store.database.close()
    with caplog.at_level(logging.WARNING):
        store.open()
    assert "cannot be read" in caplog.text
