"""Proposes a study to every node's operator through the collector, and gathers their decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from trimask.errors import Refused
from trimask_cli import study_file
from trimask_cli.owner import owner_channel
from trimask_core.basics.errors import StudyError
from trimask_core.basics.refusals import Reason
from trimask_core.study.signed import Approval, SignedStudy
from trimask_proto.v1 import study_pb2
from trimask_proto.v1.study_pb2_grpc import StudyOwnerServiceStub
from trimask_terminal.study_view import decision_word

_SECONDS = 30.0
_STYLES = {"approved": "green", "refused": "bold red", "waiting": "yellow", "not reached": "red"}


def propose(signed: SignedStudy, owner: Path) -> list[study_pb2.PartyDecision]:
    """Hand a study to every operator; the seed of B_0 is not sent."""
    request = study_pb2.SendProposalRequest(signed_study=signed.without_seed().to_json().encode())
    with owner_channel(signed.study, owner) as channel:
        return list(StudyOwnerServiceStub(channel).SendProposal(request, timeout=_SECONDS).parties)


def gather(signed: SignedStudy, owner: Path) -> tuple[SignedStudy, list[study_pb2.PartyDecision]]:
    """The study with the approvals operators have given since, and what each decided."""
    request = study_pb2.GatherApprovalsRequest(study_id=signed.study.id)
    with owner_channel(signed.study, owner) as channel:
        parties = list(StudyOwnerServiceStub(channel).GatherApprovals(request, timeout=_SECONDS).parties)
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


def render(signed: SignedStudy, parties: list[study_pb2.PartyDecision]) -> Table:
    """Who decided what."""
    table = Table(box=None, pad_edge=False)
    for heading in ("party", "organisation", "decision", "reason"):
        table.add_column(heading, header_style="dim")
    for item in decisions(parties):
        word = item["decision"]
        organisation = signed.study.party(item["role"]).organisation
        table.add_row(item["role"], organisation, Text(word, style=_STYLES[word]), item["reason"])
    return table
