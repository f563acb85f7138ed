"""The study's file and the owner's folder of keys, as options of commands that the owner runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from trimask_core.errors import ConfigError
from trimask_terminal.options import add_json

__all__ = ["add_owner_options", "owner_folder"]


def add_owner_options(parser: argparse.ArgumentParser) -> None:
    """STUDY.json, --owner and --json."""
    parser.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    parser.add_argument("--owner", type=Path, metavar="DIR", help="the owner's folder of keys")
    add_json(parser)


def owner_folder(args: argparse.Namespace) -> Path:
    """The folder that --owner gives; an error without it."""
    if args.owner is None:
        raise ConfigError("give --owner DIR, the owner's folder of keys")
    found: Path = args.owner
    return found
