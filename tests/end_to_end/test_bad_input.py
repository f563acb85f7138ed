"""Bad input at every door: a clear error, a counter, and nothing that was accepted is lost."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from trimask_cli import owner
from trimask_client import Client, SealedSubmission, Unreachable
from trimask_client.grpc_channel import open_channel
from trimask_core.basics.errors import AnswerError, ApprovalError, ParameterError, Refused, TrimaskError
from trimask_core.crypto.keys import SigningKey, component_info, seal
from trimask_core.study.signed import Approval, SignedStudy, approve
from trimask_core.submit.release_files import plan_message
from trimask_lab import Lab, some_people
from trimask_moments import moments_people, open_moments
from trimask_patience import patience
from trimask_proto.v1 import (
    collection_pb2,
    collection_pb2_grpc,
    common_pb2,
    left_masking_pb2,
    left_masking_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    right_batches_pb2,
    right_batches_pb2_grpc,
    right_masking_pb2,
    right_masking_pb2_grpc,
    study_pb2,
    study_pb2_grpc,
    submission_pb2,
    submission_pb2_grpc,
    unmasking_pb2,
    unmasking_pb2_grpc,
)
from trimask_server.local.keys import issue_certificate, load_authority


@contextmanager
def counted(lab: Lab, name: str, reason: str) -> Iterator[None]:
    """The block raises one counted refusal at one node."""
    before = lab.refusals(name)[reason]
    yield
    # A message that is cut off is refused before the node has counted it.
    lab.until(lambda: lab.refusals(name)[reason] > before)
    assert lab.refusals(name)[reason] == before + 1


@contextmanager
def refused(code: grpc.StatusCode, *words: str) -> Iterator[None]:
    """A gRPC refusal whose message has these words."""
    with pytest.raises(grpc.RpcError) as caught:
        yield
    error: Any = caught.value
    assert error.code() is code, error.details()
    for word in words:
        assert word in error.details()


@pytest.fixture
def signed(lab: Lab) -> SignedStudy:
    study: SignedStudy = lab.open_study()
    return study


@pytest.fixture
def client(signed: SignedStudy) -> Iterator[Client]:
    with Client(signed, attempts=1) as client:
        yield client


# What a device sends


@pytest.mark.parametrize(
    ("answers", "attribute", "words"),
    [
        ({"x": 10.5, "y": 1.0}, "x", "between -10 and 10"),
        ({"x": float("nan"), "y": 1.0}, "x", "finite"),
        ({"x": float("inf"), "y": 1.0}, "x", "finite"),
        ({"x": "many", "y": 1.0}, "x", "number"),
        ({"x": 1.0}, "y", "needed"),
        ({"x": 1.0, "y": 1.0, "z": 1.0}, "z", "not asked"),
    ],
)
def test_answer_is_refused_on_the_device_by_name(
    client: Client, answers: dict[str, Any], attribute: str, words: str
) -> None:
    with pytest.raises(AnswerError, match=words) as caught:
        client.submit(answers)
    assert caught.value.attribute == attribute


def test_submit_to_unknown_study(lab: Lab, client: Client) -> None:
    with (
        Client(lab.new_study(), attempts=1) as other,  # approved, but never opened at the nodes
        counted(lab, "R1", "unknown_study"),
        pytest.raises(Refused, match="does not know that study") as caught,
    ):
        other.submit({"x": 1.0, "y": 1.0})
    assert caught.value.reason == "unknown_study"
    assert set(other.refusals) == {"unknown_study"}


def test_tampered_component(lab: Lab, client: Client) -> None:
    good = client.prepare({"x": 1.0, "y": 1.0})
    flipped = bytes([good.sealed[0][-1] ^ 1])
    bad = dataclasses.replace(good, sealed=(good.sealed[0][:-1] + flipped, *good.sealed[1:]))
    with counted(lab, "R1", "tampered_component"), pytest.raises(Refused, match="does not open"):
        client.send(bad)
    client.send(good)  # nothing was kept of the bad one, so the good one still goes in


def test_component_sealed_for_another_submission(lab: Lab, client: Client) -> None:
    one, two = client.prepare({"x": 1.0, "y": 1.0}), client.prepare({"x": 2.0, "y": 1.0})
    swapped = dataclasses.replace(one, sealed=two.sealed)
    with counted(lab, "R1", "tampered_component"), pytest.raises(Refused):
        client.send(swapped)


@pytest.mark.parametrize(
    "payload", [b"", b"\x01" + bytes(31), b"\x02" + bytes(8), b"\x03" + bytes(32), b"\x01" + bytes(33)]
)
def test_component_of_wrong_shape(lab: Lab, signed: SignedStudy, client: Client, payload: bytes) -> None:
    good = client.prepare({"x": 1.0, "y": 1.0})
    study = signed.study
    sealed = seal(study.right[0].sealing, payload, component_info(study.id, 1, good.submission_id))
    bad = dataclasses.replace(good, sealed=(sealed, *good.sealed[1:]))
    with counted(lab, "R1", "tampered_component"), pytest.raises(Refused, match="32-byte seed"):
        client.send(bad)


def test_vector_beyond_the_grid(lab: Lab, signed: SignedStudy, client: Client) -> None:
    good = client.prepare({"x": 1.0, "y": 1.0})
    study = signed.study
    huge = b"\x02" + np.full(study.rows.columns, 1 << 60, dtype="<i8").tobytes()
    sealed = seal(study.right[2].sealing, huge, component_info(study.id, 3, good.submission_id))
    with counted(lab, "R3", "tampered_component"), pytest.raises(Refused, match="53 bits"):
        client.send(dataclasses.replace(good, sealed=(*good.sealed[:2], sealed)))


def test_same_bytes_again_give_the_same_receipt(client: Client) -> None:
    submission = client.prepare({"x": 1.0, "y": 1.0})
    assert client.send(submission) == client.send(submission)


def test_same_id_with_other_bytes_is_a_conflict(lab: Lab, client: Client) -> None:
    one, two = client.prepare({"x": 1.0, "y": 1.0}), client.prepare({"x": 2.0, "y": 1.0})
    client.send(one)
    conflicting = SealedSubmission(one.study_id, one.submission_id, two.sealed)
    with counted(lab, "R1", "conflicting_submission"), pytest.raises(Refused, match="other bytes") as caught:
        client.send(conflicting)
    assert caught.value.reason == "conflicting_submission"


def test_submission_replayed_after_publication_is_not_counted_again(lab: Lab) -> None:
    signed = lab.open_study()
    people = some_people(48, seed=7)
    with Client(signed) as client:
        submissions = [client.prepare(answers) for answers in people]
        receipts = [client.send(submission) for submission in submissions]
        lab.close(signed.study)
        assert client.send(submissions[0]) == receipts[0]  # the old receipt, and no new row
        with counted(lab, "R1", "study_closed"), pytest.raises(Refused, match="no more submissions"):
            client.submit(people[0])
    (dataset,) = lab.datasets(signed.study)
    assert dataset.rows == 48


def test_oversized_component(lab: Lab, client: Client) -> None:
    good = client.prepare({"x": 1.0, "y": 1.0})
    bad = dataclasses.replace(good, sealed=(bytes(100_000), *good.sealed[1:]))
    with (
        counted(lab, "R1", "oversized_message"),
        pytest.raises(Refused, match="larger than this study's rows"),
    ):
        client.send(bad)


def test_oversized_message(lab: Lab, client: Client) -> None:
    good = client.prepare({"x": 1.0, "y": 1.0})
    bad = dataclasses.replace(good, sealed=(bytes(5 << 20), *good.sealed[1:]))
    with counted(lab, "R1", "oversized_message"), pytest.raises(Refused, match="larger than max"):
        client.send(bad)


def test_malformed_submission_id(lab: Lab, client: Client) -> None:
    good = client.prepare({"x": 1.0, "y": 1.0})
    with counted(lab, "R1", "malformed"), pytest.raises(Refused, match="16 bytes"):
        client.send(dataclasses.replace(good, submission_id=b"short"))


# Studies and approvals


def test_study_without_an_approval_is_refused_by_device_and_nodes(lab: Lab) -> None:
    signed = lab.new_study()
    partial = SignedStudy(signed.study, signed.approvals[:-1])
    with pytest.raises(ApprovalError, match="not approved yet by L2"):
        Client(partial)
    with (
        counted(lab, "collector", "not_approved"),
        pytest.raises(TrimaskError, match="not approved yet by L2"),
    ):
        owner.open_study(partial, lab.owner)


def test_forged_approval(lab: Lab) -> None:
    signed = lab.new_study()
    forged = signed.with_approval(
        Approval("R2", SigningKey.generate().sign("study-approval", signed.study.id), 1)
    )
    with pytest.raises(ApprovalError, match="approval of R2 does not verify"):
        Client(forged)
    with counted(lab, "collector", "not_approved"), pytest.raises(TrimaskError, match="R2"):
        owner.open_study(forged, lab.owner)


def test_changed_study_loses_its_approvals(lab: Lab) -> None:
    signed = lab.new_study()
    changed = dataclasses.replace(signed.study, purpose="something else")
    with pytest.raises(ApprovalError, match="does not verify"):
        Client(SignedStudy(changed, signed.approvals))


def test_study_registered_by_somebody_else(lab: Lab) -> None:
    text = lab.new_study().to_json().encode()
    with lab.channel_as("R2", to="R1") as channel, counted(lab, "R1", "not_your_role"):
        stub = node_pb2_grpc.NodeServiceStub(channel)
        with refused(grpc.StatusCode.PERMISSION_DENIED, "only collector"):
            stub.RegisterStudy(node_pb2.RegisterStudyRequest(signed_study=text))


def test_study_opened_by_somebody_else(lab: Lab) -> None:
    text = lab.new_study().to_json().encode()
    with lab.channel_as("R1", to="collector") as channel, counted(lab, "collector", "not_your_role"):
        stub = study_pb2_grpc.StudyOwnerServiceStub(channel)
        with refused(grpc.StatusCode.PERMISSION_DENIED, "only the study owner"):
            stub.OpenStudy(study_pb2.OpenStudyRequest(signed_study=text))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"study": {}, "approvals": []}'])
def test_study_that_is_not_one(lab: Lab, text: bytes) -> None:
    with lab.channel_as("owner", to="collector") as channel, counted(lab, "collector", "malformed"):
        stub = study_pb2_grpc.StudyOwnerServiceStub(channel)
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "study"):
            stub.OpenStudy(study_pb2.OpenStudyRequest(signed_study=text))


# Blocks


Plan = Callable[..., right_batches_pb2.AssignBlockRequest]


@pytest.fixture
def batched(lab: Lab) -> SignedStudy:
    """A study whose batches the collector plans; blocks of the rows suite are drawn."""
    return open_moments(lab)


@pytest.fixture
def plan(lab: Lab, batched: SignedStudy) -> Plan:
    def make(ids: list[bytes], block_id: bytes = b"b" * 16, key: str = "collector") -> Any:
        joined = b"".join(ids)
        return right_batches_pb2.AssignBlockRequest(
            study_id=batched.study.id,
            block_id=block_id,
            submission_ids=joined,
            signature=lab.key(key).sign("block-plan", plan_message(batched.study.id, block_id, joined)),
        )

    return make


@contextmanager
def right(lab: Lab, name: str = "collector") -> Iterator[Any]:
    with lab.channel_as(name, to="R1") as channel:
        yield right_batches_pb2_grpc.RightBatchServiceStub(channel)


def test_plan_of_unknown_rows(lab: Lab, plan: Plan) -> None:
    with right(lab) as stub, counted(lab, "R1", "unknown_row"):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "does not hold"):
            stub.AssignBlock(plan([bytes([i]) * 16 for i in range(24)]))


def test_plan_with_wrong_signature(lab: Lab, plan: Plan) -> None:
    with right(lab) as stub, counted(lab, "R1", "bad_signature"):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "block plan does not verify"):
            stub.AssignBlock(plan([bytes([i]) * 16 for i in range(24)], key="R2"))


def test_plan_by_another_party(lab: Lab, plan: Plan) -> None:
    with right(lab, "R2") as stub, counted(lab, "R1", "not_your_role"):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "only collector"):
            stub.AssignBlock(plan([bytes([i]) * 16 for i in range(24)]))


def test_plan_that_is_not_sorted(lab: Lab, plan: Plan) -> None:
    with (
        right(lab) as stub,
        counted(lab, "R1", "malformed"),
        refused(grpc.StatusCode.INVALID_ARGUMENT, "sorted"),
    ):
        stub.AssignBlock(plan([bytes([i]) * 16 for i in reversed(range(24))]))


def test_row_used_in_two_batches(lab: Lab, batched: SignedStudy, plan: Plan) -> None:
    with Client(batched) as client:
        ids = sorted(client.submit(answers).submission_id for answers in moments_people(3))
    with right(lab) as stub:
        assert stub.AssignBlock(plan(ids)).bound_signature
        stub.AssignBlock(plan(ids))  # the same plan again changes nothing
        with (
            counted(lab, "R1", "out_of_step"),
            refused(grpc.StatusCode.FAILED_PRECONDITION, "another block"),
        ):
            stub.AssignBlock(plan(ids, block_id=b"c" * 16))


def test_masking_of_a_block_without_a_plan(lab: Lab, signed: SignedStudy) -> None:
    attempt = common_pb2.Attempt(study_id=signed.study.id, block_id=b"x" * 16, number=1)
    with (
        lab.channel_as("collector", to="R1") as channel,
        counted(lab, "R1", "unknown_block"),
        refused(grpc.StatusCode.NOT_FOUND, "no plan"),
    ):
        stub = right_masking_pb2_grpc.RightMaskingServiceStub(channel)
        seed = signed.study.rows.mask_seed
        stub.StartMasking(right_masking_pb2.StartMaskingRequest(attempt=attempt, mask_seed=seed))


# Matrices between nodes


def _push(study_id: bytes, values: bytes, rows: int, columns: int, first: int = 0) -> Any:
    attempt = common_pb2.Attempt(study_id=study_id, block_id=b"m" * 16, number=1)
    piece = common_pb2.MatrixSlice(rows=rows, columns=columns, first_row=first, values=values)
    return left_masking_pb2.PushComponentRequest(attempt=attempt, component=1, slice=piece)


@pytest.mark.parametrize(
    ("reason", "words", "change"),
    [
        ("wrong_shape", "NaN", {"values": np.nan}),
        ("wrong_shape", "NaN", {"values": np.inf}),
        ("wrong_shape", "columns", {"columns": -1}),
        ("wrong_shape", "whole rows", {"cut": 3}),
        ("wrong_shape", "inside the matrix", {"first": 24}),
        ("wrong_shape", "24 to 47", {"rows": 23}),
        ("wrong_shape", "24 to 47", {"rows": 48}),
    ],
)
def test_matrix_that_is_wrong(
    lab: Lab, signed: SignedStudy, reason: str, words: str, change: dict[str, Any]
) -> None:
    study = signed.study
    columns = study.rows.columns + change.get("columns", 0)
    rows = change.get("rows", 24)
    values = (
        np.full((rows, columns), change.get("values", 1.0))
        .astype("<f8")
        .tobytes()[: None if "cut" not in change else -3]
    )
    with lab.channel_as("R1", to="L1") as channel, counted(lab, "L1", reason):
        stub = left_masking_pb2_grpc.LeftMaskingServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.PushComponent(_push(study.id, values, rows, columns, change.get("first", 0)))
    assert words in caught.value.details()  # type: ignore[attr-defined]


def test_component_pushed_by_the_wrong_right_provider(lab: Lab, signed: SignedStudy) -> None:
    values = np.ones((24, signed.study.rows.columns)).tobytes()
    with lab.channel_as("R2", to="L1") as channel, counted(lab, "L1", "not_your_role"):
        stub = left_masking_pb2_grpc.LeftMaskingServiceStub(channel)
        with refused(grpc.StatusCode.PERMISSION_DENIED, "only R1"):
            stub.PushComponent(_push(signed.study.id, values, 24, signed.study.rows.columns))


def test_delivery_of_a_try_that_is_over(lab: Lab, signed: SignedStudy) -> None:
    attempt = common_pb2.Attempt(study_id=signed.study.id, block_id=b"m" * 16, number=1)
    request = collection_pb2.PushDeliveryRequest(attempt=attempt, component=1)
    unmasker = signed.study.rows.unmasking[0]
    with lab.channel_as(unmasker, to="collector") as channel, counted(lab, "collector", "out_of_step"):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "over"):
            collection_pb2_grpc.CollectionServiceStub(channel).PushDelivery(request)


def test_blinding_key_of_an_impostor(lab: Lab, signed: SignedStudy) -> None:
    """A collector that slips its own key in for a node's could unblind; the signature stops it."""
    attempt = common_pb2.Attempt(study_id=signed.study.id, block_id=b"k" * 16, number=1)
    with lab.channel_as("collector", to="R1") as channel:
        stub = unmasking_pb2_grpc.UnmaskingServiceStub(channel)
        own = stub.PrepareAttempt(unmasking_pb2.PrepareAttemptRequest(attempt=attempt)).key
        false = unmasking_pb2.BlindingKey(role="R2", public_key=bytes(32), signature=own.signature)
        with (
            counted(lab, "R1", "bad_signature"),
            refused(grpc.StatusCode.PERMISSION_DENIED, "blinding key of R2"),
        ):
            stub.ShareBlindingKeys(unmasking_pb2.ShareBlindingKeysRequest(attempt=attempt, keys=[own, false]))


# TLS


def test_expired_certificate(lab: Lab) -> None:
    """A provider whose certificate has run out: the device says so, counts it, and what it sealed can be sent later."""
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    authority = load_authority(lab.folder / "authority")
    old = issue_certificate(authority, "r1.trimask.local", now - 3 * day, now - day)
    server = grpc.server(ThreadPoolExecutor(1))
    credentials = grpc.ssl_server_credentials([(old.private_key, old.certificate)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    made = lab.new_study().study
    right = tuple(dataclasses.replace(party, address=f"127.0.0.1:{port}") for party in made.right)
    study = dataclasses.replace(made, right=right)
    signed = SignedStudy(study, tuple(approve(study, lab.key(name), 1) for name in lab.parties))
    with Client(signed, attempts=1, timeout_seconds=5) as client:
        with pytest.raises(Unreachable, match="certificate is expired"):
            client.submit({"x": 1.0, "y": 1.0})
        assert set(client.refusals) == {"unreachable"}
    server.stop(None)


def test_peer_with_an_expired_certificate(lab: Lab, tmp_path: Path) -> None:
    """A node whose certificate has run out is let in nowhere."""
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    authority = load_authority(lab.folder / "authority")
    old = issue_certificate(authority, "collector.trimask.local", now - 3 * day, now - day)
    party = lab.parties["R1"]
    with open_channel(
        party.peer_address, lab.owner / "ca.pem", party.tls_name, old.certificate, old.private_key
    ) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            node_pb2_grpc.NodeServiceStub(channel).DescribeNode(
                node_pb2.DescribeNodeRequest(), timeout=patience(5)
            )
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]


def test_peer_without_a_certificate(lab: Lab, signed: SignedStudy) -> None:
    party = lab.parties["R1"]
    with open_channel(party.peer_address, lab.owner / "ca.pem", tls_name=party.tls_name) as channel:
        stub = submission_pb2_grpc.SubmissionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Submit(submission_pb2.SubmitRequest(), timeout=patience(5))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]


def test_client_wants_a_signed_study(signed: SignedStudy) -> None:
    with pytest.raises(ApprovalError, match="signed study"):
        Client(signed.study)  # type: ignore[arg-type]


def test_grid_and_sizes_are_checked_when_a_study_is_made(lab: Lab) -> None:
    with pytest.raises(TrimaskError, match="columns"):
        lab.new_study(noise_columns=10)
    with pytest.raises((TrimaskError, ParameterError), match="block"):
        lab.new_study(block_rows=3)
