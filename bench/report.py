"""Results as a table: for the terminal, and for a page of the documentation."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.results import Result

__all__ = ["BEGIN", "END", "page_table", "print_results", "put_into"]

BEGIN, END = "<!-- bench: written by python -m bench --page -->", "<!-- bench: end -->"

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


def page_table(results: list[Result]) -> str:
    """What a page shows of a run: what has a requirement, and blocks; the theory is for whoever works on it."""
    shown = [
        result
        for result in results
        if not result.suite.startswith("theory") and (result.required is not None or result.suite == "block")
    ]
    lines = ["| part | " + " | ".join(_HEADINGS) + " |", "|---|---|---:|---:|---:|---|---|"]
    for result in shown:
        cells = list(_cells(result))
        if result.met is not None:
            cells[4] += ", met" if result.met else ", **missed**"
        lines.append(f"| {result.suite} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def put_into(page: Path, results: list[Result], run: str) -> None:
    """Write the table of a run into a page, between its two marks."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{run}\n\n{page_table(results)}\n\n{END}{after}", encoding="utf-8")
