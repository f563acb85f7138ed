"""The audit log over both stores: several workers write one chain, and the database itself refuses to change it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from trimask_core.basics.clock import SystemClock
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SigningKey
from trimask_server.runtime.audit import AuditLog, verify_chain
from trimask_server.store.database import PROVIDER
from trimask_server.store.interface import StoreError

KEY = SigningKey.generate(DeterministicRandom("audit contract"))


def test_two_workers_write_one_chain_that_stays(make_store: Any) -> None:
    stores = [make_store(PROVIDER), make_store(PROVIDER)]
    logs = [
        AuditLog(store, KEY, SystemClock(), None, logging.getLogger("audit-contract")) for store in stores
    ]

    async def course() -> None:
        for log in logs:
            await log.load()
        await asyncio.gather(*(log.record("try_begun", number=n) for n in range(20) for log in logs))
        entries = await logs[0].read(0, 1000)
        report = verify_chain(entries, KEY.public, [await logs[1].head()])
        assert (report.whole, report.entries) == (True, 40)
        for sql in (
            "UPDATE audit SET kind = 'x' WHERE sequence = 3",
            "DELETE FROM audit WHERE sequence = 40",
        ):
            with pytest.raises(StoreError):
                await stores[0].write(lambda tx, sql=sql: tx.run(sql))
        assert await logs[1].read(0, 1000) == entries

    asyncio.run(course())
