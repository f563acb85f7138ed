"""`trimask demo`: a complete study with real nodes, on one machine."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from trimask_core.basics.errors import ConfigError
from trimask_terminal.options import Subparsers, add_json, at_least_one


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "demo",
        help="run a whole study on this machine: nodes, participants, release, fit",
        description="Start a collector, right and left providers as processes of their own with TLS, collect a study "
        "from simulated participants through the real client, publish it, pull it, and fit the model.",
    )
    parser.add_argument("--participants", type=at_least_one, metavar="N", help="how many (default 2048)")
    parser.add_argument(
        "--suite",
        choices=("rows", "moments"),
        help="one way of collecting (default: the study's; of the bundled one both, side by side)",
    )
    parser.add_argument(
        "--right", type=int, metavar="K1", help="right providers (default 4, in the moments suite 2)"
    )
    parser.add_argument(
        "--left", type=int, metavar="K2", help="left providers (default 2; the moments suite has none)"
    )
    parser.add_argument(
        "--block-size",
        type=at_least_one,
        metavar="n",
        help="rows masked together, in the rows suite (default: the study's)",
    )
    parser.add_argument(
        "--release-size",
        type=at_least_one,
        metavar="N",
        help="least rows of a release (default: all of them)",
    )
    parser.add_argument("--epsilon", type=float, help="privacy of a release (default: the study's)")
    parser.add_argument("--delta", type=float, help="its failure probability (default: the study's)")
    parser.add_argument(
        "--exact",
        action="store_true",
        help="no noise: nobody's row is seen, but without differential privacy",
    )
    parser.add_argument(
        "--study", type=Path, metavar="FILE.toml", help="your own study definition, with --rows"
    )
    parser.add_argument(
        "--rows", type=Path, metavar="FILE.csv", help="answers, one person a line, for --study"
    )
    parser.add_argument(
        "--pilot",
        type=Path,
        metavar="FILE.csv",
        help="people asked before, by whom what row_norm takes is corrected, for --study",
    )
    parser.add_argument(
        "--formula", help='the model, such as "y ~ x1 + C(group)" (default: first on all others)'
    )
    parser.add_argument("--seed", type=int, default=2026, help="of the simulated population, not of any mask")
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo"), metavar="DIR", help="results (default out/demo)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the demo."""
    if find_spec("trimask_server") is None:
        raise ConfigError(
            "the demo runs a study's nodes on this machine, and they are not installed: pip install 'trimask[demo]'"
        )
    from trimask_cli.demo.run_demo import run_demo

    return run_demo(args)
