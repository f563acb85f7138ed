"""The moments suite's device beside other protocols' clients, in one run: processor time and bytes.

Equal bits (20 numbers of 10), equal aggregators (two; SecAgg+ has one server by its nature), nothing sealed. In one
JavaScript engine: @divviup/prio3 of npm, which shards the sums alone, and then the sums with the 210 squares and products
that a regression needs; it proves their range and not that they are products, for which Prio3 has no circuit. Ours does.
In one Python: Flower's functions for SecAgg+ on a vector of as many values (`bench.peers_flower`). What cannot be had from
the package index is left out.

`python -m bench --only peers --page docs/performance.md` writes the table there, as a whole run does.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.other_protocols import prio3_moments_bytes
from bench.results import Result, Settings
from trimask_core.study.schema import Attribute, Schema

__all__ = ["peers", "peers_table"]

_ROOT = Path(__file__).resolve().parents[1]
_FOLDER = _ROOT / "out" / "peers"
_PRIO3, _FLOWER = ("@divviup/prio3", "0.8.0"), ("flwr", "1.42.0")
_COLUMNS, _BITS, _NEIGHBOURS, _AGGREGATORS = 20, 10, 100, 2
_PRODUCTS = _COLUMNS * (_COLUMNS + 1) // 2
_OURS, _SECAGG = "ours", f"SecAgg+ of sums and products, {_NEIGHBOURS} neighbours, in four rounds"
_SUMS, _BOTH = (
    "Prio3SumVec of the sums alone",
    "Prio3SumVec of sums and products, not proved to be products",
)
_Found = dict[str, dict[str, float]]


def peers(_settings: Settings) -> Iterator[Result]:
    """Ours beside each; the scripts take the best of several turns themselves."""
    for where, package, found in (
        ("in node", _PRIO3, _in_javascript()),
        ("in Python", _FLOWER, _in_python()),
    ):
        ours = found.pop(_OURS, {})
        for name, theirs in found.items():
            for kind, unit in (("ms", "ms CPU"), ("bytes", "bytes")):
                line = f"{where}: {name} ({' '.join(package)})"
                yield Result(
                    "peers", f"a report of {_COLUMNS} numbers of {_BITS} bits and their products: {unit}, beside {name}",
                    "budget", ours[kind], theirs[kind], unit, f"{name}, {package[0]}", ours[kind] / theirs[kind],
                    detail={"ours": f"{where}: `moments`, products proved", "line": line, "kind": kind},
                )  # fmt: skip


def _person() -> tuple[str, str]:
    """A study's schema, and answers to it."""
    schema = Schema(tuple(Attribute(f"a{i}", "continuous", 0.0, 100.0) for i in range(_COLUMNS)))
    return json.dumps(schema.to_dict()), json.dumps({f"a{i}": 4.7 * i + 0.3 for i in range(_COLUMNS)})


def _had(command: list[str], there: Path) -> bool:
    """Whether a package is there, or can be had from its index."""
    if not there.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    return True


def _in_javascript() -> _Found:
    npm, node = shutil.which("npm"), shutil.which("node")
    library = _FOLDER / "node_modules" / _PRIO3[0]
    install = [
        str(npm),
        "install",
        "--silent",
        "--ignore-scripts",
        "--prefix",
        str(_FOLDER),
        "@".join(_PRIO3),
    ]
    if npm is None or node is None or not _had(install, library):
        return {}
    device = _ROOT / "client" / "web" / "device"
    script = Path(__file__).with_suffix(".mjs")
    found = _run([node, str(script), str(device), str(library), *_person(), str(_BITS)])
    return {_OURS: found["moments"], _BOTH: found["products"], _SUMS: found["sums"]}


def _in_python() -> _Found:
    folder = _FOLDER / "flower"
    wanted = ["==".join(_FLOWER), "pycryptodome"]
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        *wanted,
    ]
    if not _had(install, folder / "flwr"):
        return {}
    script = Path(__file__).with_name("peers_flower.py")
    found = _run([sys.executable, str(script), str(folder), *_person(), str(2 * _BITS), str(_NEIGHBOURS)])
    return {_OURS: found["moments"], _SECAGG: found["secagg"]}


def _run(command: list[str]) -> _Found:
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=_ROOT)
    found: _Found = json.loads(done.stdout)
    return found


def peers_table(results: list[Result]) -> str:
    """Every client with its processor time and bytes; nothing if no peer was to be had."""
    found: dict[str, dict[str, float]] = {}
    for result in results:
        if result.suite == "peers":
            for line, value in ((result.detail["ours"], result.value), (result.detail["line"], result.limit)):
                found.setdefault(line, {})[result.detail["kind"]] = value
    if not found:
        return ""
    lines = ["| a client, for the same 20 numbers | CPU | bytes |", "|---|---:|---:|"]
    lines += [f"| {line} | {one['ms']:.3g} ms | {one['bytes']:,.0f} |" for line, one in found.items()]
    for field64, field in ((False, "128"), (True, "64")):
        size = prio3_moments_bytes(_COLUMNS, _BITS, _AGGREGATORS, field64=field64)
        name = f"hypothetical: Prio3 with a circuit for products, which no draft has; {field}-bit field"
        lines.append(f"| {name} | | {size:,} |")
    return "\n".join(lines)
