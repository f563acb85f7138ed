"""`trimask collector|right|left`: the three node programs."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path

from trimask_core.basics.errors import ConfigError
from trimask_terminal.options import Subparsers

_ROLES = {
    "collector": "run the collector: plans blocks, pools and publishes",
    "right": "run a right provider: receives one component of every row",
    "left": "run a left provider: rotates what passes through, stores nothing of it",
}


def register(subparsers: Subparsers) -> None:
    """Add the three commands."""
    for role, what in _ROLES.items():
        parser = subparsers.add_parser(role, help=what, description=what.capitalize() + ".")
        parser.add_argument(
            "--config",
            type=Path,
            required=True,
            metavar="FILE",
            help="node.toml, as `trimask keys` writes it",
        )
        parser.add_argument(
            "--worker-listen",
            default="",
            metavar="HOST:PORT",
            help="this process's own peer address, where several processes run one node on PostgreSQL",
        )
        parser.add_argument(
            "--worker-address",
            default="",
            metavar="HOST:PORT",
            help="the address under which peers reach --worker-listen, if it differs",
        )
        parser.add_argument(
            "--http-listen",
            default="",
            metavar="HOST:PORT",
            help="used instead of http_listen in node.toml, so that each of several processes has its own metrics",
        )
        parser.set_defaults(run=run, role=role)


def run(args: argparse.Namespace) -> int:
    """Run the node until a signal stops it."""
    # A node may start a program (`storage_key_command`); gRPC's handlers around a fork are for those that go on with gRPC
    # in the child.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    # gRPC would write a line of its own, outside our log, for every stranger whose handshake fails.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if args.role == "collector" and find_spec("pyarrow") is None:
        raise ConfigError(
            "a collector publishes Parquet files, and pyarrow is not installed: pip install 'trimask-server[collector]'"
        )
    from trimask_server.programs.roles import run_node

    own = {
        name: value
        for name in ("worker_listen", "worker_address", "http_listen")
        if (value := getattr(args, name))
    }
    return run_node(args.role, args.config, own)
