"""`trimask study import-xlsform`: a definition from an XLSForm."""

from __future__ import annotations

import argparse
from pathlib import Path

from trimask_terminal.options import Subparsers, write_new


def register_in(commands: Subparsers) -> None:
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
