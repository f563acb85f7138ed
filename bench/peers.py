"""The moments suite's device beside Prio3's client, in one JavaScript engine and one run: processor time and bytes.

Equal bits (20 numbers of 10), equal aggregators (two), neither sealed. Prio3's client is @divviup/prio3 of the package
index, which shards the sums alone, and then the sums with the 210 squares and products that a regression needs. It proves
their range and not that they are products, for which Prio3 has no circuit; ours proves it. Left out where there is no npm.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.results import Result, Settings
from trimask_core.study.schema import Attribute, Schema

__all__ = ["peers"]

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGE, _VERSION = "@divviup/prio3", "0.8.0"
_COLUMNS, _BITS = 20, 10


def peers(_settings: Settings) -> Iterator[Result]:
    """One turn of each; the script takes the best of several itself."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return
    folder = _ROOT / "out" / "peers"
    library = folder / "node_modules" / _PACKAGE
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"{_PACKAGE}@{_VERSION}"
        command = [npm, "install", "--silent", "--ignore-scripts", "--prefix", str(folder), wanted]
        if subprocess.run(command, check=False).returncode:
            return  # no network: the package cannot be had
    schema = Schema(tuple(Attribute(f"a{i}", "continuous", 0.0, 100.0) for i in range(_COLUMNS)))
    answers = {f"a{i}": 4.7 * i + 0.3 for i in range(_COLUMNS)}
    done = subprocess.run(
        [node, str(Path(__file__).with_suffix(".mjs")), str(_ROOT / "client" / "web" / "device"), str(library),
         json.dumps(schema.to_dict()), json.dumps(answers), str(_BITS)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    ours = found.pop("moments")
    products = _COLUMNS * (_COLUMNS + 1) // 2
    words = {
        "sums": f"Prio3SumVec of the {_COLUMNS} sums alone",
        "products": f"Prio3SumVec of the sums and {products} products, not proved to be products",
    }
    for name, theirs in found.items():
        for kind, unit in (("ms", "ms CPU"), ("bytes", "bytes")):
            yield Result(
                "peers", f"a report of {_COLUMNS} numbers of {_BITS} bits and their products: {unit}, beside {name}",
                "budget", ours[kind], theirs[kind], unit, words[name], ours[kind] / theirs[kind],
                detail={"version": f"{_PACKAGE} {_VERSION}"},
            )  # fmt: skip
