"""`trimask node rotate-sealing-key`: a new key for devices to seal to, with an overlap for those that hold the old one."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from trimask_terminal.options import Subparsers

__all__ = ["parse_span", "register"]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def register(commands: Subparsers) -> None:
    """Add what is about keys to the commands of `trimask node`."""
    rotate = commands.add_parser(
        "rotate-sealing-key",
        help="make a right provider's next sealing key",
        description="Make a new sealing key. It is pending at first, so that every process of the node has it before a "
        "device does, then devices that ask seal to it; the old one is still accepted for --overlap after that. "
        "A device that stays offline longer loses what it sealed, so let the overlap exceed that.",
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
    rotate.set_defaults(run=run_rotate)


def parse_span(text: str) -> int:
    """Milliseconds from "30d", "12h", "10m" or "45s"."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError("give a number and a unit, such as 30d, 12h, 10m or 45s")
    return int(match[1]) * _UNITS[match[2]] * 1000


def run_rotate(args: argparse.Namespace) -> int:
    """Write the ring and the node's card; a running node reloads both by itself."""
    import json
    from dataclasses import replace
    from datetime import UTC, datetime

    from trimask_core.clock import SystemClock
    from trimask_core.party_files import load_party
    from trimask_server.right.sealing_keys import load_ring, rotate, save_ring
    from trimask_server.settings.config import load_config

    folder = load_config(args.config, "right").keys
    now = SystemClock().now_ms()
    ring = rotate(load_ring(folder), now, args.pending, args.overlap)
    save_ring(folder, ring)
    newest = ring.keys[0]
    card = folder / "node.json"
    if card.exists():  # studies made from now on pin the new key
        fresh = card.with_suffix(".json.new")
        party = replace(load_party(card), sealing=newest.key.public)
        fresh.write_text(json.dumps(party.to_dict(), indent=1) + "\n", encoding="utf-8")
        fresh.replace(card)

    def day(milliseconds: int) -> str:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"

    print(f"New key {newest.key.public.hex()[:16]}, in use from {day(newest.activate_ms)}.")
    for item in ring.keys[1:]:
        print(f"Old key {item.key.public.hex()[:16]} is taken until {day(item.expire_ms or 0)}.")
    print("A running node reloads this by itself (at once on SIGHUP). Back the key folder up again.")
    return 0
