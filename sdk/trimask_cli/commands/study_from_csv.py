"""`trimask study from-csv`: draft a study's definition from a table one has."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from trimask_terminal.options import Subparsers, add_json, output_file, print_json, write_new


def register_in(commands: Subparsers) -> None:
    """Add the command to those of `trimask study`."""
    parser = commands.add_parser(
        "from-csv",
        help="draft a definition from a table, to be edited",
        description="Find out what each column asks (kind, bounds rounded outward, levels, what stands for empty cells) "
        "and write a definition to be edited. Reads UTF-8, UTF-16 and Latin-1, commas, semicolons and tabs.",
    )
    parser.add_argument("table", type=Path, metavar="DATA.csv", help="one person a line, names in the first")
    parser.add_argument(
        "--out",
        type=output_file,
        metavar="FILE.toml",
        help="where the definition goes (default, and for -: standard output)",
    )
    parser.add_argument("--suite", choices=("rows", "moments"), default="rows", help="default rows")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Draft, and say what was left out."""
    from trimask_cli.table.draft import draft_study
    from trimask_cli.table.guess import read_sheet
    from trimask_theory.planning.study_definition import load_definition

    sheet = read_sheet(args.table)
    draft = draft_study(sheet, args.suite)
    load_definition(draft.text)  # what is drafted can be read, or the reason is said now
    if args.out is not None:
        write_new(args.out, draft.text)
    if args.json:
        print_json({
            "people": len(sheet.lines),
            "encoding": sheet.encoding,
            "delimiter": sheet.delimiter,
            "attributes": [asdict(column) for column in draft.attributes],
            "left_out": [asdict(column) for column in draft.left_out],
            "too_few": draft.too_few,
            "definition": draft.text,
        })  # fmt: skip
        return 0
    for column in draft.left_out:
        print(f"left out: {column.header!r} {column.why}", file=sys.stderr)
    if draft.too_few:
        print(f"too few people: {draft.too_few}", file=sys.stderr)
    if args.out is None:
        print(draft.text, end="")
        return 0
    many = len(draft.attributes)
    count = f"{many} attribute{'' if many == 1 else 's'}"
    print(f"{args.out}: {count} from {len(sheet.lines):,} people. Edit it, then")
    print(f"  trimask plan --study {args.out} --pilot {args.table}")
    if not draft.too_few:
        print(f"  trimask demo --study {args.out} --rows {args.table}")
    return 0
