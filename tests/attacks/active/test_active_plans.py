"""A right provider that has other people in a block than the others, and a collector that does not mind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trimask_client import Client
from trimask_client.grpc_channel import plain_errors
from trimask_core.basics.errors import Refused
from trimask_core.study.definition import Study
from trimask_core.submit.release_files import plan_hash, split_ids
from trimask_lab import Lab, some_people
from trimask_patience import patience
from trimask_proto.v1 import common_pb2, unmasking_pb2
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_rogue import refused_with
from trimask_server.collector.batches import Batches, RightCalls
from trimask_server.right import batches as right_batches
from trimask_server.right import rows
from trimask_server.store.release_table import Block
from trimask_server.suites.rows import masking_attempt, provider_masking
from trimask_server.suites.rows.masking_attempt import CollectionServicer
from trimask_server.suites.rows.provider_masking import RightMaskingServicer
from trimask_server.suites.rows.unmasking import UnmaskingServicer

StartLab = Callable[[], Lab]


class Equivocation:
    """R1 has one person more in a block, and another less, than was drawn; notes what the collector is delivered."""

    lab: Lab

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: list[bytes] = []
        self.delivered: list[Any] = []
        honest_assign, honest_sum = RightCalls.assign, masking_attempt.masked_answers

        async def assign(calls: RightCalls, party: Any, block: Any) -> Any:
            other = self.plan_for(calls._study, party, block)
            if other is not block:
                change = "UPDATE blocks SET submission_ids = ? WHERE block_id = ? AND state = 'unbound'"
                store = self.lab.nodes("R1")[0].context.database
                await store.write(lambda tx: tx.run(change, (other.submission_ids, block.block_id)))
            return await honest_assign(calls, party, block)

        def masked_answers(study: Study, deliveries: Any) -> Any:
            self.delivered.append(deliveries)
            return honest_sum(study, deliveries)

        self.plans: dict[str, bytes] = {}
        """The hash of what R1 was told, and of what the others were."""
        patch.setattr(RightCalls, "assign", assign)
        # What R1 signed is of its own plan: a collector that lies does not mind.
        patch.setattr(Batches, "_require_own", lambda *_: None)
        patch.setattr(masking_attempt, "masked_answers", masked_answers)

    def plan_for(self, study: Study, party: Any, block: Any) -> Any:
        """What this provider is told."""
        role = study.role_of(party.identity)
        if role == "R1":
            ids = split_ids(block.submission_ids)
            other = min(set(self.sent) - set(ids))
            block = replace(block, submission_ids=b"".join(sorted([*ids[1:], other])))
        plan = plan_hash(study.id, block.block_id, block.submission_ids)
        self.plans["R1" if role == "R1" else "others"] = plan
        return block

    def tell_r1_its_own(self, patch: pytest.MonkeyPatch) -> None:
        """The collector's call that starts masking names, to R1, the plan that R1 was given."""
        honest = RightMaskingServicer.StartMasking

        async def start(servicer: RightMaskingServicer, request: Any, context: Any) -> Any:
            if servicer._node.role_in(servicer._node.studies.get(request.attempt.study_id)) == "R1":
                request.attempt.plan_hash = self.plans["R1"]
            return await honest(servicer, request, context)

        patch.setattr(RightMaskingServicer, "StartMasking", start)

    def overlook(self, patch: pytest.MonkeyPatch) -> None:
        """The nodes that remove right masks take R1's, and tag keys, as if they were of the others' plan."""
        for name in ("take_right_mask", "take_tag_keys"):
            honest = getattr(UnmaskingServicer, name)

            def take(
                servicer: UnmaskingServicer, study: Study, request: Any, *more: Any, honest: Any = honest
            ) -> None:
                request.attempt.plan_hash = self.plans["others"]
                honest(servicer, study, request, *more)

            patch.setattr(UnmaskingServicer, name, take)


def attack(lab: Lab, equivocation: Equivocation, over: Callable[[], bool]) -> None:
    """People answer, and the collector goes on until it has something, or somebody has noticed."""
    equivocation.lab = lab
    signed = lab.open_study()
    with Client(signed) as client:
        prepared = [client.prepare(person) for person in some_people(48, seed=3)]
        equivocation.sent += [submission.submission_id for submission in prepared]
        for submission in prepared:
            client.send(submission)
    lab.wait(signed.study, lambda _: bool(equivocation.delivered) or over())


def test_a_right_provider_with_another_plan_masks_nothing(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the plan's hash in the try, the collector was delivered a sum of components of different people."""
    equivocation = Equivocation(monkeypatch)
    lab = start_lab()
    attack(lab, equivocation, lambda: lab.refusals("R1")["out_of_step"] > 0)
    assert equivocation.delivered == []
    assert lab.query("R1", "SELECT count(*) FROM blocks WHERE state = 'started'") == [(0,)]


class _Whatever(bytes):
    """Equal to every plan."""

    __slots__ = ()

    def __eq__(self, _: object) -> bool:
        return True

    def __ne__(self, _: object) -> bool:
        return False

    __hash__ = bytes.__hash__


@pytest.mark.slow
def test_without_the_plans_hash_the_collector_is_delivered_a_sum_of_different_people(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1 starts whatever plan it was given; tags, which would stop it too, are not looked at."""
    equivocation = Equivocation(monkeypatch)
    monkeypatch.setattr(rows, "plan_hash", lambda *_: _Whatever())
    monkeypatch.setattr(provider_masking, "check_tags", lambda *_: None)
    lab = start_lab()
    attack(lab, equivocation, lambda: False)
    assert equivocation.delivered
    ((mine,),) = lab.query("R1", "SELECT submission_ids FROM blocks WHERE state IN ('started', 'erased')")
    ((theirs,),) = lab.query("R2", "SELECT submission_ids FROM blocks WHERE state IN ('started', 'erased')")
    assert len(set(split_ids(mine)) ^ set(split_ids(theirs))) == 2


def test_the_unmasking_node_refuses_a_component_of_another_plan(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector tells R1 in the try, too, what it was told in the plan."""
    equivocation = Equivocation(monkeypatch)
    equivocation.tell_r1_its_own(monkeypatch)
    lab = start_lab()
    attack(lab, equivocation, lambda: lab.refusals("R2")["out_of_step"] > 0)
    assert equivocation.delivered == []


def test_the_first_left_provider_refuses_a_component_of_another_plan(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, with unmasking nodes that overlook it."""
    equivocation = Equivocation(monkeypatch)
    equivocation.tell_r1_its_own(monkeypatch)
    equivocation.overlook(monkeypatch)
    lab = start_lab()
    attack(lab, equivocation, lambda: lab.refusals("L1")["out_of_step"] > 0)
    assert equivocation.delivered == []


class TakesOut:
    """A collector that has right providers erase one row of a block that they have bound, under an id they do not know."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.answers: list[str] = []
        honest = Batches.bind

        async def bind(batches: Batches, block: Block) -> bool:
            done = await honest(batches, block)
            if (
                done and block.rows > 24 and not self.answers
            ):  # the last one, which has more than the least size
                victim = replace(block, block_id=b"?" * 16, submission_ids=block.submission_ids[:16], rows=1)
                for party in batches._study.right:
                    try:
                        await batches._calls.erase(party, victim)
                        self.answers.append("erased")
                    except Refused as refusal:
                        self.answers.append(str(refusal.reason))
            return done

        expect = CollectionServicer.expect

        def fewer(servicer: CollectionServicer, study: Study, attempt: Any, count: int) -> Any:
            return expect(servicer, study, attempt, count - (count > 24 and "erased" in self.answers))

        patch.setattr(Batches, "bind", bind)
        patch.setattr(RightCalls, "_named", lambda _, block: block.submission_ids)
        patch.setattr(CollectionServicer, "expect", fewer)

    def pooled(self, lab: Lab) -> int:
        """How many of 49 people are in what is published."""
        signed = lab.open_study()
        with Client(signed) as client:
            for person in some_people(49, seed=3):
                client.submit(person)
        lab.close(signed.study)
        ((rows,),) = lab.query("collector", "SELECT row_count FROM releases WHERE state = 'published'")
        return int(rows)


def test_no_row_is_taken_out_of_a_bound_block(start_lab: StartLab, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = TakesOut(monkeypatch)
    assert attack.pooled(start_lab()) == 49
    assert attack.answers == ["unknown_block"] * 4


@pytest.mark.slow
def test_where_an_unknown_block_takes_rows_of_others_one_person_is_dropped(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan's hash is still the one that everybody bound."""
    monkeypatch.setattr(right_batches, "_erased_ids", lambda *given: split_ids(given[-1].submission_ids))
    monkeypatch.setattr(rows, "_refuse_bound", lambda *_: None)
    monkeypatch.setattr(rows, "_require_all", lambda *_: None)
    attack = TakesOut(monkeypatch)
    assert attack.pooled(start_lab()) == 48
    assert attack.answers == ["erased"] * 4


def test_a_blinding_key_is_of_one_plan(start_lab: StartLab) -> None:
    """A collector that opens a try at one plan with some unmasking nodes, at another with others, cannot join them."""
    lab = start_lab()
    study = lab.open_study().study
    lab.stop("collector")
    roles = list(dict.fromkeys(study.rows.unmasking))
    assert len(roles) > 1

    def attempt(role: str) -> common_pb2.Attempt:
        plan = bytes([1 if role == roles[0] else 2]) * 32
        return common_pb2.Attempt(study_id=study.id, block_id=b"b" * 16, number=1, plan_hash=plan)

    def call(role: str, method: str, request: Any) -> Any:
        with lab.channel_as("collector", to=role) as channel, plain_errors(role):
            return getattr(UnmaskingServiceStub(channel), method)(request, timeout=patience(30))

    keys = [
        call(role, "PrepareAttempt", unmasking_pb2.PrepareAttemptRequest(attempt=attempt(role))).key
        for role in roles
    ]
    for role in roles:
        share = unmasking_pb2.ShareBlindingKeysRequest(attempt=attempt(role), keys=keys)
        with refused_with("bad_signature"):
            call(role, "ShareBlindingKeys", share)
