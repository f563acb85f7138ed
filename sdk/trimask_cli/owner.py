"""What an owner's commands share: calls to the study's collector, and approvals.

Open and close are the owner's, status is anybody's. A party approves a study with the keys in its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask.data.catalogue import AbandonedBlock, StudyStatus
from trimask.data.connection import connect
from trimask_client.grpc_channel import open_channel, plain_errors
from trimask_core.basics.errors import ConfigError
from trimask_core.crypto.identity import SigningKey
from trimask_core.moments.check import MomentsSecret
from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key, read_secret
from trimask_core.study.progress import Closing, sign_abandon, sign_close, waiting_of
from trimask_core.study.signed import Approval, SignedStudy, approve, needs_commitment
from trimask_proto.v1 import release_pb2, release_pb2_grpc, study_pb2, study_pb2_grpc
from trimask_proto.v1.common_pb2 import CloseOrder

CALL_SECONDS = 30.0


def open_study(signed: SignedStudy, owner: Path, open_ms: int = 0) -> None:
    """Hand a study that every party approved to the collector, as its owner; it opens now, or at a time."""
    request = study_pb2.OpenStudyRequest(signed_study=signed.to_json().encode(), open_time_ms=open_ms)
    _as_owner(signed.study, owner, lambda c: _studies(c).OpenStudy(request, timeout=CALL_SECONDS))


def close_study(
    study: Study, owner: Path, told: Closing | None = None, *, close_ms: int = 0, people: int = 0
) -> None:
    """Order the study closed, as its owner, now, at a time or with so many people: whatever is there, or if it does no worse
    than the owner was `told`."""
    order = CloseOrder(study_id=study.id, close_time_ms=close_ms, close_people=people)
    if told is not None:
        order.published_rows, order.erased_rows = told.published, told.erased
    with owner_channel(study, owner) as channel:
        order.signature = sign_close(admission_key(owner), order)
        _studies(channel).CloseStudy(study_pb2.CloseStudyRequest(order=order), timeout=CALL_SECONDS)


@dataclass(frozen=True)
class Abandoned:
    """A block or release that its owner named: itself, how it was in words, and whether that was healthy."""

    block: AbandonedBlock
    state: str
    healthy: bool


def abandon_block(
    study: Study, block: bytes | int, owner: Path, *, healthy: bool = False, look: bool = False
) -> Abandoned:
    """Give a block up, or a release by its number, as the study's owner; its rows are erased. `healthy`: also if nothing is
    wrong with it. `look`: only say how it is."""
    request = study_pb2.AbandonBlockRequest(study_id=study.id, healthy=healthy, look=look)
    if isinstance(block, int):
        request.release_number = block
    else:
        request.block_id = block
    return _abandon(study, request, owner)


def abandon_draw(
    study: Study, number: int, owner: Path, *, healthy: bool = False, look: bool = False
) -> Abandoned:
    """The same of a draw that does not come to its end, by an order that right providers verify; every row in it is
    erased."""
    signature = sign_abandon(admission_key(owner), study.id, number)
    request = study_pb2.AbandonBlockRequest(
        study_id=study.id, draw_number=number, order_signature=signature, healthy=healthy, look=look
    )
    return _abandon(study, request, owner)


def _abandon(study: Study, request: study_pb2.AbandonBlockRequest, owner: Path) -> Abandoned:
    with owner_channel(study, owner) as channel:
        answer = _studies(channel).AbandonBlock(request, timeout=CALL_SECONDS)
    named = AbandonedBlock(answer.block.block_id.hex(), answer.block.rows, answer.block.why)
    return Abandoned(named, answer.state, answer.healthy)


def end_releases(study: Study, owner: Path) -> None:
    """End private answers and have the factor erased, as the study's owner."""
    request = release_pb2.EndReleasesRequest(study_id=study.id)
    _as_owner(
        study,
        owner,
        lambda c: release_pb2_grpc.ReleaseOwnerServiceStub(c).EndReleases(request, timeout=CALL_SECONDS),
    )


def study_status(study: Study) -> StudyStatus:
    """Ask the collector; anybody who has the study may."""
    party = study.collector
    with connect(party.address, roots=study.tls_roots or None, tls_name=party.tls_name) as connection:
        return connection.status(study.id)


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
        for item in waiting_of(
            study,
            pending=progress.pending_rows,
            masking=progress.masking_rows,
            pooled=progress.pooled_rows,
            closing=progress.state == "closing",
        ):
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


def _studies(channel: grpc.Channel) -> study_pb2_grpc.StudyOwnerServiceStub:
    return study_pb2_grpc.StudyOwnerServiceStub(channel)


def _as_owner(study: Study, owner: Path, call: Callable[[grpc.Channel], object]) -> None:
    with owner_channel(study, owner) as channel:
        call(channel)


@contextmanager
def owner_channel(study: Study, owner: Path, role: str = "collector") -> Iterator[grpc.Channel]:
    """A channel to a party of the study with the owner's certificate; failures inside come out as plain errors."""
    party = study.party(role)
    missing = [name for name in ("tls.pem", "tls.key") if not (owner / name).is_file()]
    if missing:
        raise ConfigError(
            f"{owner} has no {' and no '.join(missing)}: --owner is the owner's folder of keys, such as keys/owner"
        )
    with (
        plain_errors(party.peer_address),
        open_channel(
            party.peer_address, study.tls_roots, party.tls_name, owner / "tls.pem", owner / "tls.key"
        ) as channel,
    ):
        yield channel


def role_in(study: Study, keys: Path) -> str:
    """The role that these keys have in the study."""
    return study.role_of(_identity(keys).public)


def sign(study: Study, keys: Path, now_ms: int) -> Approval:
    """The approval; a right provider's in the moments suite commits to its part of the challenge key."""
    identity = _identity(keys)
    commitment = b""
    if needs_commitment(study, study.role_of(identity.public)):
        commitment = MomentsSecret.load(keys).commitment(study.id)
    return approve(study, identity, now_ms, commitment)


def _identity(keys: Path) -> SigningKey:
    path = keys / "identity.key"
    if not path.is_file():
        raise ConfigError(
            f"{keys} has no identity.key: give the folder of one party's own keys, such as keys/R1"
        )
    return SigningKey(read_secret(path))
