"""`trimask node backup|restore|rotate-storage-key|rotate-sealing-key`: a node's store, and keys that are replaced.

A new sealing key overlaps with the old one, for devices that hold that.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_terminal.options import Subparsers

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeConfig, NodeRole


def register(subparsers: Subparsers) -> None:
    """Add the commands to those of `trimask node`."""
    backup = subparsers.add_parser(
        "backup",
        help="write the node's store to a file, while it runs",
        description="Write one state of the node's store to a file, while the node runs. The file has no keys in it: keep "
        "the folder of keys too, apart from it.",
    )
    _config(backup)
    backup.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="a file that does not exist yet"
    )
    backup.set_defaults(run=run_backup)

    restore = subparsers.add_parser(
        "restore",
        help="replace the store of a stopped node by a backup's",
        description="Replace the store of a stopped node by a backup's. When it runs again the collector tells a right "
        "provider of every block since, so that no row is used twice; rows that came in after the backup are lost.",
    )
    _config(restore)
    restore.add_argument("--from", type=Path, required=True, metavar="FILE", dest="file", help="the backup")
    restore.add_argument("--force", action="store_true", help="replace a store that is not empty")
    restore.add_argument(
        "--keep-factors",
        action="store_true",
        help="collector: keep what was pooled and not published in the backup. Only if nothing was published or "
        "answered since it was made; otherwise the same rows are published twice",
    )
    restore.add_argument(
        "--ledger-kept",
        action="store_true",
        help="right provider: the folder `moments` beside its keys is the one the node last ran with, not a copy. Without "
        "it nothing more is delivered of the moments studies in the backup: the same reports could get fresh noise",
    )
    restore.set_defaults(run=run_restore)

    rotate = subparsers.add_parser(
        "rotate-storage-key",
        help="wrap the store's data keys under a fresh master key",
        description="Add a master key to storage.keys and wrap every data key of the store under it; the node may run. "
        "Older master keys are kept, for backups made before, until --destroy-retired.",
    )
    _config(rotate)
    rotate.add_argument(
        "--destroy-retired",
        action="store_true",
        help="then destroy the older master keys: backups and database logs from before cannot be read ever again",
    )
    rotate.set_defaults(run=run_rotate)


def _config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's node.toml")


def _load(path: Path) -> tuple[NodeConfig, NodeRole]:
    """A node's configuration; its role is that of its name, collector, R1.. or L1.."""
    from trimask_server.local.cluster import role_of
    from trimask_server.settings.config import load_config

    name = load_config(path).name
    return load_config(path, role_of(name)), role_of(name)


def run_backup(args: argparse.Namespace) -> int:
    """Back the store up."""
    from trimask_server.store.backup import back_up

    size = back_up(*_load(args.config), args.out)
    print(f"{args.out}: {size:,} bytes, without keys. Keep the node's folder of keys too, apart from it.")
    return 0


def run_restore(args: argparse.Namespace) -> int:
    """Restore a backup."""
    from trimask_server.store.after_restore import Kept
    from trimask_server.store.backup import restore

    config, role = _load(args.config)
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
    """Rotate the master key."""
    import asyncio

    from trimask_server.store.data_keys import KeyRing, rotate_storage_key

    config, role = _load(args.config)
    ring = KeyRing.open(config.keys, config.storage_key_command)
    done = asyncio.run(rotate_storage_key(config, role, ring, destroy_retired=args.destroy_retired))
    print(f"Wrapped under the fresh master key {done.key_id}: {done.rewrapped} data keys.")
    if args.destroy_retired:
        print(f"Older master keys destroyed: {done.destroyed}.")
    return 0


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def register_sealing_key(commands: Subparsers) -> None:
    """Add what is about keys to the commands of `trimask node`."""
    rotate = commands.add_parser(
        "rotate-sealing-key",
        help="make a right provider's next sealing keys",
        description="Make a new sealing key of each kind, hybrid and classical. They are pending at first, so that every "
        "process of the node has them before a device does, then devices that ask seal to them; the old ones are still "
        "accepted for --overlap after that. A device that stays offline longer loses what it sealed, so let the overlap "
        "exceed that.",
    )
    rotate.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's node.toml")
    rotate.add_argument(
        "--overlap",
        type=parse_span,
        default="30d",
        metavar="TIME",
        help="how long the old key stays valid (30d)",
    )
    rotate.add_argument(
        "--pending", type=parse_span, default="10m", metavar="TIME", help="until the new key is used (10m)"
    )
    rotate.set_defaults(run=run_rotate_sealing_key)


def parse_span(text: str) -> int:
    """Milliseconds from "30d", "12h", "10m" or "45s"."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError("give a number and a unit, such as 30d, 12h, 10m or 45s")
    return int(match[1]) * _UNITS[match[2]] * 1000


def run_rotate_sealing_key(args: argparse.Namespace) -> int:
    """Write the ring and the node's card; a running node reloads both by itself."""
    import json
    from datetime import UTC, datetime

    from trimask_core.basics.clock import SystemClock
    from trimask_server.local.keys import own_card
    from trimask_server.right.sealing_keys import load_ring, rotate, save_ring
    from trimask_server.settings.config import load_config

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
