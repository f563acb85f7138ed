"""`trimask plan`: what a study would cost and tell, before it exists."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from trimask_core.errors import ConfigError
from trimask_terminal.options import Subparsers, add_json, print_json

__all__ = ["register"]

_RIGHT, _RIGHT_OF_MOMENTS = 4, 3


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plan",
        help="noise, standard errors, upload and server cost of a study to be",
        description="For a target (epsilon, delta), the noise each suite asks for (in the rows suite by every method), the "
        "standard error of a regression coefficient it leads to, what devices and servers have to do, and who would have to "
        "collude to see answers.",
    )
    parser.add_argument(
        "--suite",
        choices=("rows", "moments", "both"),
        default="both",
        help="the way of collecting (default both)",
    )
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument(
        "--attributes",
        type=int,
        required=True,
        metavar="P1",
        help="columns of a row: the ones column, the response, one for each level of a category",
    )
    parser.add_argument("--rows", type=int, required=True, metavar="N", help="people who will take part")
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
        "--right", type=int, metavar="K1", help="right providers (default 4, in the moments suite 3)"
    )
    parser.add_argument(
        "--left", type=int, default=2, metavar="K2", help="left providers of the rows suite (default 2)"
    )
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


def run(args: argparse.Namespace) -> int:
    """Compute, print, and plot if asked."""
    from trimask_terminal.study_view import make_console
    from trimask_theory.moments_planner import make_moments_plan
    from trimask_theory.planner import Target, make_plan

    target = Target(
        args.epsilon,
        args.delta,
        args.attributes,
        args.rows,
        protect=args.protect,
        row_norm=args.row_norm,
        right=_RIGHT if args.right is None else args.right,
        left=args.left,
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
        from trimask_cli.plan_plot import save_plot

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
