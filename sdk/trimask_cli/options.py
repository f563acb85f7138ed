"""Types and options that several commands share."""

from __future__ import annotations

import argparse
import json
from typing import Any, TypeAlias

__all__ = ["Subparsers", "add_json", "print_json"]

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json, the same everywhere."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def print_json(data: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    print(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False))
