"""`trimask plan`: what a study would cost and show, before it exists; `trimask privacy total` beside it.

The second says what several releases, waves and studies of the same people cost them together.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_core.basics.errors import ConfigError
from trimask_terminal.options import Subparsers, add_json, print_json

if TYPE_CHECKING:
    from trimask_core.study.definition import Study


def register_privacy(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("privacy", help="what several studies of the same people cost together")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    total = commands.add_parser(
        "total",
        help="epsilon and delta of several studies for a person who is in all of them",
        description="For a person who is in every study named: the privacy loss of all of them together, and of each "
        "alone. A study counts once, since a row is published once; name it again for every further wave of the same "
        "people. What a budget may ever pay for counts in full. A study without noise is refused: nothing limits it.",
    )
    total.add_argument(
        "studies", type=Path, nargs="+", metavar="STUDY", help="STUDY.json, or a dataset's folder"
    )
    total.add_argument(
        "--delta",
        type=float,
        metavar="D",
        help="at which epsilon is stated (default: the sum of the studies' own)",
    )
    add_json(total)
    total.set_defaults(run=run_total)


def run_total(args: argparse.Namespace) -> int:
    """Read, add up, print."""
    from trimask_theory.accounting.studies import total

    found = total([_study(path) for path in args.studies], args.delta)
    if args.json:
        print_json(found.to_dict())
        return 0
    from rich.table import Table

    from trimask_core.study.guarantee import factor_words
    from trimask_terminal.study_view import make_console

    table = Table(title=f"Epsilon at delta = {found.delta:.3g} for somebody in all of them")
    table.add_column("study")
    table.add_column("epsilon", justify="right")
    for title, epsilon in found.alone:
        table.add_row(title, f"{epsilon:.4g}")
    table.add_section()
    table.add_row("together", f"{found.epsilon:.4g}", style="bold")
    if found.basic is not None:
        table.add_row(
            "stated pairs, simply added", f"{found.basic[0]:.4g} (delta {found.basic[1]:.3g})", style="dim"
        )
    console = make_console()
    console.print(table)
    console.print(
        f"Whatever is published, a conclusion about a person becomes at most {factor_words(found.epsilon)} times as likely "
        f"as without that person's answers, but for a chance of {found.delta:.3g}. Neighbours: {found.neighbours}; "
        f"{found.basis}."
    )
    return 0


def _study(path: Path) -> Study:
    from trimask_cli.study_file import read_signed

    if path.is_dir():
        from trimask import Dataset

        return Dataset.open(path).study
    return read_signed(path).study


_RIGHT, _RIGHT_OF_MOMENTS, _LEFT = 4, 2, 2


def register(subparsers: Subparsers) -> None:
    """Add the commands `plan` and `privacy`."""
    parser = subparsers.add_parser(
        "plan",
        help="noise, standard errors, upload and server cost of a study to be",
        description="For a target (epsilon, delta), the noise each suite asks for (in the rows suite by every method), the "
        "standard error of a regression coefficient it leads to, what devices and servers have to do, and who would have to "
        "collude to see answers. With --study, the standard error of every coefficient of your own study as a release will "
        "show it, in each suite, and the clipping that leaves the least error.",
    )
    own = parser.add_argument_group("your own study")
    own.add_argument(
        "--study", type=Path, metavar="FILE.toml", help="its definition, with [expected] or --pilot"
    )
    own.add_argument(
        "--cover", choices=("slopes", "means", "moments"), default="slopes",
        help="what 95 %% intervals must hold of with the clipping recommended: the model's slopes (default), means too, or "
        "variances and covariances too",
    )  # fmt: skip
    own.add_argument("--pilot", type=Path, metavar="FILE.csv", help="people like those who will be asked")
    own.add_argument(
        "--effect",
        nargs="+",
        metavar="NAME[=SIZE]",
        help="coefficients to be seen (default: all, of a standard size)",
    )
    own.add_argument("--se", nargs="+", metavar="NAME=ERROR", help="how many people give this standard error")
    own.add_argument(
        "--formula", help='the model, such as "y ~ x1 + C(group)" (default: first on all others)'
    )
    parser.add_argument(
        "--suite",
        choices=("rows", "moments", "both"),
        default="both",
        help="the way of collecting (default both)",
    )
    parser.add_argument("--epsilon", type=float, help="default: the study's")
    parser.add_argument("--delta", type=float, help="default: the study's")
    parser.add_argument(
        "--attributes",
        type=int,
        metavar="P1",
        help="columns of a row: the ones column, the response, one for each level of a category",
    )
    parser.add_argument(
        "--rows", type=int, metavar="N", help="people who will take part (of a study: its release_rows)"
    )
    parser.add_argument(
        "--release-sizes", type=int, nargs="+", metavar="N", help="default: rows, and 1/4, 1/16 of them"
    )
    parser.add_argument("--block-sizes", type=int, nargs="+", metavar="N", help="default: 64 to 1024")
    parser.add_argument("--protect", choices=("record", "unit"), default="record", help="default record")
    parser.add_argument(
        "--row-norm",
        type=float,
        metavar="R",
        help="default sqrt(P1); a category counts once; below it devices clip",
    )
    parser.add_argument(
        "--right", type=int, metavar="K1", help="right providers (default 4, in the moments suite 2)"
    )
    parser.add_argument("--left", type=int, metavar="K2", help="left providers of the rows suite (default 2)")
    parser.add_argument(
        "--honest",
        type=int,
        default=1,
        metavar="H",
        help="honest right providers of the moments suite (default 1)",
    )
    parser.add_argument("--r-squared", type=float, default=0.5, help="share the model explains (default 0.5)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="save the picture (png, svg or pdf)")
    add_json(parser)
    parser.set_defaults(run=run)
    register_privacy(subparsers)


def run(args: argparse.Namespace) -> int:
    """Compute, print, and plot if asked."""
    if args.study is not None:
        # A plan solves many small systems: a second thread of BLAS only waits for the first (12 s of processor time, not 8).
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from trimask_cli.own_plan.command import run_own

        return run_own(args)
    if args.pilot is not None or args.se or args.effect or args.formula:
        raise ConfigError("--pilot, --effect, --se and --formula go with --study FILE.toml")
    missing = [name for name in ("epsilon", "delta", "attributes", "rows") if getattr(args, name) is None]
    if missing:
        raise ConfigError(
            f"give --study FILE.toml, or --{missing[0]} with --epsilon, --delta, --attributes and --rows"
        )
    from trimask_terminal.study_view import make_console
    from trimask_theory.planning.planner import Target, make_moments_plan, make_plan

    target = Target(
        args.epsilon,
        args.delta,
        args.attributes,
        args.rows,
        protect=args.protect,
        row_norm=args.row_norm,
        right=_RIGHT if args.right is None else args.right,
        left=_LEFT if args.left is None else args.left,
        r_squared=args.r_squared,
    )
    plan = moments = None
    if args.suite != "moments":
        plan = make_plan(target, args.release_sizes, args.block_sizes)
    elif args.plot is not None:
        raise ConfigError("--plot draws the methods of the rows suite; leave out --suite moments")
    # The noise of the moments suite covers a whole record, so with --protect unit there is nothing to set beside rows.
    if args.suite == "moments" or (args.suite == "both" and args.protect == "record"):
        fewer = replace(target, right=_RIGHT_OF_MOMENTS) if args.right is None else target
        moments = make_moments_plan(fewer, args.release_sizes, args.honest)
    if plan is not None and args.plot is not None:
        from trimask_cli.plan_view import save_plot

        save_plot(plan, args.plot)
    if args.json:
        data = (
            plan.to_dict()
            if plan is not None
            else {"target": (moments.target if moments else target).to_dict()}
        )
        print_json(data if moments is None else data | {"moments": moments.to_dict()})
        return 0
    from trimask_cli.plan_view import render

    make_console().print(render(target, plan, moments))
    return 0
