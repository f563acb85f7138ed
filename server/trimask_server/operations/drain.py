"""Draining: a node that is about to stop accepts no new work. Telling one worker of the node tells all of them.

A device whose submission was acknowledged has it on disk, for acknowledging comes after the commit; what is refused while
draining is sent again by the device.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from trimask_core.clock import Clock
from trimask_core.errors import TrimaskError
from trimask_core.randomness import RandomSource
from trimask_server.audit.log import AuditLog
from trimask_server.store.interface import Store, StoreError, Transaction

__all__ = ["Drain"]

_LOOK_SECONDS = 1.0
_FACT = "draining"


@dataclass
class Drain:
    """Whether this process drains. `shared`: the node has other workers on the same store. Ends with the process."""

    database: Store
    audit: AuditLog
    clock: Clock
    source: RandomSource
    log: logging.Logger
    shared: bool = False
    on: bool = field(default=False, init=False)

    async def begin(self) -> None:
        """Take no new submissions and no new attempts, and finish what runs."""
        if not self.on:
            self.on = True
            await self.audit.record("drain_begun")
            self.log.info("draining: takes no new work")

    async def end(self) -> None:
        """Take new work again."""
        if self.on:
            self.on = False
            await self.audit.record("drain_ended")
            self.log.info("takes new work again")

    async def tell_all(self, *, resume: bool) -> None:
        """Drain every worker of the node, or have all accept work again; when this returns they do.

        Draining ends with the process: a worker that starts afterwards accepts work.
        """
        await (self.end() if resume else self.begin())
        if not self.shared:
            return
        # A fresh value each time, so that each worker sees that it changed.
        word = b"" if resume else self.source.read(16)
        await self.database.write(lambda tx: _write(tx, word))
        await self.clock.sleep(2 * _LOOK_SECONDS)

    async def follow_others(self) -> None:
        """Follow another worker of the node that was told to drain, or to stop draining."""
        seen = await self.database.read(_read)  # written before this process started: not meant for it
        while True:
            await self.clock.sleep(_LOOK_SECONDS)
            try:
                word = await self.database.read(_read)
            except (TrimaskError, StoreError) as error:
                self.log.warning("cannot see yet whether this node drains: %s", error)
                continue
            if word != seen:
                seen, self.on = word, bool(word)
                self.log.info("draining, as another worker was told" if word else "takes new work again")


def _write(tx: Transaction, word: bytes) -> None:
    tx.run(
        "INSERT INTO store_facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (_FACT, word),
    )


def _read(tx: Transaction) -> bytes:
    found = tx.row("SELECT value FROM store_facts WHERE name = ?", (_FACT,))
    return b"" if found is None else bytes(found[0])
