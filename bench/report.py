"""Results as a table: for the terminal, and as Markdown for the documentation."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.results import Result

__all__ = ["markdown", "print_results"]

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


def _worst_of_each(results: list[Result]) -> list[Result]:
    """Of the theory's cases, named "method, size, target", the one a method that is nearest to its limit."""
    worst: dict[str, Result] = {}
    for result in results:
        theory = result.suite.startswith("theory")
        key = f"{result.suite} {result.name.partition(',')[0]}" if theory else f"{len(worst)}"
        if key not in worst or result.ratio > worst[key].ratio:
            worst[key] = result
    return list(worst.values())


def markdown(results: list[Result]) -> str:
    """The same tables as Markdown, the theory's shortened to the worst case of each method."""
    lines: list[str] = []
    results = _worst_of_each(results)
    for suite in dict.fromkeys(result.suite for result in results):
        lines += [f"**{suite}**", "", "| " + " | ".join(_HEADINGS) + " |", "|---|---:|---:|---:|---|---|"]
        for result in results:
            if result.suite == suite:
                cells = list(_cells(result))
                if result.met is not None:
                    cells[4] += ", met" if result.met else ", **missed**"
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)
