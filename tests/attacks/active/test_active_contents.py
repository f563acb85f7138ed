"""A collector that wants to see a block masked twice, alone or with a left provider; and what honest ones do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trimask_client import Client
from trimask_client.grpc_channel import plain_errors
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_lab import Lab, exact_gram, some_people
from trimask_proto.v1 import common_pb2, unmasking_pb2
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_rogue import refused_with
from trimask_server.suites.rows import masking_attempt, provider_masking, unmasking
from trimask_server.suites.rows.math import sum_deliveries
from trimask_server.suites.rows.provider_masking import LeftMaskingServicer

StartLab = Callable[[], Lab]


def flip(patch: pytest.MonkeyPatch, chosen: Callable[[Any], bool]) -> None:
    """L_1 turns the sign of one person's row in the first component of chosen tries: every Gram check still holds."""
    honest = LeftMaskingServicer._mask

    async def mask(servicer: Any, study: Study, j: int, attempt: Any, incoming: Any) -> None:
        if j == 1 and chosen(attempt):
            incoming.stacked[0, : study.rows.columns] *= -1
        await honest(servicer, study, j, attempt, incoming)

    patch.setattr(LeftMaskingServicer, "_mask", mask)
    patch.setattr(
        provider_masking, "check_tags", lambda *_: None
    )  # it checks nothing: what it alters is its own doing


def send(lab: Lab, people: list[dict[str, Any]]) -> SignedStudy:
    """A study with these people's rows."""
    signed = lab.open_study()
    with Client(signed) as client:
        for person in people:
            client.submit(person)
    return signed


def test_tries_at_one_block_show_one_content(start_lab: StartLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference of two tries' Gram matrices, with one row flipped in one component of the second, is of that row
    and its component alone; with a third try the row is known. Before, each try showed another content.
    """
    contents: list[Any] = []

    def keep(study: Study, deliveries: Any) -> Any:
        contents.append(sum_deliveries(deliveries))
        raise TimeoutError  # as if nothing had come: the collector begins another try

    monkeypatch.setattr(masking_attempt, "masked_answers", keep)
    flip(monkeypatch, lambda attempt: attempt.number > 1)
    lab = start_lab()
    study = send(lab, some_people(48, seed=3)).study
    lab.wait(study, lambda _: len(contents) >= 3)
    assert all(np.array_equal(content, contents[0]) for content in contents)

    ((block,),) = lab.query("collector", "SELECT block_id FROM blocks")
    lab.stop("collector")
    plan = lab.query("R2", "SELECT plan_hash FROM held_contents")[0]
    attempt = common_pb2.Attempt(study_id=study.id, block_id=block, number=99, plan_hash=plan[0])
    for role in dict.fromkeys(study.rows.unmasking):
        with lab.channel_as("collector", to=role) as channel, plain_errors(role):
            stub = UnmaskingServiceStub(channel)
            answer = stub.PrepareAttempt(unmasking_pb2.PrepareAttemptRequest(attempt=attempt))
            assert (answer.fixed_number, answer.key.public_key) == (1, b"")
            with refused_with("content_lost"), plain_errors(role):
                stub.Deliver(unmasking_pb2.DeliverRequest(attempt=attempt))


@pytest.mark.slow
def test_without_a_fixed_content_two_tries_tell_a_row(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The difference of their Gram matrices is 4 m m^T - 2 (m x^T + x m^T), of one row x and its first component m alone."""
    contents: list[Any] = []

    def keep(study: Study, deliveries: Any) -> Any:
        contents.append(sum_deliveries(deliveries))
        raise TimeoutError

    monkeypatch.setattr(masking_attempt, "masked_answers", keep)
    monkeypatch.setattr(unmasking, "_fixed", lambda *_: None)
    flip(monkeypatch, lambda attempt: attempt.number > 1)
    lab = start_lab()
    study = send(lab, some_people(48, seed=3)).study
    lab.wait(study, lambda _: len(contents) >= 2)
    first, second = (np.asarray(content).view(np.int64).astype(object) for content in contents[:2])
    difference = first.T @ first - second.T @ second  # in whole numbers: m is a million times as long as x
    values = np.linalg.svd(difference.astype(float), compute_uv=False)

    assert values[0] > 1e6 * values[1]
    assert values[1] > 100 * values[2]


def test_a_block_whose_components_disagree_is_lost_by_name_and_never_masked_again(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, such a block was masked again, and the collector had two contents of it."""
    first: list[bytes] = []

    def chosen(attempt: Any) -> bool:
        first[:] = first or [attempt.block_id]
        return first == [attempt.block_id] and attempt.number == 1

    flip(monkeypatch, chosen)
    lab = start_lab()
    study = send(lab, some_people(72, seed=4)).study
    status = lab.close(study)
    blocks = lab.query(
        "collector", "SELECT block_id, state, attempts, row_count FROM blocks ORDER BY sequence"
    )
    (lost, state, attempts, rows), *others = blocks
    assert (lost, state, attempts) == (first[0], "abandoned", 1)
    assert lost.hex()[:12] in status.note
    assert "do not add up" in status.note
    assert sum(block[3] for block in others) + rows == 72
    assert {block[1] for block in others} == {"erased"}
    assert sum(dataset.rows for dataset in lab.datasets(study)) == 72 - rows
    for role in lab.parties:
        if role.startswith("R"):
            assert lab.query(role, "SELECT count(*) FROM submissions WHERE payload IS NOT NULL") == [(0,)]
        if role != "collector":
            assert lab.query(role, "SELECT count(*) FROM held_contents WHERE content IS NOT NULL") == [(0,)]


def test_a_delivery_that_was_cut_off_is_finished_with_the_same_bytes(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One unmasking node has delivered, and is started again, when the try is given up: no row is lost by it."""
    honest, cut = masking_attempt.MaskingAttempts._deliver, []

    async def deliver(self: masking_attempt.MaskingAttempts, attempt: common_pb2.Attempt) -> None:
        if not cut:
            cut.append(attempt.number)
            request = unmasking_pb2.DeliverRequest(attempt=attempt)
            await self._node.peers.call(self._stub(attempt, "R2").Deliver, request)
            raise TimeoutError
        await honest(self, attempt)

    monkeypatch.setattr(masking_attempt.MaskingAttempts, "_deliver", deliver)
    lab = start_lab()
    people = some_people(48, seed=5)
    study = send(lab, people).study
    lab.close(study)
    assert cut == [1]
    entries = lab.query("R2", "SELECT details FROM audit WHERE kind = 'content_fixed' ORDER BY sequence")
    assert '"number":1' in entries[0][0].replace(" ", "")
    (dataset,) = lab.datasets(study)
    exact = exact_gram(study, people)
    assert np.abs(dataset.gram(units="scaled").to_numpy() - exact).max() <= 1e-7 * np.abs(exact).max()
