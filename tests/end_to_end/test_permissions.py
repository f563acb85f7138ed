"""Every call in every role, over real TLS: docs/permissions.md is what happens, cell by cell."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory

from trimask_cli import invitations, owner
from trimask_client.grpc_channel import open_channel
from trimask_core.basics.errors import ConfigError
from trimask_lab import Lab
from trimask_moments import open_moments
from trimask_patience import patience
from trimask_proto.v1 import governance_pb2
from trimask_proto.v1.submission_pb2 import SubmitManyResponse
from trimask_server.access import permissions
from trimask_server.access.permissions import Role
from trimask_server.local.cluster import ThreadCluster
from trimask_server.local.keys import issue_certificate, load_authority

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "permissions.md"
REASON = "trimask-reason"
FAR = 4_000_000_000_000
SERVED = {
    "collector": [
        "StudyService", "DatasetService", "ReleaseService", "StudyOwnerService", "ReleaseOwnerService",
        "AdmissionOwnerService", "CollectionService", "NodeService", "ProposalService", "OperatorService",
    ],
    "R1": [
        "SubmissionService", "RightBatchService", "RightMaskingService", "UnmaskingService", "NodeService",
        "ProposalService", "OperatorService", "MomentsService", "MomentsPeerService", "InvitationService",
        "RowDrawService", "RowCheckService", "RowCheckPeerService",
    ],
    "L1": ["LeftMaskingService", "UnmaskingService", "NodeService", "ProposalService", "OperatorService"],
}  # fmt: skip
CERTIFICATES = {
    "owner": "owner",
    "collector": "collector",
    "right": "R1",
    "left": "L1",
    "stranger": "stranger",
}
DENIED = {"not_your_role", "bad_token", "no_invitation"}


def page_cells() -> dict[tuple[str, str], bool]:
    """(Service.Method, role) as the page has it. The page, which people read, is what the calls are held to."""
    rows = re.findall(r"^- `(\w+Service)` (.+?): \*\*(.+?)\*\*", PAGE.read_text(), re.MULTILINE)
    return {
        (f"{row[0]}.{method}", role): not {"anyone", role}.isdisjoint(row[2].split(", "))
        for row in rows
        for method in row[1].split(", ")
        for role in Role
    }


CELLS = page_cells()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A cluster with an open study, an invited one whose datasets need a token, and everybody's credentials."""
    lab: Any = Lab(tmp_path_factory.mktemp("permissions"), 2, 1)
    stranger = lab.folder / "stranger"
    stranger.mkdir()
    issued = issue_certificate(load_authority(lab.folder / "authority"), "nobody.trimask.local")
    (stranger / "tls.pem").write_bytes(issued.certificate)
    (stranger / "tls.key").write_bytes(issued.private_key)
    (stranger / "ca.pem").write_bytes((lab.owner / "ca.pem").read_bytes())
    with lab.in_thread(request):
        lab.signed = lab.open_study()
        lab.moments = open_moments(lab)
        lab.invited = lab.open_study(admission="invited", access="token")
        owner.propose(lab.signed, lab.owner)
        lab.token, _ = owner.new_token(
            lab.invited.study, lab.owner, "Ada", ["datasets", "releases"], FAR, None
        )
        (link,) = invitations.make_invitations(lab.invited.study, lab.owner, 1, FAR, lambda _: None)
        lab.invitation = link.invitation
        yield lab


def channel(lab: Any, role: str, node: str) -> grpc.Channel:
    party = lab.parties[node]
    if role in CERTIFICATES:
        return lab.channel_as(CERTIFICATES[role], to=node)
    if role == "operator":
        keys = lab.folder / node / "operator"
        return open_channel(
            party.peer_address, lab.owner / "ca.pem", party.tls_name, keys / "tls.pem", keys / "tls.key"
        )
    token = lab.token if role == "researcher" else None
    # A left provider has no public port: without a certificate there is only its peer port to knock at.
    return open_channel(
        party.address or party.peer_address, lab.owner / "ca.pem", party.tls_name, token=token
    )


def make_request(lab: Any, service: str, method: str, role: str, *, allowed: bool) -> Any:
    """About a study that is there for a call that must be denied, about none for one that must pass the gate only."""
    kind = descriptor_pool.Default().FindServiceByName(f"trimask_proto.v1.{service}").methods_by_name[method]
    request = message_factory.GetMessageClass(kind.input_type)()
    names = {field.name for field in kind.input_type.fields}
    real = lab.moments if service.startswith("Moments") else lab.signed
    study_id = bytes(32) if allowed else real.study.id
    if method == "Submit":
        request.study_id, request.submission_id = lab.invited.study.id, bytes(16)
        request.invitation = lab.invitation.to_bytes() if role == "device" else b""
    elif method == "SubmitMany":
        one = make_request(lab, service, "Submit", role, allowed=allowed)
        request.study_id = one.study_id
        request.submissions.append(one)
    elif method == "AskRelease" and role == "researcher":
        request.study_id = lab.invited.study.id  # which the token is for; it has no budget
    elif "study_id" in names:
        request.study_id = study_id
    elif "attempt" in names:
        request.attempt.study_id = study_id
        if "component" in names:
            request.component = 1
    for inside in names & {"totals", "draw", "check", "order"}:
        getattr(request, inside).study_id = study_id
    if "signed_study" in names:
        request.signed_study = lab.signed.without_seed().to_json().encode()
    if method == "DrainNode":
        request.resume = True
    return request


def make_call(lab: Any, opened: grpc.Channel, service: str, method: str, request: Any) -> str:
    """The reason of a refusal; "ok" or the status otherwise."""
    call = opened.unary_unary(
        f"/trimask_proto.v1.{service}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
    )
    try:
        answer = call(request, timeout=patience(10))
    except grpc.RpcError as error:
        found: Any = error
        return dict(found.trailing_metadata() or ()).get(REASON) or found.code().name
    if method == "SubmitMany":  # whose refusals are in its answer, one a submission
        return SubmitManyResponse.FromString(answer).outcomes[0].reason or "ok"
    return "ok"


def expected_reason(service: str, method: str, role: str, node: str) -> str:
    anonymous = role in ("anyone", "device", "researcher")
    if anonymous and node == "L1":
        return "UNAVAILABLE"  # the handshake fails before there is a call
    if method in ("Submit", "SubmitMany") and anonymous:
        return "no_invitation"  # in an invited study, whoever comes without one is anyone, and not a device
    if method == "AskRelease" and anonymous:
        return "bad_token"
    return "not_your_role"


def cells_of(node: str) -> Iterator[tuple[str, str, str, bool]]:
    for service in SERVED[node]:
        for method in descriptor_pool.Default().FindServiceByName(f"trimask_proto.v1.{service}").methods:
            for role in (*Role, "stranger"):
                by_all = all(CELLS[f"{service}.{method.name}", name] for name in Role)
                # A node restored to before its studies knows no peer, and must still say that it was restored.
                by_all = by_all or method.name == "DescribeNode"
                allowed = by_all if role == "stranger" else CELLS[f"{service}.{method.name}", role]
                yield service, method.name, role, allowed


# Refusals and the log of them; what a node writes of its own accord.
MOVING = {
    "refusals", "audit", "audit_head", "witnessed_heads", "jobs", "progress", "provider_generations", "sqlite_sequence",
    "store_writers", "store_facts",
}  # fmt: skip


def state_of(lab: Any, node: str) -> dict[str, list[Any]]:
    """Everything a node keeps, but for refusals and the log of them."""
    tables = (
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        if lab.database
        else "SELECT name FROM sqlite_master WHERE type = 'table'"
    )
    kept = {name for (name,) in lab.query(node, tables)} - MOVING
    return {name: lab.query(node, f"SELECT * FROM {name} ORDER BY 1") for name in sorted(kept)}  # noqa: S608


def flush(lab: Any, node: str) -> Counter[str]:
    """The refusals in the audit log so far."""
    total: Counter[str] = Counter()
    for running in lab.nodes(node):
        lab.on_loop(running.host.save_refusals())
    for entry in lab.on_loop(lab.nodes(node)[0].context.audit.read(0, 10**6)):
        if entry.kind == "requests_refused":
            total.update(json.loads(entry.details)["counts"])
    return total


def test_there_is_a_cell_for_every_call_and_role() -> None:
    assert len(CELLS) == len(Role) * sum(name.startswith("/trimask_proto") for name in permissions.TABLE)


@pytest.mark.parametrize("node", SERVED)
def test_every_cell(place: Any, node: str) -> None:
    before, audited = state_of(place, node), flush(place, node)
    counted = place.refusals(node)
    wrong: list[str] = []
    expected: Counter[str] = Counter()
    passed = 0
    with ExitStack() as stack:
        channels = {role: stack.enter_context(channel(place, role, node)) for role in (*Role, "stranger")}
        for allowed_now in (
            False,
            True,
        ):  # what must be denied first, so that nothing else moves the state meanwhile
            for service, method, role, allowed in cells_of(node):
                if allowed is not allowed_now:
                    continue
                request = make_request(place, service, method, role, allowed=allowed)
                found = make_call(place, channels[role], service, method, request)
                cell = f"{service}.{method} as {role}: {found}"
                if allowed:
                    passed += 1
                    if found in DENIED or (found == "UNAVAILABLE"):
                        wrong.append(cell)
                    continue
                reason = expected_reason(service, method, role, node)
                if found != reason:
                    wrong.append(f"{cell}, not {reason}")
                if reason != "UNAVAILABLE":
                    expected[reason] += 1
            if not allowed_now:
                assert wrong == []
                assert state_of(place, node) == before
                assert place.refusals(node) - counted == expected
                assert flush(place, node) - audited == expected  # an audit entry for every one of them
    assert wrong == []
    assert passed > 10
    assert sum(expected.values()) > 50


def test_an_operator_is_that_nodes_and_no_authority_can_make_one(place: Any, tmp_path: Path) -> None:
    request = governance_pb2.GetNodeStatusRequest()
    party = place.parties["R1"]

    def status_of(certificate: Path, key: Path) -> str:
        with open_channel(
            party.peer_address, place.owner / "ca.pem", party.tls_name, certificate, key
        ) as opened:
            return make_call(place, opened, "OperatorService", "GetNodeStatus", request)

    own, others = place.folder / "R1" / "operator", place.folder / "R2" / "operator"
    assert status_of(own / "tls.pem", own / "tls.key") == "ok"
    assert status_of(others / "tls.pem", others / "tls.key") == "UNAVAILABLE"
    forged = issue_certificate(load_authority(place.folder / "authority"), "operator.trimask.local")
    (tmp_path / "pem").write_bytes(forged.certificate)
    (tmp_path / "key").write_bytes(forged.private_key)
    assert status_of(tmp_path / "pem", tmp_path / "key") == "not_your_role"


def test_a_call_that_is_not_in_the_table_stops_the_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(permissions.TABLE, "/trimask_proto.v1.NodeService/DescribeNode")
    lab = Lab(tmp_path, 2, 1)
    cluster = ThreadCluster(lab.folder)
    with pytest.raises(ConfigError, match=r"DescribeNode is not in the permission table"), cluster:
        pass
    cluster.__exit__(None, None, None)


def test_a_call_served_elsewhere_is_said_to_be(place: Any) -> None:
    with channel(place, "owner", "R1") as opened:
        request = make_request(place, "StudyService", "ListStudies", "owner", allowed=True)
        assert make_call(place, opened, "StudyService", "ListStudies", request) == "not_served"


PEER_CALLS = ["Introduce", "GetForms", "GetVerdict", "CompareLedger"]


@pytest.mark.parametrize("method", PEER_CALLS)
def test_right_providers_talk_to_each_other_and_not_to_themselves(place: Any, method: str) -> None:
    """The table admits every right provider; which of them may call is decided for the study in the request."""
    request = make_request(place, "MomentsPeerService", method, "right", allowed=False)

    def as_party(name: str) -> str:
        with place.channel_as(name, to="R1") as opened:
            return make_call(place, opened, "MomentsPeerService", method, request)

    assert as_party("R1") == "not_your_role"
    assert as_party("R2") not in DENIED  # refused for what it asks, which is empty


@pytest.mark.parametrize("method", ["CheckBatch", "CommitTotals", "DeliverTotals", *PEER_CALLS])
def test_calls_of_the_moments_suite_about_a_study_of_rows_are_refused(place: Any, method: str) -> None:
    service = "MomentsPeerService" if method in PEER_CALLS else "MomentsService"
    request = make_request(place, service, method, "collector", allowed=False)
    inner = next(
        (getattr(request, name) for name in ("attempt", "totals") if hasattr(request, name)), request
    )
    inner.study_id = place.signed.study.id
    with place.channel_as("R2" if method in PEER_CALLS else "collector", to="R1") as opened:
        assert make_call(place, opened, service, method, request) == "malformed"
