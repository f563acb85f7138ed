"""Devices that send rows outside the frame, and parties that would choose what rows are checked with."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from trimask_cli import owner
from trimask_client import Client, Endpoint
from trimask_client.grpc_channel import plain_errors
from trimask_client.submission_status import submission_words
from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows import payloads
from trimask_core.rows.arrays import device_frame
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS
from trimask_core.study.definition import Study
from trimask_core.study.signed import sign_abandon
from trimask_core.submit.release_files import plan_hash, plan_message, verify_bound
from trimask_grpcio import GrpcioTransport
from trimask_lab import Lab, exact_gram, some_people
from trimask_patience import patience
from trimask_proto.v1 import right_batches_pb2, row_check_pb2, row_draw_pb2
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_check_pb2_grpc import RowCheckPeerServiceStub
from trimask_proto.v1.row_draw_pb2 import RowDraw
from trimask_proto.v1.row_draw_pb2_grpc import RowDrawServiceStub
from trimask_proto.v1.submission_pb2 import AskSubmissionRequest, AskSubmissionResponse
from trimask_rogue import refused_with
from trimask_row_rogue import RowRogue
from trimask_server.suites.rows import right_checks


def lie(patch: pytest.MonkeyPatch, factor: float) -> None:
    """The device's noise columns are so many times what they should be."""
    honest = payloads.mask_row

    def mask_row(study: Study, x1: Any, source: Any) -> list[int]:
        row = np.array(honest(study, x1, source), dtype=float)
        inside = device_frame(study).apply(device_frame(study).unapply(row[None, :]))[0]
        return [int(value) for value in np.rint(inside + factor * (row - inside))]

    patch.setattr(payloads, "mask_row", mask_row)


def _accept_all(_: Study, openings: Any) -> list[bool]:
    return [True] * len(openings[0])


@pytest.mark.slow
def test_without_the_check_one_row_costs_its_whole_block(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_checks, "judge", _accept_all)
    signed = lab.open_study(release_rows=24)
    with Client(signed) as client:
        for person in some_people(23, seed=8):
            client.submit(person)
        with monkeypatch.context() as patch:
            lie(patch, 1e4)
            client.submit({"x": 1.0, "y": 1.0})
    status = lab.close(signed.study)
    (lost,) = status.abandoned_blocks
    assert (lost.rows, status.published_rows, status.refused_reports) == (24, 0, {})
    assert "implausible_sum" in lost.why


@pytest.mark.parametrize("early", [1, 3])
def test_a_row_outside_the_frame_is_refused_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, early: int
) -> None:
    """Before, one such row (28 ms to send) made every try at its block fail for ever, and the study could not close.

    The first check has so many of the three; the others come after it, and are checked when the study closes.
    """
    signed = lab.open_study()
    study = signed.study
    people = some_people(50, seed=8)
    lab.stop("collector")
    with Client(signed) as client:
        for person in people:
            kept = client.submit(person)
        bad = []
        for number, factor in enumerate((1e4, 50.0, 0.0), 1):
            with monkeypatch.context() as patch:
                lie(patch, factor)
                bad.append(client.prepare({"x": 1.0, "y": 1.0}))
                receipt = client.send(bad[-1])
            if number == early:
                lab.start("collector")
                lab.wait(study, lambda status: status.refused_reports == {"out_of_frame": early})
        refused = [submission.submission_id for submission in bad]
        status = lab.close(study)
        with refused_with("out_of_frame"):
            client.send(bad[0])
        # Whoever has the receipt is told; whoever knows the id alone is not, nor of a row that is in a block.
        roles = study.right_roles
        assert client.ask(receipt) == dict.fromkeys(roles, "out_of_frame")
        assert "will not be counted" in submission_words(client.ask(receipt))
        assert client.ask(kept) == dict.fromkeys(roles, "")
        assert "has refused it" in submission_words(client.ask(kept))
        guessed = AskSubmissionRequest(study_id=study.id, submission_id=refused[0], sealed_hash=bytes(32))
        place_of = Endpoint(study.right[0].address, study.right[0].tls_name, study.tls_roots)
        call = "/trimask_proto.v1.SubmissionService/AskSubmission"
        answer = GrpcioTransport().call(place_of, call, guessed.SerializeToString(), 10.0)
        assert AskSubmissionResponse.FromString(answer).reason == "unknown_submission"
    assert status.failed_attempts == 0
    assert status.refused_reports == {"out_of_frame": 3}
    (dataset,) = lab.datasets(study)
    exact = exact_gram(study, people)
    assert dataset.rows == 50
    assert np.abs(dataset.gram(units="scaled").to_numpy() - exact).max() <= 1e-6 * np.abs(exact).max()
    for role in study.right_roles:
        of_study = "SELECT submission_id, payload FROM submissions WHERE verdict = 0 AND study_id = ?"
        found = lab.query(role, of_study, (study.id,))
        assert {row[0] for row in found} == set(refused)
        assert {row[1] for row in found} == {None}
        assert lab.refusals(role)["out_of_frame"] >= 3
        told = [row[0] for row in lab.query(role, "SELECT details FROM audit WHERE kind = 'rows_refused'")]
        entries = [entry for entry in map(json.loads, told) if entry["study"] == study.id.hex()]
        assert sorted(entry["rows"] for entry in entries) == ([3] if early == 3 else [1, 2])
        assert not any(name.hex() in text for name in refused for text in told)


def test_what_a_rogue_collector_can_do_with_checks(lab: Lab) -> None:
    """It can choose no rows and no direction, open no row twice under others, and have none drawn that was not accepted."""
    with RowRogue.at_work(lab, 50) as rogue:
        ids = rogue.ids
        for early in (rogue.of_choice("one", ids[:49]), rogue.of_choice("all", ids)):
            with refused_with("out_of_step"):
                rogue.commit(early)
        said = rogue.freeze()
        assert said == rogue.freeze()  # however often it is asked
        with refused_with("out_of_step"):  # R_k do not know of the pool yet
            rogue.commit(rogue.of_draw(said))
        assert not rogue.judge_all(said)
        check = rogue.of_draw(said)
        with refused_with("malformed"):  # no coin before everybody has committed
            rogue.reveal(check, "R1")
        rogue.commit(check)
        coin = rogue.reveal(check, "R1")
        assert coin == rogue.reveal(check, "R1")
        check.coins.extend([coin, b"c" * 32])  # in place of the coin of R2
        with refused_with("bad_signature"):
            rogue.decide(check, "R1")
        check.coins[1] = rogue.reveal(check, "R2")

        other = RowCheck.FromString(check.SerializeToString())
        other.commitments[1].held = b"\0" + other.commitments[1].held[1:]  # what R2 has not said
        with refused_with("bad_signature"):
            rogue.reveal(other, "R1")

        ask = row_check_pb2.GetOpeningsRequest(check=check)
        with refused_with("not_your_role"):  # the collector sees nothing of what is opened
            rogue.call("R1", RowCheckPeerServiceStub, "GetOpenings", ask)
        opened = rogue.call("R1", RowCheckPeerServiceStub, "GetOpenings", ask, who="R2")
        assert len(opened.openings) == 50 * CHECK_DIRECTIONS * 16
        assert opened == rogue.call("R1", RowCheckPeerServiceStub, "GetOpenings", ask, who="R2")

        lab.stop("R1")  # its store and its coin are the same when it comes back
        lab.start("R1")
        assert {rogue.decide(check, role) for role in rogue.roles} == {b"\1" * 50}
        assert rogue.judge_all(said)


def test_what_a_rogue_collector_can_do_with_a_draw(lab: Lab) -> None:
    """It can plan no block of its own, take no list and no verdict for another, begin no second draw, cancel no block."""
    with RowRogue.at_work(lab, 50) as rogue:
        said = rogue.freeze()
        with refused_with("not_yet"):
            rogue.freeze(2)
        rogue.judge_all(said)
        rogue.run(rogue.of_draw(said))
        assert rogue.judge_all(said)
        other = RowDraw.FromString(said.SerializeToString())
        other.verdicts[1].CopyFrom(said.verdicts[0])  # what R1 has said, as R2's
        with refused_with("bad_signature"):
            rogue.open(other, "R1")
        with Client(rogue.signed) as client, refused_with("study_paused"):
            client.withdraw(rogue.receipts[0].withdrawal_key, 1)  # all rely on it

        planned = right_batches_pb2.AssignBlockRequest(
            study_id=rogue.study.id, block_id=b"b" * 16, submission_ids=b"".join(rogue.ids[:24])
        )
        with refused_with("unknown_block"):
            rogue.call("R1", RightBatchServiceStub, "AssignBlock", planned)
        lab.stop("R2")
        lab.start("R2")
        draw = rogue.settle(said)
        (block,) = draw.blocks()
        assert (len(draw.accepted), block.rows) == (50, 24)
        with refused_with("not_yet"):  # its block is not bound yet
            rogue.freeze(2)
        for role in rogue.roles:
            plan = plan_hash(rogue.study.id, block.block_id, block.submission_ids)
            verify_bound(rogue.study, role, plan, rogue.bind(role, block.block_id))
            cancel = right_batches_pb2.CancelBlockRequest(
                study_id=rogue.study.id, block_id=block.block_id,
                signature=lab.key("collector").sign("block-cancel", plan_message(rogue.study.id, block.block_id, b"")),
            )  # fmt: skip
            with refused_with("out_of_step"):
                rogue.call(role, RightBatchServiceStub, "CancelBlock", cancel)
        left = rogue.freeze(2)
        assert {tuple(rows.checked) for rows in left.lists} == {(1,) * 26}  # their verdicts stay
        with refused_with("draw_over"):
            rogue.freeze(1)


def test_only_the_owner_gives_a_draw_up(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right provider that keeps something back stops a draw. Its rows are erased: nobody tosses twice for them."""
    decide, keeps_back = right_checks.RowChecks.decide, asyncio.Event()
    keeps_back.set()

    async def kept(self: right_checks.RowChecks, study: Study, check: Any) -> bytes:
        if self._node.role_in(study) == "R2" and keeps_back.is_set():
            raise Refused(Reason.WRONG_SHAPE, "not this one")
        return await decide(self, study, check)

    monkeypatch.setattr(right_checks.RowChecks, "decide", kept)
    signed = lab.open_study(release_rows=24)
    study = signed.study
    with Client(signed) as client:
        for person in some_people(48, seed=8):
            client.submit(person)
        lab.wait(study, lambda status: "draw-1" in status.note)
        for who in (lab.key("collector"), lab.key("R2")):
            request = row_draw_pb2.AbandonDrawRequest(
                study_id=study.id, number=1, order_signature=sign_abandon(who, study.id, 1)
            )
            with (
                refused_with("bad_signature"),
                lab.channel_as("collector", to="R1") as channel,
                plain_errors("R1"),
            ):
                RowDrawServiceStub(channel).AbandonDraw(request, timeout=patience(30))
        with refused_with("unknown_block"):
            owner.abandon_draw(study, 2, lab.owner)
        assert owner.abandon_draw(study, 1, lab.owner).block.rows == 48
        lab.wait(study, lambda status: "is abandoned" in status.note)
        keeps_back.clear()
        for role in study.right_roles:
            assert lab.rows(role, study.id) == []
        for person in some_people(26, seed=9):
            client.submit(person)
    assert lab.close(study).published_rows == 26


def test_repro_a_provider_that_decides_late_learns_what_was_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R_1 had erased a refused row by then and opened it no more, so R_2 took it for a row that somebody lacks."""
    decide, first = right_checks.RowChecks.decide, asyncio.Event()

    async def in_turn(self: right_checks.RowChecks, study: Study, check: Any) -> bytes:
        if self._node.role_in(study) != "R1":
            await first.wait()
        verdicts = await decide(self, study, check)
        first.set()
        return verdicts

    monkeypatch.setattr(right_checks.RowChecks, "decide", in_turn)
    signed = lab.open_study()
    with Client(signed) as client:
        for person in some_people(25, seed=8):
            client.submit(person)
        with monkeypatch.context() as patch:
            lie(patch, 1e4)
            receipt = client.submit({"x": 1.0, "y": 1.0})
        lab.close(signed.study)
        assert client.ask(receipt) == dict.fromkeys(signed.study.right_roles, "out_of_frame")
