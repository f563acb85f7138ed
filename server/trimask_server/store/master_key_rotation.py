"""A fresh master key for a store, whether its node runs or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimask_server.store.data_keys import Vault
from trimask_server.store.database import open_store
from trimask_server.store.master_keys import KeyRing

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeConfig, NodeRole

__all__ = ["Rotation", "rotate_storage_key"]


@dataclass(frozen=True)
class Rotation:
    """What was done."""

    key_id: str
    rewrapped: int
    destroyed: int


async def rotate_storage_key(
    config: NodeConfig, role: NodeRole, ring: KeyRing, *, destroy_retired: bool = False
) -> Rotation:
    """Add a master key, wrap every data key under it, and destroy the older master keys if that is wanted.

    A running node looks at the file before it wraps, inside the transaction that writes the wrapped key. The file is
    changed first, so every transaction after the one below wraps under the new key, and no data key is left behind.
    """
    store = open_store(config, role)
    try:
        fresh = ring.add()
        rewrapped = await store.write(Vault(ring).rewrap)
        destroyed = ring.destroy_retired() if destroy_retired else 0
        await store.scrub()
    finally:
        store.close()
    return Rotation(fresh.key_id, rewrapped, destroyed)
