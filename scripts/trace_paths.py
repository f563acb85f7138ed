"""Which files a row and a report pass: a whole study of each suite on one thread, with every call of the product noted.

`python scripts/trace_paths.py` prints, for each suite, how many functions in how many files ran between `Client.submit`
and the dataset a researcher holds, by room, and with `--files` the files in the order they were entered first.
Everything that ran in that time counts, what nodes do by the clock too; generated stubs and the bodies of modules and
classes, which run wherever a module happens to be imported first, do not.
`--json` is for scripts.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = ("client", "server", "theory", "sdk")
sys.path.insert(0, str(ROOT / "tests" / "support"))

from trimask_client import Client  # noqa: E402
from trimask_lab import NUMBERS, Lab, some_people  # noqa: E402
from trimask_moments import moments_people, open_moments  # noqa: E402
from trimask_server.local.cluster import ThreadCluster  # noqa: E402


class Trace:
    """Functions of the product in the order they were entered first, of every thread that starts after `install`."""

    def __init__(self) -> None:
        self.on = False
        self.functions: dict[tuple[str, str], None] = {}
        self._product: dict[str, str] = {}  # the file of a code object, below the root; "" if it is not ours

    def install(self) -> None:
        """Look at this thread and at all that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if (
            event != "call" or not self.on or not code.co_flags & inspect.CO_OPTIMIZED
        ):  # functions alone have the flag
            return
        if file := self._file(code.co_filename):
            self.functions.setdefault((file, code.co_qualname))

    def _file(self, name: str) -> str:
        if name not in self._product:
            path = Path(name)
            folder, *rest = path.relative_to(ROOT).parts if path.is_relative_to(ROOT) else ("", "")
            ours = folder in FOLDERS and rest[0] != "trimask_proto"
            self._product[name] = "/".join(rest) if ours else ""
        return self._product[name]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for file, _ in self.functions))


def row(lab: Lab, trace: Trace) -> None:
    """A block of the rows suite, from the first device to the dataset."""
    signed = lab.open_study(NUMBERS)
    trace.on = True
    with Client(signed) as client:
        for answers in some_people(48, seed=1):
            client.submit(answers)
    lab.close(signed.study)
    lab.datasets(signed.study)
    trace.on = False


def report(lab: Lab, trace: Trace) -> None:
    """A release of the moments suite, likewise."""
    signed = open_moments(lab, sigma=2.0)
    trace.on = True
    with Client(signed) as client:
        for answers in moments_people(40):
            client.submit(answers)
    lab.close(signed.study)
    lab.datasets(signed.study)
    trace.on = False


def traced(way: Callable[[Lab, Trace], None], right: int, left: int) -> Trace:
    """What ran in a study on a cluster of its own."""
    trace = Trace()
    trace.install()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), right, left)
        with ThreadCluster(lab.folder) as lab.cluster:
            way(lab, trace)
    sys.setprofile(None)
    threading.setprofile(None)
    return trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files too")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    found = {"row": traced(row, 3, 2), "report": traced(report, 2, 0)}
    if options.json:
        print(
            json.dumps(
                {name: [":".join(f) for f in trace.functions] for name, trace in found.items()}, indent=1
            )
        )
        return
    for name, trace in found.items():
        print(f"a {name}: {len(trace.functions)} functions in {len(trace.files)} files")
        for package, count in Counter("/".join(Path(file).parts[:2]) for file in trace.files).items():
            print(f"  {count:4} {package}")
        if options.files:
            print(*(f"  {file}" for file in trace.files), sep="\n")


if __name__ == "__main__":
    main()
