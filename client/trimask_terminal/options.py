"""Types and options that several commands share."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
from pathlib import Path
from typing import Any, TypeAlias

from trimask_core.basics.errors import ConfigError

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json, the same everywhere."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def print_json(data: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    print(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False))


def confirmed(question: str) -> bool:
    """Whether a person at the terminal says yes; who says nothing says no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def at_least_one(text: str) -> int:
    """A whole number from 1 on; for argparse's `type`."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def output_file(text: str) -> Path | None:
    """A file to write, or - for standard output (None); for argparse's `type`."""
    return None if text == "-" else Path(text)


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet: what somebody edited is not overwritten."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already; give another --out") from None


_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def duration_ms(text: str) -> int:
    """A span such as 45m, 12h, 30d or 8w, in milliseconds; for argparse's `type`."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})([mhdw])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time; write 45m, 12h, 30d or 8w")
    return int(match[1]) * _UNITS[match[2]]


def seconds(text: str) -> float:
    """How long to wait, in seconds; for argparse's `type`."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 86_400:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds above 0, up to a day; write 15"
        )
    return found


def moment_ms(text: str) -> int:
    """A day and time to come, UTC unless it says otherwise, in milliseconds since 1970; for argparse's `type`."""
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 2027-01-31T08:00") from None
    moment = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment
    if moment <= dt.datetime.now(dt.UTC):
        raise argparse.ArgumentTypeError(f"{text!r} has passed")
    return int(moment.timestamp() * 1000)


def shown_time(time_ms: int) -> str:
    """A moment, in UTC."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
