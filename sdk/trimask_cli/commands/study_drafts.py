"""`trimask study from-csv|next|import-xlsform`: a definition drafted from a table, a release, or an XLSForm."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_terminal.options import Subparsers, add_json, output_file, print_json, write_new

if TYPE_CHECKING:
    from trimask_cli.own_plan.recommend import Recommendation
    from trimask_theory.planning.definition import StudyDefinition


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
    parser.add_argument(
        "--suite",
        choices=("moments", "rows"),
        default="moments",
        help="default moments, which serves most studies best; rows is the triple matrix-masking",
    )
    parser.add_argument(
        "--columns", nargs="+", metavar="NAME", help="ask these alone, in this order (default: all)"
    )
    parser.add_argument(
        "--pilot",
        action="store_true",
        help="the file is of people asked before, who are not in the study: row_norm, centres and scales are chosen by it",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Draft, and say what was left out."""
    from trimask_cli.table.draft import draft_study, with_settings
    from trimask_client.table import read_sheet
    from trimask_theory.planning.study_definition import load_definition

    sheet = read_sheet(args.table)
    draft = draft_study(sheet, args.suite, args.columns)
    definition = load_definition(draft.text)  # what is drafted can be read, or the reason is said now
    found = None
    if args.pilot:
        found = _recommended(definition, args.table)
        draft = replace(draft, text=with_settings(draft.text, found.settings))
        load_definition(draft.text)
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
    print("  # purpose and contact are yours to write: until then `trimask study check` refuses the draft")
    print(f"  trimask plan --study {args.out} --pilot {args.table}")
    if found is not None:
        _say_recommended(found, args)
    else:
        print(
            f"  # if the people of {args.table.name} will not be in the study: again with --pilot, for far less noise"
        )
    if not draft.too_few:
        pilot = f" --pilot {args.table}" if found is not None and found.clips else ""
        print(f"  trimask demo --study {args.out} --rows {args.table}{pilot}")
        print("  # or without nodes, in Python, for trimask.fit:")
        shown = f', pilot="{args.table}"' if pilot else ""
        print(f'  trimask.simulate("{args.table}", "{args.out}"{shown})')
    return 0


def _recommended(definition: StudyDefinition, table: Path) -> Recommendation:
    """Settings by the people of the table, for a fit of the first column on all others."""
    from trimask_cli.own_plan.predict import Population, sample_of
    from trimask_cli.own_plan.recommend import recommend
    from trimask_cli.study_file import default_formula
    from trimask_client.table import read_people

    people = read_people(table, definition.schema, definition.form).answers
    formula = default_formula(definition.schema)
    return recommend(definition, Population(sample_of(people)), formula, len(people))


def _say_recommended(found: Recommendation, args: argparse.Namespace) -> None:
    if not found.settings:
        print(f"  # nothing leaves less error than the bounds of {args.table.name} and keeps intervals")
        return
    print(f"{_errors_said(found)}. How many people it takes: trimask plan, above")
    pilot = f" --pilot {args.table}" if found.clips else ""
    print(f"  trimask study new {args.out} --keys KEYS{pilot}")


def _errors_said(found: Recommendation) -> str:
    shown = [
        f"{point.inflation:.3g} times those of raw rows" if math.isfinite(point.inflation)
        else f"not bounded in any of {point.drawn} simulated releases"
        for point in (found.best, found.unclipped)
    ]  # fmt: skip
    return f"  # standard errors {shown[0]}; without these settings {shown[1]}"


def register_next(commands: Subparsers) -> None:
    """Add it to the commands of `trimask study`."""
    parser = commands.add_parser(
        "next",
        help="draft the next wave of a study, of other people, by a release of it",
        description="The same questions to other people, with the centres, scales, steps and row_norm that a published "
        "release of the first ones leads to: it is public, so nobody's privacy pays for it. trimask.fit takes a list of the "
        "waves' datasets and pools them by their precision.",
    )
    parser.add_argument("definition", type=Path, metavar="FILE.toml", help="the first wave's definition")
    parser.add_argument(
        "--from",
        dest="release",
        type=Path,
        required=True,
        metavar="DATASET",
        help="the folder of its dataset, as trimask pull writes it",
    )
    parser.add_argument(
        "--out", type=output_file, required=True, metavar="FILE.toml", help="a file that does not exist yet"
    )
    parser.add_argument(
        "--rows", type=int, metavar="N", help="people of the next wave (default: as many as release_rows)"
    )
    parser.add_argument("--formula", help="the model that is to be seen (default: first on all others)")
    parser.set_defaults(run=run_next)


def run_next(args: argparse.Namespace) -> int:
    """Draft, and say what was taken from the release."""
    from trimask import Dataset
    from trimask_cli.table.next_wave import next_wave

    dataset = Dataset.open(args.release)
    text, found = next_wave(
        args.definition,
        dataset.moments,
        args.rows,
        args.formula,
        f"{dataset.id} (manifest {dataset.manifest.sha256})",
    )
    write_new(args.out, text)
    print(f"{args.out}: the questions of {args.definition.name}, for others than the people of {dataset.id}")
    for name, values in found.settings.items():
        print(f"  {name}: " + ", ".join(f"{key} {value:g}" for key, value in values.items()))
    print(_errors_said(found))
    pilot = f" --pilot {args.release}" if found.clips else ""
    print(f"  trimask study new {args.out} --keys KEYS{pilot}")
    print(
        '  afterwards: trimask.fit.ols([first, second], "...") pools both. Whoever answers twice pays twice'
    )
    print(f"  (trimask privacy total {args.release} NEXT.json), and would be counted twice: ask others.")
    return 0


def register_import(commands: Subparsers) -> None:
    """Add it to the commands of `trimask study`."""
    xlsform = commands.add_parser(
        "import-xlsform",
        help="make a definition of an XLSForm",
        description="Carry an XLSForm's questions over into a study definition, and list what could not be. The privacy and "
        "collection settings are left to be filled in.",
    )
    xlsform.add_argument(
        "form",
        type=Path,
        metavar="FORM",
        help="an .xlsx, or a folder with survey.csv, choices.csv and settings.csv",
    )
    xlsform.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE.toml",
        help="a file that does not exist yet",
    )
    xlsform.set_defaults(run=run_import_xlsform)


def run_import_xlsform(args: argparse.Namespace) -> int:
    """Import, and say what was lost and what to look at; 1 if nothing usable is left."""
    from trimask_cli.xlsform.convert import convert, definition_text
    from trimask_cli.xlsform.workbook import read_workbook

    imported = convert(read_workbook(args.form))
    for heading, items in (
        ("Could not be carried over:", imported.lost),
        ("To check or fill in:", imported.check),
    ):
        if items:
            print(heading)
            print("\n".join(f"  - {item}" for item in items))
    if not imported.questions:
        print("Nothing usable is left; no definition was written.")
        return 1
    write_new(args.out, definition_text(imported, args.form.name))
    count = sum(len(item.get("rows", [item])) for item in imported.questions if item["kind"] != "heading")
    print(
        f"{args.out}: {count} question{'s' if count != 1 else ''}, {len(imported.attributes)} attributes. "
        "Fill in [privacy] and [collection], and read it before anybody signs it."
    )
    return 0
