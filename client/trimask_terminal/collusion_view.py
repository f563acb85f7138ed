"""The collusion report as a table: who would have to collude, what they would get, and how."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask_core.collusion import AnyReport
from trimask_core.moments.collusion import MomentsCollusion
from trimask_core.rows.collusion import Coalition, CollusionReport

__all__ = ["render"]

# The steps of a chain that a reader needs; multiplying and adding known things is left out.
_DECISIVE = {"unmask", "solve", "align", "correlate", "compose", "remainder"}


def render(report: AnyReport) -> RenderableType:
    """For a console of any width."""
    style = (
        "bold red" if report.single_breakers else "bold yellow" if report.largest_safe == 1 else "bold green"
    )
    head = Text(report.summary, style=style)
    if isinstance(report, MomentsCollusion):
        found = [(item.parties, item.outcome, "; ".join(item.chain)) for item in report.coalitions]
        return Group(head, _table(found), Text(report.noise_sentence))
    return Group(head, *_rows_parts(report))


def _rows_parts(report: CollusionReport) -> list[RenderableType]:
    nodes = ", ".join(f"{node} for component {k}" for k, node in enumerate(report.topology.unmasking, 1))
    found = [(item.parties, item.outcome, _how(item)) for item in report.coalitions]
    parts: list[RenderableType] = [Text(f"Unmasking: {nodes}."), _table(found)]
    if report.through_noise:
        groups = ", ".join(" + ".join(parties) for parties in report.through_noise)
        parts.append(Text(f"Only through the noise columns, so not counted as a break: {groups}."))
    return [*parts, Text(report.right_providers_alone), Text(report.altering)]


def _table(coalitions: list[tuple[tuple[str, ...], str, str]]) -> Table:
    """Who, what they would get, and how; a section for each size."""
    table = Table(title="Who would have to collude", title_style="bold", title_justify="left")
    table.add_column("together", no_wrap=True)
    table.add_column("would get")
    table.add_column("how")
    size = 0
    for parties, gets, how in coalitions:
        if size not in (0, len(parties)):
            table.add_section()
        size = len(parties)
        table.add_row(Text(" + ".join(parties)), Text(gets), Text(how))
    return table


def _how(coalition: Coalition) -> str:
    pairs = zip(coalition.steps, coalition.chain, strict=True)
    told = [words for step, words in pairs if step.rule in _DECISIVE]
    return "; ".join(told or coalition.chain[-2:-1])
