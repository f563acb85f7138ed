"""Results as a table: for the terminal, and for a page of the documentation."""

from __future__ import annotations

import json
import math
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.paper import on_paper
from bench.peers import peers_table
from bench.results import Result

__all__ = ["BEGIN", "END", "compared", "page_table", "print_results", "put_into"]

BEGIN, END = "<!-- bench: written by python -m bench --page -->", "<!-- bench: end -->"
PAPER, PEERS = (
    "<!-- on paper: written by python -m bench --page -->",
    "<!-- peers: written by python -m bench --page -->",
)

_MOVED = 1.15
_HEADINGS = ("what", "measured", "limit", "ratio", "required", "limit is")


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _cells(result: Result) -> tuple[str, str, str, str, str, str]:
    required = ""
    if result.required is not None:
        required = f"{'≥' if result.kind == 'speed' else '≤'} {result.required:g}"
    return (
        result.name,
        f"{_number(result.value)} {result.unit}".strip(),
        f"{_number(result.limit)} {result.unit}".strip(),
        _number(result.ratio),
        required,
        result.against,
    )


def _mark(result: Result) -> Text:
    if result.met is None:
        return Text("")
    return Text("met", style="green") if result.met else Text("MISSED", style="bold red")


def print_results(results: list[Result], console: Console) -> None:
    """A table a suite, and what was missed."""
    for suite in dict.fromkeys(result.suite for result in results):
        table = Table(title=suite, title_justify="left", title_style="bold", pad_edge=False)
        table.add_column(_HEADINGS[0], overflow="fold", min_width=24)
        for heading in _HEADINGS[1:5]:
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column(_HEADINGS[5], style="dim", overflow="fold")
        for result in results:
            if result.suite == suite:
                *cells, against = _cells(result)
                table.add_row(*cells, _mark(result), against)
        console.print(table)
    missed = [result.name for result in results if result.met is False]
    asked = sum(result.met is not None for result in results)
    if not asked:
        return
    console.print(
        f"{asked - len(missed)} of {asked} requirements met"
        + (f"; missed: {', '.join(missed)}" if missed else "")
    )


def compared(old: Path, results: list[Result], console: Console, *, quick: bool = False) -> list[str]:
    """Print whose share of its limit moved by more than a seventh since the run in `old`; the names of what got worse.

    Shares carry over between machines and loads, times do not. Of parts that both have, what only one has is named.
    """
    run = json.loads(old.read_text(encoding="utf-8"))
    if run["quick"] != quick:
        console.print("one of the two runs is --quick: what a study costs once weighs more there")
    parts = {result.suite for result in results}
    before = {(one["suite"], one["name"]): one for one in run["results"] if one["suite"] in parts}
    now = {(result.suite, result.name): result for result in results}
    worse = []
    for key in before.keys() & now.keys():
        result, was = now[key], before[key]["ratio"]
        change = result.ratio / was if result.kind == "speed" else was / result.ratio
        if abs(math.log(change)) > math.log(_MOVED):
            if change < 1:
                worse.append(f"{key[0]}: {key[1]}")
            word = "[green]better[/]" if change > 1 else "[bold red]WORSE[/]"
            console.print(
                f"{word} {key[0]}: {key[1]}: ratio {_number(was)} before, {_number(result.ratio)} now"
            )
    for words, names in (
        ("new", now.keys() - before.keys()),
        ("not measured this time", before.keys() - now.keys()),
    ):
        if names:
            console.print(f"{words}: {'; '.join(sorted(': '.join(name) for name in names))}")
    console.print(
        f"{len(before.keys() & now.keys())} compared with {old}; {len(worse)} worse by more than a seventh"
    )
    return sorted(worse)


def page_table(results: list[Result]) -> str:
    """What a page shows of a run: what has a requirement, without the theory, and what a person costs every role."""
    shown = [
        result for result in results if not result.suite.startswith("theory") and result.required is not None
    ]
    lines = ["| part | " + " | ".join(_HEADINGS) + " |", "|---|---|---:|---:|---:|---|---|"]
    for result in shown:
        cells = list(_cells(result))
        if result.met is not None:
            cells[4] += ", met" if result.met else ", **missed**"
        lines.append(f"| {result.suite} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *_matrix(results)])


def _matrix(results: list[Result]) -> list[str]:
    """The results that say which cell of a table they are, in one; how many times their limit each is in brackets."""
    cells: dict[str, dict[str, str]] = {}
    for result in results:
        if "column" in result.detail:
            times = f" ({_number(result.ratio)})" if result.ratio != 1 else ""
            cells.setdefault(result.detail["row"], {})[result.detail["column"]] = (
                f"{result.value:,.0f}{times}"
            )
    if not cells:
        return []
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    most = max(columns, key=lambda column: sum(column in row for row in cells.values()))
    ordered = [result.detail["row"] for result in results if result.detail.get("column") == most]
    lines = [
        "",
        "Microseconds of processor time a person; in brackets, how many bare gRPC calls over TLS cost as much:",
        "",
    ]
    lines += ["| | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in dict.fromkeys([*ordered, *cells]):
        lines.append(f"| {row} | " + " | ".join(cells[row].get(column, "") for column in columns) + " |")
    return lines


def put_into(page: Path, results: list[Result], run: str) -> None:
    """Write the tables of a run into a page, each between its two marks; what the run has not measured stays."""
    tables = {PAPER: on_paper(results), PEERS: peers_table(results)}
    if any(result.suite != "peers" for result in results):
        tables[BEGIN] = f"{run}\n\n{page_table(results)}"
    text = page.read_text(encoding="utf-8")
    for begin, table in tables.items():
        if table and begin in text:
            before, rest = text.split(begin)
            _, _, after = rest.partition(END)
            text = f"{before}{begin}\n\n{table}\n\n{END}{after}"
    page.write_text(text, encoding="utf-8")
