"""`trimask node`: what the operator of a node does."""

from __future__ import annotations

from trimask_cli.commands import node_store
from trimask_cli.options import Subparsers

__all__ = ["register"]


def register(subparsers: Subparsers) -> None:
    """Add the command and its own commands."""
    parser = subparsers.add_parser(
        "node", help="operate a node: backups, storage keys", description="For the operator of a node."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    node_store.register(commands)
