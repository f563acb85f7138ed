"""`trimask node backup|restore|rotate-storage-key|rotate-sealing-key`: a node's store, and keys that are replaced.

A new sealing key overlaps with the old one, for devices that hold that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from datetime import UTC, datetime

from trimask_core.basics.clock import SystemClock
from trimask_server.local.keys import own_card
from trimask_server.right.sealing_keys import load_ring, rotate, save_ring
from trimask_server.settings.config import load_config, load_own_config
from trimask_server.store.backup import Kept, back_up, restore
from trimask_server.store.data_keys import KeyRing, Vault
from trimask_server.store.database import open_store


def run_backup(args: argparse.Namespace) -> int:
    """Back the store up."""
    size = back_up(*load_own_config(args.config), args.out)
    print(f"{args.out}: {size:,} bytes, without keys. Keep the node's folder of keys too, apart from it.")
    return 0


def run_restore(args: argparse.Namespace) -> int:
    """Restore a backup."""
    config, role = load_own_config(args.config)
    restore(config, role, args.file, force=args.force, kept=Kept(args.keep_factors, args.ledger_kept))
    print(f"The store of {config.name} is that of {args.file}, as a new generation; the node can be started.")
    if role == "collector" and not args.keep_factors:
        print(
            "What was pooled and not yet published at the time of the backup is discarded (see --keep-factors)."
        )
    if role == "right" and not args.ledger_kept:
        print(
            "Studies of the moments suite in it deliver nothing more. If the folder `moments` beside the keys is the one "
            "the node last ran with, restore the same backup again, now, with --ledger-kept."
        )
    return 0


def run_rotate(args: argparse.Namespace) -> int:
    """Add a master key, wrap every data key under it, and destroy the older master keys if that is wanted."""
    config, role = load_own_config(args.config)
    ring = KeyRing.open(config.keys, config.storage_key_command)
    # A running node looks at the file before it wraps, inside the transaction that writes the wrapped key. The file is
    # changed first, so every transaction after the one below wraps under the new key, and no data key is left behind.
    store = open_store(config, role)

    async def wrap() -> tuple[int, int]:
        rewrapped = await store.write(Vault(ring).rewrap)
        destroyed = ring.destroy_retired() if args.destroy_retired else 0
        await store.scrub()
        return rewrapped, destroyed

    try:
        fresh = ring.add()
        rewrapped, destroyed = asyncio.run(wrap())
    finally:
        store.close()
    print(f"Wrapped under the fresh master key {fresh.key_id}: {rewrapped} data keys.")
    if args.destroy_retired:
        print(f"Older master keys destroyed: {destroyed}.")
    return 0


def run_rotate_sealing_key(args: argparse.Namespace) -> int:
    """Write the ring and the node's card; a running node reloads both by itself."""
    folder = load_config(args.config, "right").keys
    now = SystemClock().now_ms()
    ring = rotate(load_ring(folder), now, args.pending, args.overlap)
    save_ring(folder, ring)
    begin = ring.keys[0].activate_ms
    card = folder / "node.json"
    if card.exists():  # studies made from now on pin the new keys
        fresh = card.with_suffix(".json.new")
        fresh.write_text(json.dumps(own_card(folder).to_dict(), indent=1) + "\n", encoding="utf-8")
        fresh.replace(card)

    def day(milliseconds: int) -> str:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"

    for item in ring.keys:
        name = f"key {item.key.public.hex()[:16]} ({item.key.kind})"
        if item.expire_ms is None:
            print(f"New {name}, in use from {day(begin)}.")
        else:
            print(f"Old {name} is taken until {day(item.expire_ms)}.")
    print("A running node reloads this by itself (at once on SIGHUP). Back the key folder up again.")
    return 0
