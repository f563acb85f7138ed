"""A right provider's batches of the moments suite over both stores: decided once, added up once, in one release."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.basics.refusals import Reason
from trimask_core.moments.field import P, pack
from trimask_server.right.rows import RowStore
from trimask_server.store.data_keys import KeyRing, Vault
from trimask_server.store.database import PROVIDER
from trimask_server.suites.moments.batch_store import BatchStore, Decision, LedgerHead

STUDY, BATCH, OTHER = b"s" * 32, b"b" * 16, b"o" * 16
IDS = [bytes([i]) * 16 for i in range(6)]
TOTAL = [1, P - 1, 12345]
DECISION = Decision(b"h" * 32, b"\1\0\1", {"bad_bits": 1}, b"signature", TOTAL)


class Opened:
    """A store with six reports, three bound to each of two batches."""

    def __init__(self, store: Any) -> None:
        self.store = store
        vault = Vault(KeyRing.generate(DeterministicRandom("batches")))  # the same at every opening
        self.rows = RowStore(store, vault)
        self.batches = BatchStore(store, vault, self.rows)

    async def fill(self) -> Opened:
        await self.store.write(
            lambda tx: tx.run(
                "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, '{}', 'open', 0)",
                (STUDY,),
            )
        )
        for name in IDS:
            await self.rows.insert(STUDY, name, b"payload of " + name, 7)
        assert await self.rows.assign(STUDY, BATCH, IDS[:3]) == []
        assert await self.rows.assign(STUDY, OTHER, IDS[3:]) == []
        return self

    async def query(self, sql: str) -> list[Any]:
        return [tuple(row) for row in await self.store.read(lambda tx: tx.rows(sql))]

    async def held(self) -> list[bytes]:
        """The reports whose payload is still here."""
        found = await self.query(
            "SELECT submission_id FROM submissions WHERE payload IS NOT NULL ORDER BY sequence"
        )
        return [bytes(row[0]) for row in found]


def refused(reason: str) -> Any:
    return pytest.raises(Refused, check=lambda error: error.reason == reason)


def test_the_first_decision_stays(make_store: Any) -> None:
    async def course() -> None:
        opened = await Opened(make_store(PROVIDER)).fill()
        first = await opened.batches.decide(STUDY, BATCH, DECISION)
        assert (first.state, first.accepted_count, first.accepted) == ("decided", 2, b"\1\0\1")
        assert first.refused == {"bad_bits": 1}
        again = await opened.batches.decide(STUDY, BATCH, replace(DECISION, signature=b"another"))
        assert again == first
        with refused("batch_disagreed"):
            await opened.batches.decide(STUDY, BATCH, replace(DECISION, accepted_hash=b"x" * 32))
        # Another worker of the node, on the same store, decides at the same time as this one.
        beside = Opened(make_store(PROVIDER)).batches
        both = await asyncio.gather(
            opened.batches.decide(STUDY, OTHER, DECISION), beside.decide(STUDY, OTHER, DECISION)
        )
        assert both[0] == both[1]
        assert await opened.held() == IDS, "nothing is erased by a decision"
        assert await opened.batches.find(STUDY, b"n" * 16) is None

    asyncio.run(course())


def test_a_batch_is_added_up_and_its_rows_go_in_one_transaction(make_store: Any) -> None:
    async def course() -> None:
        opened = await Opened(make_store(PROVIDER)).fill()
        await opened.batches.decide(STUDY, BATCH, DECISION)
        with refused("batch_lost"):  # decided, and not yet agreed upon
            await opened.batches.totals(STUDY, [BATCH])
        beside = Opened(make_store(PROVIDER)).batches
        done = await asyncio.gather(opened.batches.add(STUDY, BATCH), beside.add(STUDY, BATCH))
        assert sorted(done) == [False, True], "once, whoever asks"
        assert await opened.held() == IDS[3:]
        assert await opened.query("SELECT reason, count FROM refusals") == [("bad_bits", 1)]
        scopes = [row[0] for row in await opened.query("SELECT scope FROM data_keys")]
        assert f"block:{BATCH.hex()}" not in scopes, "the key of the rows goes with them"
        ((stored, total),) = await opened.batches.totals(STUDY, [BATCH])
        assert (stored.state, total) == ("added", TOTAL)
        ((kept,),) = await opened.query("SELECT total FROM moments_batches")
        assert pack(TOTAL) not in bytes(kept), "a total is encrypted in the store"
        with refused("batch_disagreed"):  # it was never decided
            await opened.batches.add(STUDY, OTHER)

    asyncio.run(course())


def test_nothing_is_added_where_the_rows_cannot_be_erased(
    make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def course() -> None:
        opened = await Opened(make_store(PROVIDER)).fill()
        await opened.batches.decide(STUDY, BATCH, DECISION)

        def fail(*_: Any) -> int:
            raise Refused(Reason.UNKNOWN_BLOCK, "no")

        monkeypatch.setattr(RowStore, "erase_block_in", fail)
        with refused("unknown_block"):
            await opened.batches.add(STUDY, BATCH)
        monkeypatch.undo()
        stored = await opened.batches.find(STUDY, BATCH)
        assert stored is not None
        assert stored.state == "decided"
        assert await opened.held() == IDS
        assert await opened.query("SELECT reason FROM refusals") == []

    asyncio.run(course())


def test_a_batch_others_decided_otherwise_about_is_void(make_store: Any) -> None:
    async def course() -> None:
        opened = await Opened(make_store(PROVIDER)).fill()
        await opened.batches.decide(STUDY, BATCH, DECISION)
        await opened.batches.disagree(STUDY, BATCH, "R2")
        assert await opened.held() == IDS[3:]
        assert await opened.query("SELECT state, total FROM moments_batches") == [("disagreed", None)]
        with refused("batch_disagreed"):
            await opened.batches.add(STUDY, BATCH)
        with refused("batch_lost"):
            await opened.batches.totals(STUDY, [BATCH])
        # One that is in the total stays there: every provider had signed it.
        await opened.batches.decide(STUDY, OTHER, DECISION)
        await opened.batches.add(STUDY, OTHER)
        await opened.batches.disagree(STUDY, OTHER, "R2")
        assert len(await opened.batches.totals(STUDY, [OTHER])) == 1

    asyncio.run(course())


def test_a_batch_is_in_one_release(make_store: Any) -> None:
    async def course() -> None:
        opened = await Opened(make_store(PROVIDER)).fill()
        batches = opened.batches
        for name in (BATCH, OTHER):
            await batches.decide(STUDY, name, DECISION)
            await batches.add(STUDY, name)
        assert await batches.head(STUDY) == LedgerHead(0, b"")
        await batches.release(STUDY, 1, [BATCH], LedgerHead(1, b"one"))
        await batches.release(STUDY, 1, [BATCH], LedgerHead(1, b"one"))
        with refused("batch_released"):
            await batches.release(STUDY, 2, [OTHER, BATCH], LedgerHead(2, b"two"))
        ((stored, _),) = await batches.totals(STUDY, [OTHER])
        assert stored.release_number is None, "all of a release, or none of it"
        assert await batches.head(STUDY) == LedgerHead(1, b"one")
        await batches.release(STUDY, 2, [OTHER], LedgerHead(2, b"two"))
        await batches.release(STUDY, 1, [BATCH], LedgerHead(1, b"one"))  # a repeat that was slow
        assert await batches.head(STUDY) == LedgerHead(2, b"two")

    asyncio.run(course())


def test_erasing_a_study_leaves_nothing_of_its_batches(make_store: Any) -> None:
    async def course() -> None:
        opened = await Opened(make_store(PROVIDER)).fill()
        await opened.batches.decide(STUDY, BATCH, DECISION)
        await opened.batches.add(STUDY, BATCH)
        await opened.batches.release(STUDY, 1, [BATCH], LedgerHead(1, b"one"))
        await opened.store.write(lambda tx: BatchStore.erase_study(tx, STUDY))
        assert await opened.query("SELECT batch_id FROM moments_batches") == []
        assert await opened.query("SELECT study_id FROM moments_heads") == []
        assert ("moments",) not in await opened.query("SELECT scope FROM data_keys")
        with refused("batch_lost"):
            await opened.batches.totals(STUDY, [BATCH])

    asyncio.run(course())
