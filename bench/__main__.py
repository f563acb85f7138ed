"""`python -m bench`: what the page shows, most of it processor time, in some six minutes; `--all`: every benchmark.

A table, and a JSON file with every number, for `--compare`.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from threadpoolctl import threadpool_limits

from bench import (
    blocks,
    device,
    idle,
    masking,
    moments,
    moments_live,
    peers,
    roles,
    submitting,
    theory,
    together,
)
from bench.report import compared, print_results, put_into
from bench.results import Result, Settings, write_json

__all__ = ["main"]

Suite = Callable[[Settings], Iterable[Result]]
SUITES: dict[str, Suite] = {
    "left": masking.left,
    "right": masking.right,
    "device": device.device,
    "submit": submitting.submit,
    "roles": roles.roles,
    "together": together.together,
    "idle": idle.idle,
    "idle-many": idle.idle_many,
    "peers": peers.peers,
    "block": blocks.block,
    "theory": theory.theory,
    "moments": moments.moments,
    "moments-live": moments_live.moments_live,
}


def _growth(settings: Settings, picture: Path) -> list[Result]:
    # matplotlib is slow to import; most runs of one suite do without.
    from bench.growth import growth
    from bench.growth_plot import draw

    found, results = growth(settings)
    draw(found, picture)
    return results


def _researcher(settings: Settings, picture: Path) -> list[Result]:
    from bench.researcher import researcher
    from bench.researcher_plot import draw

    points, results = researcher(settings)
    draw(points, picture)
    return results


_PICTURED: dict[str, Callable[[Settings, Path], list[Result]]] = {
    "growth": _growth,
    "researcher": _researcher,
}


_PAGE = ("left", "device", "roles", "idle", "peers")
"""What the page shows. Times by the wall are in the other suites, but for shares of a matrix product (left)."""


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    names = [*SUITES, *_PICTURED]
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer turns: a minute or so")
    parser.add_argument("--all", action="store_true", help="everything below too: a quarter of an hour")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--out", type=Path, default=Path("out/bench.json"), metavar="FILE", help="default %(default)s"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="growth's picture (default: beside --out)")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="put the table into this page, between its marks"
    )
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="OLD.json",
        help="what moved since that run; ends with status 1 if for the worse",
    )
    parser.add_argument("--check", action="store_true", help="end with status 1 if a requirement is missed")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for."""
    options = _options(arguments)
    settings = Settings(quick=options.quick)
    console = Console(width=150 if not sys.stdout.isatty() else None)
    chosen = options.only or ([*SUITES, *_PICTURED] if options.all else _PAGE)
    results: list[Result] = []
    start = time.perf_counter()
    with threadpool_limits(limits=1), console.status("") as status:
        for name, suite in SUITES.items():
            if name in chosen:
                status.update(f"measuring {name}")
                results.extend(suite(settings))
        for name, pictured in _PICTURED.items():
            if name in chosen:
                status.update(f"measuring {name}")
                plain = options.out.with_name(f"bench-{name}.png")
                picture = options.plot.with_stem(f"{options.plot.stem}-{name}") if options.plot else plain
                results.extend(pictured(settings, picture))
    print_results(results, console)
    if "peers" in chosen and not any(result.suite == "peers" for result in results):
        console.print("peers: node or their packages are not to be had; their table stays as it is")
    write_json(options.out, results, settings, time.perf_counter() - start)
    if options.page:
        put_into(options.page, results, _run_in_words(time.perf_counter() - start))
    console.print(f"written to {options.out}")
    if options.compare and compared(options.compare, results, console, quick=options.quick):
        return 1
    return 1 if options.check and any(result.met is False for result in results) else 0


def _run_in_words(seconds: float) -> str:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    busy = ", more than its own: what is timed by the wall says little" if load > 4 * cores else ""
    python = platform.python_version()
    return f"One run of {seconds:.0f} seconds: {cores} cores, Python {python}, load average {load:.1f}{busy}."


if __name__ == "__main__":
    raise SystemExit(main())
