"""Devices that send rows outside the frame, and parties that would choose what rows are checked with."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from trimask_client import Client, Endpoint
from trimask_client.asking import submission_words
from trimask_client.grpc_status import plain_errors
from trimask_core.counted import Counted, CountedBlock
from trimask_core.errors import Refused, VerificationError
from trimask_core.refusals import Reason
from trimask_core.rows import payloads
from trimask_core.rows.obfuscation import CHECK_DIRECTIONS
from trimask_core.study import Study
from trimask_grpcio import GrpcioTransport
from trimask_lab import Lab, exact_gram, some_people
from trimask_proto.v1 import right_batches_pb2, row_check_pb2
from trimask_proto.v1.right_batches_pb2 import RowAbsence
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_proto.v1.row_check_pb2_grpc import RowCheckPeerServiceStub, RowCheckServiceStub
from trimask_proto.v1.submission_pb2 import AskSubmissionRequest, AskSubmissionResponse
from trimask_rogue import refused_with
from trimask_server.protocol.check_coin import seed_of, sign_check
from trimask_server.protocol.draw import place
from trimask_server.protocol.plans import plan_message, split_ids
from trimask_server.protocol.roles import right_roles
from trimask_server.suites.rows import row_checks
from trimask_server.suites.rows.check_ledger import CheckLedger


def lie(patch: pytest.MonkeyPatch, factor: float) -> None:
    """The device's noise columns are so many times what they should be."""
    honest = payloads.mask_row

    def mask_row(study: Study, x1: Any, source: Any) -> list[int]:
        row = np.array(honest(study, x1, source), dtype=float)
        inside = study.rows.frame.apply(study.rows.frame.unapply(row[None, :]))[0]
        return [int(value) for value in np.rint(inside + factor * (row - inside))]

    patch.setattr(payloads, "mask_row", mask_row)


def _accept_all(_: Study, openings: Any) -> list[bool]:
    return [True] * len(openings[0])


@pytest.mark.slow
def test_without_the_check_one_row_costs_its_whole_block(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_checks, "judge", _accept_all)
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
        roles = right_roles(study)
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
    for role in right_roles(study):
        of_study = "SELECT submission_id, payload FROM submissions WHERE verdict = 0 AND study_id = ?"
        found = lab.query(role, of_study, (study.id,))
        assert {row[0] for row in found} == set(refused)
        assert {row[1] for row in found} == {None}
        assert lab.refusals(role)["out_of_frame"] >= 3
        told = [row[0] for row in lab.query(role, "SELECT details FROM audit WHERE kind = 'rows_refused'")]
        entries = [entry for entry in map(json.loads, told) if entry["study"] == study.id.hex()]
        assert sorted(entry["rows"] for entry in entries) == ([3] if early == 3 else [1, 2])
        assert not any(name.hex() in text for name in refused for text in told)


class Rogue:
    """Whoever has the collector's keys; its own node is stopped meanwhile."""

    def __init__(self, lab: Lab, people: int) -> None:
        self.lab = lab
        signed = lab.open_study()
        self.study = signed.study
        lab.stop("collector")
        with Client(signed) as client:
            for person in some_people(people, seed=9):
                client.submit(person)
        self.ids = sorted(
            split_ids(self.call("R1", RightBatchServiceStub, "ListPending", self.listing()).submission_ids)
        )
        self.roles = right_roles(self.study)

    def listing(self) -> right_batches_pb2.ListPendingRequest:
        return right_batches_pb2.ListPendingRequest(study_id=self.study.id)

    def call(self, role: str, stub: Any, method: str, request: Any, who: str = "collector") -> Any:
        with self.lab.channel_as(who, to=role) as channel, plain_errors(role):
            return getattr(stub(channel), method)(request, timeout=30)

    def begin(self, name: str, ids: list[bytes]) -> row_check_pb2.RowCheck:
        joined, check_id = b"".join(ids), hashlib.sha256(name.encode()).digest()[:16]
        signature = sign_check(self.lab.key("collector"), self.study.id, check_id, joined)
        return row_check_pb2.RowCheck(
            study_id=self.study.id, check_id=check_id, submission_ids=joined, signature=signature,
            mask_seed=self.study.rows.mask_seed,
        )  # fmt: skip

    def commit(self, check: row_check_pb2.RowCheck) -> None:
        for role in self.roles:
            request = row_check_pb2.CommitCheckRequest(check=check)
            answer = self.call(role, RowCheckServiceStub, "CommitCheck", request)
            check.commitments.append(answer.commitment)

    def reveal(self, check: row_check_pb2.RowCheck, role: str) -> bytes:
        request = row_check_pb2.RevealCoinRequest(check=check)
        return bytes(self.call(role, RowCheckServiceStub, "RevealCoin", request).coin)

    def decide(self, check: row_check_pb2.RowCheck, role: str) -> bytes:
        request = row_check_pb2.DecideCheckRequest(check=check)
        return bytes(self.call(role, RowCheckServiceStub, "DecideCheck", request).verdicts)

    def assign(
        self, role: str, ids: list[bytes], absences: Sequence[RowAbsence] = (), block: bytes = b""
    ) -> Any:
        joined, block = b"".join(ids), block or self.study.id[:16]
        message = plan_message(self.study.id, block, joined)
        request = right_batches_pb2.AssignBlockRequest(
            study_id=self.study.id, block_id=block, submission_ids=joined, absences=absences,
            signature=self.lab.key("collector").sign("block-plan", message),
        )  # fmt: skip
        return self.call(role, RightBatchServiceStub, "AssignBlock", request)

    def cancel(self, role: str, block: bytes) -> None:
        message = plan_message(self.study.id, block, b"")
        request = right_batches_pb2.CancelBlockRequest(
            study_id=self.study.id, block_id=block,
            signature=self.lab.key("collector").sign("block-cancel", message),
        )  # fmt: skip
        self.call(role, RightBatchServiceStub, "CancelBlock", request)

    def absence(self, role: str, ids: list[bytes], seed: bytes = b"") -> RowAbsence:
        request = right_batches_pb2.ConfirmAbsentRequest(
            study_id=self.study.id,
            submission_ids=b"".join(ids),
            places=b"".join(place(seed, name) for name in ids),
        )
        answer = self.call(role, RightBatchServiceStub, "ConfirmAbsent", request)
        return RowAbsence.FromString(answer.absence.SerializeToString())


def test_what_a_rogue_collector_can_do_with_checks(lab: Lab) -> None:
    """It can choose no direction, open no row twice under others, and plan no row that was not accepted."""
    rogue = Rogue(lab, 50)
    try:
        ids = rogue.ids
        with refused_with("row_not_checked"):
            rogue.assign("R1", ids[:24])
        check = rogue.begin("one", ids[:49])
        with refused_with("malformed"):  # no coin before everybody has committed
            rogue.reveal(check, "R1")
        rogue.commit(check)
        coin = rogue.reveal(check, "R1")
        assert coin == rogue.reveal(check, "R1")  # however often it is asked
        check.coins.extend([coin, b"c" * 32])  # in place of the coin of R2
        with refused_with("bad_signature"):
            rogue.decide(check, "R1")
        check.coins[1] = rogue.reveal(check, "R2")

        again = rogue.begin("two", ids)  # the rows a second time, and one that is new
        rogue.commit(again)
        assert all(list(said.held) == [0] * 49 + [1] for said in again.commitments)

        other = row_check_pb2.RowCheck()
        other.CopyFrom(check)
        other.commitments[1].CopyFrom(again.commitments[1])  # what R2 said of another check
        with refused_with("bad_signature", "malformed"):
            rogue.reveal(other, "R1")

        ask = row_check_pb2.GetOpeningsRequest(check=check)
        with refused_with("not_your_role"):  # the collector sees nothing of what is opened
            rogue.call("R1", RowCheckPeerServiceStub, "GetOpenings", ask)
        opened = rogue.call("R1", RowCheckPeerServiceStub, "GetOpenings", ask, who="R2")
        assert len(opened.openings) == 49 * CHECK_DIRECTIONS * 16
        assert opened == rogue.call("R1", RowCheckPeerServiceStub, "GetOpenings", ask, who="R2")

        lab.stop("R1")  # its store and its coin are the same when it comes back
        lab.start("R1")
        assert {rogue.decide(check, role) for role in rogue.roles} == {b"\1" * 49}
        with refused_with("row_not_checked"):
            rogue.assign("R1", ids[3:])  # one of these is in the other check
        seed = seed_of(check)
        drawn = sorted(ids[:49], key=lambda name: place(seed, name))
        for chosen in (
            drawn[1:25],
            [*drawn[:23], drawn[24]],
        ):  # one of its own choice in the place of another
            answer = rogue.assign("R1", sorted(chosen))
            assert (answer.not_drawn, answer.bound_signature) == (True, b"")
            assert split_ids(answer.skipped_ids) == sorted(set(drawn[:24]) - set(chosen))
        assert not rogue.assign("R1", sorted(drawn[:24])).not_drawn
    finally:
        lab.start("collector")


def test_repro_the_collector_collects_words_on_rows_before_they_are_checked(lab: Lab) -> None:
    """Honest providers said that they could not put unchecked rows into a block; kept until the rows were checked, such
    words let the collector leave out of a block whomever it wanted."""
    rogue = Rogue(lab, 48)
    try:
        early = [rogue.absence(role, rogue.ids) for role in rogue.roles]
        check = rogue.begin("one", rogue.ids)
        rogue.commit(check)
        check.coins.extend(rogue.reveal(check, role) for role in rogue.roles)
        assert rogue.decide(check, "R1") == b"\1" * 48
        seed = seed_of(check)
        late = rogue.absence("R2", rogue.ids, seed)  # R2 holds the rows, and will accept them
        assert rogue.decide(check, "R2") == b"\1" * 48
        drawn = sorted(rogue.ids, key=lambda name: place(seed, name))
        for words in (early, [late]):
            answer = rogue.assign("R1", sorted(drawn[24:]), words)  # nobody whom the coin drew
            assert (answer.not_drawn, answer.bound_signature) == (True, b"")
    finally:
        lab.start("collector")


def test_repro_a_list_that_counts_everybody_twice_is_refused(lab: Lab) -> None:
    """Providers sign a plan when they bind it, and the same rows again in another one once the first is cancelled."""
    rogue = Rogue(lab, 48)
    try:
        check = rogue.begin("one", rogue.ids)
        rogue.commit(check)
        check.coins.extend(rogue.reveal(check, role) for role in rogue.roles)
        assert {rogue.decide(check, role) for role in rogue.roles} == {b"\1" * 48}
        seed = seed_of(check)
        ids = sorted(sorted(rogue.ids, key=lambda name: place(seed, name))[:24])
        blocks = []
        for block in (rogue.study.id[:16], rogue.study.id[16:]):
            words = [rogue.assign(role, ids, block=block).bound_signature for role in rogue.roles]
            blocks.append(CountedBlock.of(block, ids, signatures=b"".join(words)))
            blocks[-1].verify(rogue.study)
            for role in rogue.roles:
                rogue.cancel(role, block)
        assert Counted.from_bytes(Counted((blocks[0],)).to_bytes()).count == 24
        with pytest.raises(VerificationError, match="in two blocks"):
            Counted.from_bytes(Counted(tuple(blocks)).to_bytes())
    finally:
        lab.start("collector")


def test_a_check_that_one_provider_never_decides_costs_its_rows_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R_1 has accepted them and misses them in every plan; R_2 holds them, so it does not say that it cannot."""
    decide, never = row_checks.RowChecks.decide, set[bytes]()

    async def once_refused(self: row_checks.RowChecks, study: Study, check: Any) -> bytes:
        if not never:
            never.add(check.check_id)
        if self._node.role_in(study) == "R2" and check.check_id in never:
            raise Refused(Reason.WRONG_SHAPE, "not this one")
        return await decide(self, study, check)

    monkeypatch.setattr(row_checks.RowChecks, "decide", once_refused)
    failed = CheckLedger.failed
    monkeypatch.setattr(CheckLedger, "failed", lambda self, check, _: failed(self, check, 1))
    signed = lab.open_study(release_rows=24)
    with Client(signed) as client:
        for person in some_people(48, seed=8):
            client.submit(person)
        sql = "SELECT 1 FROM row_checks WHERE study_id = ? AND state = 'abandoned'"
        lab.wait(signed.study, lambda _: bool(lab.query("collector", sql, (signed.study.id,))))
        for person in some_people(26, seed=9):
            client.submit(person)
    status = lab.close(signed.study)
    (lost,) = status.abandoned_blocks
    assert (lost.rows, status.published_rows) == (48, 26)
    assert "their check was given up" in lost.why


def test_repro_a_provider_that_decides_late_learns_what_was_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R_1 had erased a refused row by then and opened it no more, so R_2 took it for a row that somebody lacks."""
    decide, first = row_checks.RowChecks.decide, asyncio.Event()

    async def in_turn(self: row_checks.RowChecks, study: Study, check: Any) -> bytes:
        if self._node.role_in(study) != "R1":
            await first.wait()
        verdicts = await decide(self, study, check)
        first.set()
        return verdicts

    monkeypatch.setattr(row_checks.RowChecks, "decide", in_turn)
    signed = lab.open_study()
    with Client(signed) as client:
        for person in some_people(25, seed=8):
            client.submit(person)
        with monkeypatch.context() as patch:
            lie(patch, 1e4)
            receipt = client.submit({"x": 1.0, "y": 1.0})
        lab.close(signed.study)
        assert client.ask(receipt) == dict.fromkeys(right_roles(signed.study), "out_of_frame")
