"""The folder of a device that takes part from a shell, and what in it a person means by the first digits of an id."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

from trimask_client.queue import Queue
from trimask_client.record_store import device_key
from trimask_core.errors import ConfigError
from trimask_core.institutions import load_directories
from trimask_terminal.exits import NothingThere

__all__ = ["directories_folder", "one_of", "with_queue"]


def _home(args: argparse.Namespace) -> Path:
    return Path(args.home or os.environ.get("TRIMASK_HOME") or Path.home() / ".trimask")


def directories_folder(args: argparse.Namespace) -> Path:
    """Where the directories are by which this device knows institutions."""
    return _home(args) / "institutions"


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[Queue]:
    home = _home(args)
    queue = Queue(
        home,
        device_key(home / "device.key"),
        timeout_seconds=args.timeout,
        institutions=load_directories(directories_folder(args)),
        refuse_unknown=getattr(args, "known_only", False),
    )
    try:
        yield queue
    finally:
        queue.close()


def with_queue(command: Callable[[argparse.Namespace, Queue], int]) -> Callable[[argparse.Namespace], int]:
    """A command that is given the device's queue, as the program runs it."""

    @wraps(command)
    def run(args: argparse.Namespace) -> int:
        try:
            with _opened(args) as queue:
                return command(args, queue)
        except KeyboardInterrupt:
            print(
                "trimask-client: interrupted; what was sealed is kept, and `send` goes on with it",
                file=sys.stderr,
            )
            raise

    return run


def one_of(ids: Sequence[bytes], digits: str, what: str) -> bytes:
    """The one id that begins with these digits."""
    found = [item for item in ids if item.hex().startswith(digits.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NothingThere(f"this device has no {what}{f' that begins {digits}' if digits else ''}")
    raise ConfigError(f"{len(found)} of this device's {what} ids fit; give more digits")
