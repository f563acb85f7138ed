"""What an owner's commands share: calls to the study's collector, approvals, proposals to operators, researchers' tokens.

Open and close are the owner's, status is anybody's. A party approves a study with the keys in its folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from rich.table import Table
from rich.text import Text

from trimask.data.connection import AbandonedBlock, Connection, StudyStatus, connect
from trimask.errors import Refused
from trimask_cli import study_file
from trimask_client.grpc_channel import open_channel, plain_errors
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError, StudyError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey
from trimask_core.moments.report import MomentsSecret
from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key, read_secret
from trimask_core.study.progress import Closing
from trimask_core.study.signed import (
    Approval,
    SignedStudy,
    approve,
    needs_commitment,
    sign_abandon,
    sign_close,
)
from trimask_proto.v1 import admission_pb2, release_pb2, release_pb2_grpc, study_pb2
from trimask_proto.v1.admission_pb2_grpc import AdmissionOwnerServiceStub
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.study_pb2_grpc import StudyOwnerServiceStub
from trimask_terminal.options import shown_time
from trimask_terminal.study_view import decision_word

CALL_SECONDS = 30.0


def open_study(signed: SignedStudy, owner: Path, open_ms: int = 0) -> None:
    """Hand a study that every party approved to the collector, as its owner; it opens now, or at a time."""
    request = study_pb2.OpenStudyRequest(signed_study=signed.to_json().encode(), open_time_ms=open_ms)
    with owner_channel(signed.study, owner) as channel:
        StudyOwnerServiceStub(channel).OpenStudy(request, timeout=CALL_SECONDS)


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
        StudyOwnerServiceStub(channel).CloseStudy(
            study_pb2.CloseStudyRequest(order=order), timeout=CALL_SECONDS
        )


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
        answer = StudyOwnerServiceStub(channel).AbandonBlock(request, timeout=CALL_SECONDS)
    named = AbandonedBlock(answer.block.block_id.hex(), answer.block.rows, answer.block.why)
    return Abandoned(named, answer.state, answer.healthy)


def end_releases(study: Study, owner: Path) -> None:
    """End private answers and have the factor erased, as the study's owner."""
    request = release_pb2.EndReleasesRequest(study_id=study.id)
    with owner_channel(study, owner) as channel:
        release_pb2_grpc.ReleaseOwnerServiceStub(channel).EndReleases(request, timeout=CALL_SECONDS)


def study_status(study: Study) -> StudyStatus:
    """Ask the collector; anybody who has the study may."""
    with connected(study) as connection:
        return connection.status(study.id)


def connected(study: Study, token: str | None = None) -> Connection:
    """A connection to the study's collector, as anybody has one, or with a researcher's token."""
    party = study.collector
    return connect(party.address, roots=study.tls_roots or None, tls_name=party.tls_name, token=token)


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


_DIGITS = 4


def new_token(
    study: Study, owner: Path, name: str, scopes: list[str], expires_ms: int, out: Path | None
) -> tuple[str, dict[str, Any]]:
    """A new token and how it is listed; written to `out`, for its owner's eyes, if given."""
    descriptor = None
    if out is not None:  # before the token is made: it is shown once
        try:
            descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConfigError(f"{out} exists already; give another --out") from None
    request = admission_pb2.CreateTokenRequest(
        study_id=study.id, name=name, scopes=scopes, expire_time_ms=expires_ms
    )
    try:
        with owner_channel(study, owner) as channel:
            made = AdmissionOwnerServiceStub(channel).CreateToken(request, timeout=CALL_SECONDS)
    except BaseException:
        if out is not None:
            out.unlink()
        raise
    if descriptor is not None:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(made.token + "\n")
    return made.token, _entry(made.summary)


def tokens(study: Study, owner: Path) -> list[dict[str, Any]]:
    """A study's tokens."""
    request = admission_pb2.ListTokensRequest(study_id=study.id)
    with owner_channel(study, owner) as channel:
        found = AdmissionOwnerServiceStub(channel).ListTokens(request, timeout=CALL_SECONDS)
    return [_entry(item) for item in found.tokens]


def revoke_token(study: Study, owner: Path, token_id: str) -> str:
    """End a token, named by its id or by enough of its first digits; its whole id."""
    found = [
        item["id"]
        for item in tokens(study, owner)
        if len(token_id) >= _DIGITS and item["id"].startswith(token_id)
    ]
    if len(found) > 1:
        raise ConfigError(f"{len(found)} tokens begin with {token_id}; give more of its digits")
    token_id = found[0] if found else token_id
    request = admission_pb2.RevokeTokenRequest(study_id=study.id, token_id=token_id)
    with owner_channel(study, owner) as channel:
        AdmissionOwnerServiceStub(channel).RevokeToken(request, timeout=CALL_SECONDS)
    return token_id


def render_tokens(entries: list[dict[str, Any]]) -> Table | Text:
    """Tokens as a table."""
    if not entries:
        return Text("No tokens yet; `trimask study token new` makes one.")
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "for", "scopes", "made", "until", "state"):
        table.add_column(heading, header_style="dim", no_wrap=heading == "id")  # an id is copied whole
    for item in entries:
        table.add_row(
            item["id"],
            item["name"],
            ", ".join(item["scopes"]),
            shown_time(item["created_ms"]),
            shown_time(item["expires_ms"]),
            Text(item["state"], style="green" if item["state"] == "valid" else "red"),
        )
    return table


def _entry(item: admission_pb2.TokenSummary) -> dict[str, Any]:
    over = item.expire_time_ms <= SystemClock().now_ms()
    return {
        "id": item.token_id,
        "name": item.name,
        "scopes": list(item.scopes),
        "created_ms": item.create_time_ms,
        "expires_ms": item.expire_time_ms,
        "state": "revoked" if item.revoke_time_ms else "expired" if over else "valid",
    }


_STYLES = {"approved": "green", "refused": "bold red", "waiting": "yellow", "not reached": "red"}


def propose(signed: SignedStudy, owner: Path) -> list[study_pb2.PartyDecision]:
    """Hand a study to every operator; the seed of B_0 is not sent."""
    request = study_pb2.SendProposalRequest(signed_study=signed.without_seed().to_json().encode())
    with owner_channel(signed.study, owner) as channel:
        return list(StudyOwnerServiceStub(channel).SendProposal(request, timeout=CALL_SECONDS).parties)


def gather(signed: SignedStudy, owner: Path) -> tuple[SignedStudy, list[study_pb2.PartyDecision]]:
    """The study with the approvals operators have given since, and what each decided."""
    request = study_pb2.GatherApprovalsRequest(study_id=signed.study.id)
    with owner_channel(signed.study, owner) as channel:
        parties = list(StudyOwnerServiceStub(channel).GatherApprovals(request, timeout=CALL_SECONDS).parties)
    for party in parties:
        if party.approval:
            try:
                approval = Approval.from_dict(json.loads(party.approval))
            except (ValueError, KeyError, TypeError):
                raise StudyError(f"{party.role} sent an approval that cannot be read") from None
            if approval.role != party.role:
                raise StudyError(f"{party.role} sent an approval of {approval.role}")
            signed = signed.with_approval(approval)
    return signed, parties


def gather_missing(path: Path, signed: SignedStudy, owner: Path) -> SignedStudy:
    """Complete a study that was proposed, and its file; one that was not is left as it is."""
    try:
        signed, _ = gather(signed, owner)
    except Refused as error:
        if error.reason in (
            Reason.UNKNOWN_STUDY,
            "unimplemented",
        ):  # not proposed; a collector without proposals
            return signed
        raise
    study_file.write_signed(path, signed, replace=True)
    return signed


def decisions(parties: list[study_pb2.PartyDecision]) -> list[dict[str, Any]]:
    """JSON-ready."""
    return [
        {"role": party.role, "decision": decision_word(party.decision), "reason": party.reason}
        for party in parties
    ]


def render_decisions(signed: SignedStudy, parties: list[study_pb2.PartyDecision]) -> Table:
    """Who decided what."""
    table = Table(box=None, pad_edge=False)
    for heading in ("party", "organisation", "decision", "reason"):
        table.add_column(heading, header_style="dim")
    for item in decisions(parties):
        word = item["decision"]
        organisation = signed.study.party(item["role"]).organisation
        table.add_row(item["role"], organisation, Text(word, style=_STYLES[word]), item["reason"])
    return table
