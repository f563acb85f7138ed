"""`trimask study status`: a study's status as a table; with --watch a live view or, without a terminal, lines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trimask.data.connection import StudyStatus
from trimask_core.basics.errors import TrimaskError
from trimask_core.study.definition import Study
from trimask_core.study.progress import Waiting, waiting_of

Ask = Callable[[], StudyStatus]
Asked = Callable[[], tuple[StudyStatus | None, str]]
_AWAY_SECONDS = 300.0


def watch(
    study: Study,
    ask: Ask,
    console: Console,
    *,
    every_seconds: float,
    as_json: bool,
    pause: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Watch until the study is closed, or Ctrl-C. A collector that goes away is asked again for five minutes, so that its
    restart is watched too; one that never answered, or stays away, is an error."""
    asked = _patient(ask, clock)
    if as_json or not console.is_terminal:
        _print_lines(study, asked, console, every_seconds, pause, as_json=as_json)
        return
    last: StudyStatus | None = None
    with Live(console=console, auto_refresh=False, screen=False) as live:
        while True:
            status, error = asked()
            last = status or last
            live.update(view(study, last, error), refresh=True)
            if status is not None and status.state == "closed":
                return
            pause(every_seconds)


def _patient(ask: Ask, clock: Callable[[], float]) -> Asked:
    """Ask, and give the status, or what was wrong; raises what has been wrong for too long."""
    answered: float | None = None

    def asked() -> tuple[StudyStatus | None, str]:
        nonlocal answered
        try:
            status = ask()
        except TrimaskError as failure:
            if answered is None or clock() - answered > _AWAY_SECONDS:
                raise
            return None, f"{failure} (asking again)"
        answered = clock()
        return status, ""

    return asked


def _print_lines(
    study: Study,
    asked: Asked,
    console: Console,
    every_seconds: float,
    pause: Callable[[float], None],
    *,
    as_json: bool,
) -> None:
    """A line when something changed, so that a log of it stays short."""
    before = ""
    while True:
        status, error = asked()
        if status is not None:
            text = json.dumps({"study_id": study.id.hex(), **asdict(status)}) if as_json else line(status)
        else:
            text = json.dumps({"error": error}) if as_json else f"collector: {error}"
        if text != before:
            stamp = "" if as_json else time.strftime("%H:%M:%SZ ", time.gmtime())
            console.print(stamp + text, soft_wrap=True)
            before = text
        if status is not None and status.state == "closed":
            return
        pause(every_seconds)


def line(status: StudyStatus) -> str:
    """A status in one line."""
    down = [role for role, counts in status.refusals.items() if counts is None]
    refused = sum(sum(counts.values()) for counts in status.refusals.values() if counts)
    rows = (
        f"{status.state}: {status.pending_rows:,} waiting, {status.masking_rows:,} masking, "
        f"{status.pooled_rows:,} pooled, {status.published_rows:,} published"
    )
    parts = [
        rows,
        f"{status.pooled_blocks:,} blocks, {status.failed_attempts:,} failed attempts, {refused:,} refusals",
        *([f"does not answer: {', '.join(down)}"] if down else []),
        *([status.note] if status.note else []),
    ]
    return "; ".join(parts)


def view(study: Study, status: StudyStatus | None, error: str = "") -> RenderableType:
    """The live view."""
    title = Text(study.title, style="bold")
    if status is None:
        return Group(title, Text(error or "asking the collector ...", style="red" if error else "dim"))
    bars = Table.grid(padding=(0, 1))
    waiting = _waiting(study, status)
    for item in waiting:
        done = f"{item.there:,} of {item.needed:,} rows"
        bars.add_row(
            item.goal.lower(), ProgressBar(item.needed, min(item.there, item.needed), width=40), done
        )
    rows = Text(
        f"{status.pending_rows:,} waiting · {status.masking_rows:,} masking · {status.pooled_rows:,} pooled · "
        f"{status.published_rows:,} published in {status.releases:,} releases · {status.pooled_blocks:,} blocks · "
        f"{status.failed_attempts:,} failed attempts"
    )
    parts: list[RenderableType] = [
        title,
        Text(status.state, style="green" if status.state == "open" else "yellow"),
    ]
    if status.state != "closed":
        parts += [bars, *(Text(f"waiting because: {item.because}", style="dim") for item in waiting)]
    parts += [rows, Text(), _nodes(study, status)]
    if status.note:
        parts.append(Text(status.note, style="yellow"))
    if error:
        parts.append(Text(f"last error: {error}", style="red"))
    return Group(*parts)


def _waiting(study: Study, status: StudyStatus) -> list[Waiting]:
    return waiting_of(
        study, pending=status.pending_rows, masking=status.masking_rows, pooled=status.pooled_rows,
        closing=status.state == "closing",
    )  # fmt: skip


def _nodes(study: Study, status: StudyStatus) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("node", "run by", "health", "refused in this study", "refused in all"):
        table.add_column(heading, overflow="fold")
    for role, counts in status.refusals.items():
        health = Text("does not answer", style="red") if counts is None else Text("answers", style="green")
        own = _words(status.study_refusals.get(role, {}))
        table.add_row(role, study.party(role).organisation, health, own, _words(counts or {}))
    return table


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items())) or "-"


def render_status(study: Study, progress: StudyStatus) -> RenderableType:
    """The status as a table."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("study", study.title)
    # Twelve digits, which other commands take and a terminal does not fold; --json has all of them.
    table.add_row("id", study.id.hex()[:12])
    table.add_row("state", progress.state)
    if progress.state != "closed":
        for item in _waiting(study, progress):
            table.add_row(f"{item.goal.lower()}, waiting because", item.because)
    rows = study.suite.name == "rows"
    one = progress.pooled_blocks == 1
    blocks = ("block" if one else "blocks") if rows else ("batch" if one else "batches")
    table.add_row(
        f"complete, waiting for a {'block' if rows else 'batch'}", f"{progress.pending_rows:,} rows"
    )
    table.add_row("being masked" if rows else "being checked", f"{progress.masking_rows:,} rows")
    table.add_row(
        "pooled" if rows else "added up",
        f"{progress.pooled_rows:,} rows ({progress.pooled_blocks:,} {blocks} so far)",
    )
    table.add_row(
        "published",
        f"{progress.published_rows:,} rows in {progress.releases:,} release{'' if progress.releases == 1 else 's'}",
    )
    if progress.failed_attempts:
        table.add_row("attempts that failed and were repeated", f"{progress.failed_attempts:,}")
    if progress.refused_reports:
        words = ", ".join(f"{reason} {count:,}" for reason, count in progress.refused_reports.items())
        table.add_row("submissions refused by the check, and erased", words)
    for block in progress.abandoned_blocks:
        table.add_row("given up", f"block {block.id[:12]} with {block.rows:,} rows: {block.why}")
    if progress.invitations_used:
        words = ", ".join(f"{role} {count:,}" for role, count in progress.invitations_used.items())
        table.add_row("invitations used, as each right provider counts", words)
    if progress.sent_together:
        words = ", ".join(f"{count:,} to {role}" for role, count in progress.sent_together.items())
        table.add_row("people whose answers an institution has, submitted together", words)
    for role, counts in progress.refusals.items():
        if counts is None:
            table.add_row(f"{role}", Text("did not answer", style="red"))
            continue
        for what, some in (("in this study", progress.study_refusals.get(role, {})), ("in all", counts)):
            if some:
                words = ", ".join(f"{reason} {count:,}" for reason, count in sorted(some.items()))
                table.add_row(f"refused by {role}, {what}", words)
    return Group(table, Text(progress.note, style="yellow")) if progress.note else table
