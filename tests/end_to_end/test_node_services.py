"""What every node serves: health, reflection, its own description; and refusal counts that outlive a restart."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from trimask_cli import owner
from trimask_client import Client
from trimask_client.grpc_channel import open_channel
from trimask_core.basics.errors import Refused
from trimask_core.study.party import admission_key
from trimask_core.study.signed import sign_close
from trimask_lab import Lab
from trimask_proto.v1 import node_pb2, node_pb2_grpc, right_batches_pb2, right_batches_pb2_grpc
from trimask_proto.v1.common_pb2 import CloseOrder

PEER_SERVICES = {
    "collector": {
        "CollectionService",
        "StudyOwnerService",
        "ReleaseOwnerService",
        "NodeService",
        "StudyService",
        "DatasetService",
        "ReleaseService",
        "AdmissionOwnerService",
        "ProposalService",
        "OperatorService",
    },
    "R1": {
        "RightBatchService",
        "RowCheckService",
        "RowDrawService",
        "RowCheckPeerService",
        "InvitationService",
        "RightMaskingService",
        "MomentsService",
        "MomentsPeerService",
        "UnmaskingService",
        "NodeService",
        "ProposalService",
        "OperatorService",
    },
    "L1": {
        "LeftMaskingService",
        "UnmaskingService",
        "NodeService",
        "ProposalService",
        "OperatorService",
    },
}
PUBLIC_SERVICES = {
    "collector": {"StudyService", "DatasetService", "ReleaseService"},
    "R1": {"SubmissionService"},
}


def _services(channel: grpc.Channel) -> set[str]:
    assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status == 1
    names = ProtoReflectionDescriptorDatabase(channel).get_services()
    ours = {name.rsplit(".", 1)[1] for name in names if name.startswith("trimask_proto.v1.")}
    for name in ours:
        request = health_pb2.HealthCheckRequest(service=f"trimask_proto.v1.{name}")
        assert health_pb2_grpc.HealthStub(channel).Check(request).status == 1
    return ours


@pytest.mark.parametrize("name", PEER_SERVICES)
def test_peer_port(lab: Lab, name: str) -> None:
    with lab.channel_as("owner", to=name) as channel:
        assert _services(channel) == PEER_SERVICES[name]


@pytest.mark.parametrize("name", PUBLIC_SERVICES)
def test_public_port_serves_nothing_meant_for_peers(lab: Lab, name: str) -> None:
    party = lab.parties[name]
    with open_channel(party.address, lab.owner / "ca.pem", tls_name=party.tls_name) as channel:
        assert _services(channel) == PUBLIC_SERVICES[name]


def test_node_describes_itself(lab: Lab) -> None:
    with lab.channel_as("owner", to="R1") as channel:
        answer = node_pb2_grpc.NodeServiceStub(channel).DescribeNode(node_pb2.DescribeNodeRequest())
    assert (answer.role, answer.name) == ("right", "R1")
    assert answer.identity == lab.parties["R1"].identity
    assert len(answer.boot_id) == 16


def test_listing_what_waits_does_not_stop_intake_and_stopping_does(lab: Lab) -> None:
    signed = lab.open_study()
    study_id = signed.study.id
    with Client(signed, attempts=1) as client, lab.channel_as("collector", to="R1") as channel:
        stub = right_batches_pb2_grpc.RightBatchServiceStub(channel)
        kept = client.submit({"x": 1.0, "y": 1.0})
        listed = stub.ListPending(right_batches_pb2.ListPendingRequest(study_id=study_id))
        assert listed.submission_ids == kept.submission_id
        client.submit({"x": 2.0, "y": 2.0})
        late = client.prepare({"x": 3.0, "y": 3.0})
        order = CloseOrder(study_id=study_id, close_time_ms=1 << 47)
        order.signature = sign_close(admission_key(lab.owner), order)
        with pytest.raises(grpc.RpcError, match="a later time"):
            stub.StopIntake(right_batches_pb2.StopIntakeRequest(order=order))
        order.close_time_ms = 0  # which the owner has not signed
        with pytest.raises(grpc.RpcError, match="the owner's order to close does not verify"):
            stub.StopIntake(right_batches_pb2.StopIntakeRequest(order=order))
        client.submit({"x": 2.0, "y": 3.0})
        order.signature = sign_close(admission_key(lab.owner), order)
        for _ in range(2):  # stopping twice is stopping once
            stub.StopIntake(right_batches_pb2.StopIntakeRequest(order=order))
        with pytest.raises(Refused, match="no more submissions"):
            client.upload(late, 1)
        client.upload(late, 2)  # each provider is told for itself
        stub.EraseStudy(right_batches_pb2.EraseStudyRequest(study_id=study_id))
        stub.StopIntake(right_batches_pb2.StopIntakeRequest(order=order))  # a late copy opens nothing again
        assert lab.query("R1", "SELECT state FROM studies WHERE study_id = ?", (study_id,)) == [("closed",)]


def test_refusals_are_counted_across_restarts_and_shown_to_the_owner(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lab = Lab(tmp_path)
    with lab.in_thread(request) as cluster:
        signed = lab.open_study()
        with Client(lab.new_study(), attempts=1) as stranger, pytest.raises(Refused):
            stranger.submit({"x": 1.0, "y": 1.0})
        before = cluster.nodes["R1"].context.boot_id
        lab.stop("R1")
        lab.start("R1")
        assert cluster.nodes["R1"].context.boot_id != before
        status = owner.study_status(signed.study)
        assert status.refusals["R1"] == {"unknown_study": 1}
        lab.stop("R2")
        lab.wait(signed.study, lambda status: status.refusals["R2"] is None)
        lab.start("R2")


def _calls(lab: Lab, rpc: str) -> float:
    """How often the collector has made a call, all its workers together."""
    nodes = lab.nodes("collector")
    return sum(
        node.context.metrics.peer_calls.labels(f"RightBatchService/{rpc}", "ok")._value.get()
        for node in nodes
    )


def _in_three_questions(lab: Lab) -> float:
    """How often right providers were asked what waits in some study while each was asked for news three times."""
    news, asked = _calls(lab, "ListNews"), _calls(lab, "ListPending")
    lab.until(lambda: _calls(lab, "ListNews") >= news + 3 * lab.right)
    return _calls(lab, "ListPending") - asked


def test_open_studies_at_rest_are_asked_about_together_and_what_comes_is_found(lab: Lab) -> None:
    studies = [lab.open_study() for _ in range(3)]
    lab.until(lambda: _in_three_questions(lab) == 0)
    with Client(studies[1], attempts=1) as client:
        client.submit({"x": 1.0, "y": 1.0})
    lab.wait(studies[1].study, lambda status: status.pending_rows == 1)
