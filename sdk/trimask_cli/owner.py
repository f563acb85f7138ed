"""The owner's and anybody's calls to a study's collector: open, status, close."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask.channel import open_channel
from trimask.status import plain_errors
from trimask_core.study import SignedStudy, Study
from trimask_proto.v1 import study_pb2, study_pb2_grpc

__all__ = ["Progress", "close_study", "open_study", "render_status", "study_status"]

CALL_SECONDS = 30.0


@dataclass(frozen=True)
class Progress:
    """How far collection has come. `refusals` by node and reason; None: the node did not answer."""

    study_id: str
    state: str
    pending_rows: int
    masking_rows: int
    pooled_rows: int
    published_rows: int
    pooled_blocks: int
    failed_attempts: int
    releases: int
    note: str
    refusals: Mapping[str, Mapping[str, int] | None]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return asdict(self)


def open_study(signed: SignedStudy, owner: Path) -> None:
    """Hand a study that every party approved to the collector, as its owner."""
    request = study_pb2.OpenStudyRequest(signed_study=signed.to_json().encode())
    _as_owner(signed.study, owner, lambda stub: stub.OpenStudy(request, timeout=CALL_SECONDS))


def close_study(study: Study, owner: Path) -> None:
    """End collection, as the study's owner."""
    request = study_pb2.CloseStudyRequest(study_id=study.id)
    _as_owner(study, owner, lambda stub: stub.CloseStudy(request, timeout=CALL_SECONDS))


def study_status(study: Study) -> Progress:
    """Ask the collector; anybody who has the study may."""
    party = study.collector
    with (
        plain_errors(party.address),
        open_channel(party.address, study.tls_roots, party.tls_name) as channel,
    ):
        request = study_pb2.GetStudyStatusRequest(study_id=study.id)
        got = study_pb2_grpc.StudyServiceStub(channel).GetStudyStatus(request, timeout=CALL_SECONDS)
    return Progress(
        study_id=study.id.hex(),
        state=study_pb2.StudyState.Name(got.state).removeprefix("STUDY_STATE_").lower(),
        pending_rows=got.pending_rows,
        masking_rows=got.masking_rows,
        pooled_rows=got.pooled_rows,
        published_rows=got.published_rows,
        pooled_blocks=got.pooled_blocks,
        failed_attempts=got.failed_attempts,
        releases=got.releases,
        note=got.note,
        refusals={
            node.role: {item.reason: item.count for item in node.counts} if node.reachable else None
            for node in got.refusals
        },
    )


def render_status(progress: Progress) -> RenderableType:
    """The status as a table."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("study", progress.study_id)
    table.add_row("state", progress.state)
    table.add_row("complete, waiting for a block", f"{progress.pending_rows:,} rows")
    table.add_row("being masked", f"{progress.masking_rows:,} rows")
    table.add_row("pooled", f"{progress.pooled_rows:,} rows ({progress.pooled_blocks:,} blocks so far)")
    table.add_row("published", f"{progress.published_rows:,} rows in {progress.releases:,} releases")
    if progress.failed_attempts:
        table.add_row("attempts that failed and were repeated", f"{progress.failed_attempts:,}")
    for role, counts in progress.refusals.items():
        if counts is None:
            table.add_row(f"{role}", Text("did not answer", style="red"))
        elif counts:
            words = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items()))
            table.add_row(f"refused by {role}", words)
    return Group(table, Text(progress.note, style="yellow")) if progress.note else table


def _as_owner(
    study: Study, owner: Path, call: Callable[[study_pb2_grpc.StudyOwnerServiceStub], object]
) -> None:
    party = study.collector
    with (
        plain_errors(party.peer_address),
        open_channel(
            party.peer_address, study.tls_roots, party.tls_name, owner / "tls.pem", owner / "tls.key"
        ) as channel,
    ):
        call(study_pb2_grpc.StudyOwnerServiceStub(channel))
