"""What several workers of one node see of each other through their store."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

from trimask_core.basics.randomness import SystemRandom
from trimask_patience import patience
from trimask_server.runtime.metrics import Drain, Refusals
from trimask_server.store.database import PROVIDER
from trimask_server.store.interface import Transaction
from trimask_server.store.postgres import PostgresStore


class _Clock:
    """A second is a moment; knows how often its worker looked at what the others do."""

    def __init__(self) -> None:
        self.looks = 0
        self.passed_ms = 0

    def now_ms(self) -> int:
        return 1_000_000 + self.passed_ms

    async def sleep(self, seconds: float) -> None:
        self.looks += 1
        self.passed_ms += round(seconds * 1000)
        await asyncio.sleep(seconds / 50)


class _Audit:
    """What is drained is in the audit log elsewhere (`test_audit_log`)."""

    async def record(self, kind: str) -> None:
        assert kind in ("drain_begun", "drain_ended")


def worker(store: Any, *, address: str = "one", clock: _Clock | None = None) -> Drain:
    """As much of a node as draining is about."""
    made: Any = (store, _Audit(), clock or _Clock(), SystemRandom(), logging.getLogger("test"))
    return Drain(*made, address=address)


async def until(ready: Any) -> None:
    async with asyncio.timeout(patience(10)):
        while not ready():  # noqa: ASYNC110 - what is waited for is not ours to signal
            await asyncio.sleep(0.005)


def test_all_workers_drain_and_take_work_again_together(make_store: Any) -> None:
    async def course() -> None:
        clocks = [_Clock() for _ in range(3)]
        first, second = (worker(make_store(PROVIDER), clock=clock) for clock in clocks[:2])
        following = [asyncio.create_task(node.follow_others()) for node in (first, second)]
        await until(lambda: clocks[0].looks and clocks[1].looks)
        await first.tell_all(resume=False)
        await until(lambda: first.on and second.on)
        # One that starts now takes work: a drain ends with the process, and this one was not asked.
        third = worker(make_store(PROVIDER), clock=clocks[2])
        following.append(asyncio.create_task(third.follow_others()))
        await until(lambda: clocks[2].looks > 1)
        assert not third.on
        await second.tell_all(resume=True)
        await until(lambda: not (first.on or second.on or third.on))
        await third.tell_all(resume=False)
        await until(lambda: first.on and second.on and third.on)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    asyncio.run(course())


def test_workers_know_which_of_them_are_up(make_store: Any) -> None:
    async def course() -> None:
        clocks = [_Clock() for _ in range(3)]
        workers = [
            worker(make_store(PROVIDER), address=f"w{i}", clock=clock) for i, clock in enumerate(clocks)
        ]
        following = [asyncio.create_task(one.follow_others()) for one in workers]

        async def found(*addresses: str) -> None:
            async with asyncio.timeout(patience(10)):
                while await workers[0].workers_up() != list(addresses):  # noqa: ASYNC110 - as `until`
                    await asyncio.sleep(0.005)

        await found("w0", "w1", "w2")
        await workers[1].begin()  # takes no new work
        await found("w0", "w2")
        following[2].cancel()  # it was killed, and what it said gets old
        await found("w0")
        await workers[1].end()
        await found("w0", "w1")
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    asyncio.run(course())


def test_a_node_of_one_process_writes_nothing_about_it(make_store: Any) -> None:
    async def course() -> None:
        store = make_store(PROVIDER)
        alone = worker(store, address="")
        await alone.tell_all(resume=False)
        assert alone.on
        assert (
            await store.read(lambda tx: tx.row("SELECT 1 FROM store_facts WHERE name = 'draining'")) is None
        )

    asyncio.run(course())


def test_refusals_are_the_nodes_and_each_process_knows_its_own(make_store: Any) -> None:
    async def course() -> None:
        stores = [make_store(PROVIDER) for _ in range(2)]
        first, second = [await Refusals.load(store) for store in stores]
        for _ in range(3):
            first.count("malformed")
        second.count("malformed")
        second.count("overloaded")
        await asyncio.gather(first.save(stores[0]), second.save(stores[1]), first.save(stores[0]))
        first.count("draining")  # not saved yet, and shown all the same
        await first.refresh(stores[0])
        await second.refresh(stores[1])
        assert first.as_dict() == {"draining": 1, "malformed": 4, "overloaded": 1}
        assert second.as_dict() == {"malformed": 4, "overloaded": 1}
        assert first.in_this_process() == {"draining": 1, "malformed": 3}
        assert second.in_this_process() == {"malformed": 1, "overloaded": 1}

    asyncio.run(course())


def test_workers_append_beside_each_other_and_a_settled_read_waits_for_them(postgres_url: str) -> None:
    """A worker is in the middle of appending row 1. Another appends row 2 and is done; whoever reads on from the last row
    seen, and whoever writes alone, is told of 2 with 1 or not at all."""
    tables = ["CREATE TABLE t (sequence INTEGER PRIMARY KEY AUTOINCREMENT, x INTEGER)"]
    stores = [PostgresStore(postgres_url, "trimask_r1", tables) for _ in range(2)]
    appended, go_on = threading.Event(), threading.Event()

    def append(tx: Transaction) -> None:
        tx.run("INSERT INTO t (x) VALUES (?)", (1,))
        appended.set()
        assert go_on.wait(patience(60))

    def append_two(tx: Transaction) -> None:
        tx.run("INSERT INTO t (x) VALUES (?)", (2,))

    def listed(tx: Transaction) -> list[int]:
        return [row[0] for row in tx.rows("SELECT x FROM t ORDER BY sequence")]

    def waiting(tx: Transaction) -> int:
        row = tx.row("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return 0 if row is None else int(row[0])

    async def course() -> None:
        async with asyncio.timeout(patience(60)):
            first = asyncio.create_task(stores[0].write(append, lock="append"))
            await asyncio.to_thread(appended.wait)
            await stores[1].write(append_two, lock="append")
            assert await stores[1].read(listed) == [2]
            settled = asyncio.create_task(stores[1].read(listed, settled=True))
            alone = asyncio.create_task(stores[1].write(listed))
            while await stores[1].read(waiting) < 2:  # noqa: ASYNC110 - as `until`
                await asyncio.sleep(0.005)
            go_on.set()
            await first
            assert await settled == [1, 2]
            assert await alone == [1, 2]

    try:
        asyncio.run(course())
    finally:
        go_on.set()
        for store in stores:
            store.close()
