"""`trimask pull`: a study's datasets, verified, into a folder each; `trimask table-one`: the first table of one of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trimask_terminal.options import Subparsers, add_json, print_json


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "pull",
        help="pull the datasets a study has published, checking signatures and hashes",
        description="Pull a study's published datasets from its collector into OUT/DATASET. A pull that was cut off "
        "goes on where it stopped; a dataset that is there already is only checked.",
    )
    parser.add_argument(
        "study", type=Path, metavar="STUDY.json", help="the study; it pins the collector and the id"
    )
    parser.add_argument("dataset", nargs="*", metavar="DATASET", help="only these (default: all)")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where to (default: here)")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="a researcher's token (default: $TRIMASK_TOKEN, if set)",
    )
    parser.add_argument(
        "--format", choices=("parquet", "arrow", "csv"), default="parquet",
        help="write the rows in this format too, in original units, beside the signed Parquet file (default: that alone)",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list what is published and pull nothing")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List or pull."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

    from trimask_cli.owner import connected
    from trimask_cli.study_file import read_signed
    from trimask_terminal.exits import Exit, NothingThere

    study = read_signed(args.study).verify()
    pulled: list[dict[str, object]] = []
    token = None if args.token_file is None else args.token_file.read_text(encoding="utf-8").strip()
    with connected(study, token) as connection:
        published = {info.id: info for info in connection.datasets(study.id)}
        unknown = [name for name in args.dataset if name not in published]
        if unknown:
            raise NothingThere(
                f"{unknown[0]} is not published; there are {', '.join(published) or 'none yet'}"
            )
        wanted = args.dataset or list(published)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        # Progress goes to stderr, so that --json leaves one document on stdout.
        with Progress(*columns, console=Console(file=sys.stderr), disable=args.list) as progress:
            for name in wanted:
                info = published[name]
                entry: dict[str, object] = {"id": name, "rows": info.rows, "columns": info.columns}
                if not args.list:
                    task = progress.add_task(name, total=None)

                    def show(_file: str, here: int, total: int, task: TaskID = task) -> None:
                        progress.update(task, completed=here, total=total)

                    dataset = connection.dataset(name, study_id=study.id, progress=show)
                    folder = dataset.save(args.out / name)
                    if args.format == "csv":
                        dataset.to_csv(folder / "dataset.csv")
                    elif args.format == "arrow":
                        dataset.to_arrow_file(folder / "dataset.arrow")
                    entry["folder"] = str(folder)
                pulled.append(entry)
    if args.json:
        print_json(pulled)
        return Exit.DONE if pulled or args.list else Exit.NOTHING
    for entry in pulled:
        place = f" in {entry['folder']}" if "folder" in entry else ""
        print(f"{entry['id']}: {entry['rows']:,} rows x {entry['columns']} columns{place}")
    if not pulled:
        print("Nothing is published; `trimask study status` says why.")
    return Exit.DONE if pulled or args.list else Exit.NOTHING


def register_table_one(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "table-one",
        help="the first table of a paper: a dataset's columns by group, with intervals and tests",
        description="Means of numbers and shares of groups, by the levels of a group, with intervals that count the privacy "
        "noise in, and a test that the groups are alike.",
    )
    parser.add_argument("dataset", type=Path, metavar="DATASET", help="a dataset's folder")
    parser.add_argument("columns", nargs="*", metavar="COLUMN", help="default: all but the group")
    parser.add_argument(
        "--by", required=True, metavar="GROUP", help="a choice, a yes-or-no question, or bins"
    )
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals (default 0.95)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write it too: .csv, .md, .tex, .html, .dta (Stata) or .sav (SPSS)"
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=run_table_one)


def run_table_one(args: argparse.Namespace) -> int:
    """Fit, print, write."""
    import trimask
    from trimask_core.basics.errors import ConfigError

    alpha = round(1 - args.level, 12)
    if not 0 < alpha < 1:
        raise ConfigError(f"--level {args.level:g} must be between 0 and 1")
    dataset = trimask.Dataset.open(args.dataset)
    found = trimask.fit.table_one(dataset, args.columns or None, by=args.by)
    table = found.table(alpha)
    if args.out is not None:
        match args.out.suffix:
            case ".csv":
                table.to_csv(args.out)
            case ".md":
                args.out.write_text(found.to_markdown(alpha) + "\n", encoding="utf-8")
            case ".tex":
                args.out.write_text(found.to_latex(alpha, notes=True) + "\n", encoding="utf-8")
            case ".html":
                args.out.write_text(found.to_html(alpha) + "\n", encoding="utf-8")
            case ".dta" | ".sav":
                dataset.to_file(args.out, found, alpha)
            case _:
                raise ConfigError(
                    f"{args.out} must end in .csv, .md, .tex, .html, .dta (Stata) or .sav (SPSS)"
                )
    if args.json:
        rows = table.reset_index().to_dict("records")
        known = [{key: None if value != value else value for key, value in row.items()} for row in rows]
        print_json(
            {"dataset": dataset.id, "by": found.by, "level": args.level, "rows": known, "notes": found.notes}
        )
    else:
        print(found.summary(alpha))
    return 0
