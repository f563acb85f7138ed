"""The collusion report as a table: who would have to collude, what they would get, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask_core.collusion import AnyReport
from trimask_core.moments.collusion import MomentsCollusion
from trimask_core.rows.collusion import Coalition, CollusionReport, default_unmasking

__all__ = ["in_short", "render"]

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


def in_short(report: AnyReport) -> list[str]:
    """In a few lines: what is safe, how many smallest groups are not, who they are, the command that lists them."""
    right = report.topology.right if isinstance(report, CollusionReport) else report.right
    command = f"trimask study collusion --right {right} --left "
    if isinstance(report, MomentsCollusion):
        return [report.summary, report.noise_sentence, "How:", f"  {command}0"]
    topology = report.topology
    command += f"{topology.left}"
    if topology.unmasking != default_unmasking(topology.right, topology.left):
        command += f" --unmasking {' '.join(topology.unmasking)}"
    size = report.largest_safe + 1
    smallest = [item for item in report.coalitions if len(item.parties) == size]
    count = f"{len(smallest)} groups of {size}" if len(smallest) > 1 else f"One group of {size}"
    rough = sum(not item.exact for item in smallest)
    how = f", {rough} of them only as estimates" if rough else ""
    larger = len(report.coalitions) - len(smallest)
    more = f" Other groups, all larger: {larger}." if larger else ""
    return [
        report.summary,
        f"{count} could{how}: {_who([item.parties for item in smallest])}.{more}",
        "Each of them, how, and what one party with a changed program could do:",
        f"  {command}",
    ]


_FEW = 4


def _who(groups: Sequence[tuple[str, ...]]) -> str:
    """Groups by name where they are few, otherwise by the roles in them with a count of each."""
    if len(groups) <= _FEW:
        return ", ".join(" + ".join(parties) for parties in groups)
    kinds = Counter(tuple(party[0] for party in parties) for parties in groups)
    return ", ".join(f"{_roles(kind)} ({count})" for kind, count in kinds.items())


def _roles(kind: tuple[str, ...]) -> str:
    """Such as `2 right + collector`; `kind` has the first letter of each role."""
    words = [
        f"{kind.count(letter)} {name}" for letter, name in (("R", "right"), ("L", "left")) if letter in kind
    ]
    if "c" in kind:
        return " + ".join([*words, "collector"])
    return f"{' + '.join(words)} provider{'s' if len(kind) > 1 else ''}"


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
