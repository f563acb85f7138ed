"""A collector with a fleet of its own devices: n - 1 of them around one person leave that person's noisy row.

The collector signed invitations, so it admitted its fleet. Who admits is somebody else now: the owner or a right provider,
by a key that is in the study everybody approved.
"""

from __future__ import annotations

from typing import Any

import pytest

from trimask_cli import invitations
from trimask_client import Client
from trimask_core.basics.errors import ImpossibleStudy, Refused, VerificationError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation
from trimask_core.submit.release_files import split_ids
from trimask_lab import Lab
from trimask_proto.v1 import right_batches_pb2
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_proto.v1.row_draw_pb2 import PoolVerdicts
from trimask_rogue import refused_with
from trimask_row_rogue import RowRogue
from trimask_server.right import batches
from trimask_server.right.rows import RowStore
from trimask_server.suites.rows import right_draw
from trimask_server.suites.rows.draw import Draw
from trimask_server.suites.rows.right_checks import CheckStore, _put
from trimask_server.suites.rows.right_draw import DrawStore

FAR = 4_000_000_000_000
FLEET = 23
SYBIL = {"x": 0.0, "y": 2.0}


def send_fleet(lab: Lab, signed: SignedStudy) -> list[str]:
    """What R1 says to devices that the collector has invited: a reason each, or that it took one in."""
    source, answers = SystemRandom(), []
    with Client(signed, attempts=1) as client:
        for _ in range(FLEET):
            invitation = Invitation.draw(signed.study.id, FAR, source).signed_with(lab.key("collector"))
            submission = client.prepare(SYBIL)
            try:
                for k in range(1, lab.right + 1):
                    client.upload(submission, k, invitation.admit(submission).to_bytes())
                answers.append("taken in")
            except Refused as refusal:
                answers.append(str(refusal.reason))
    return answers


@pytest.mark.parametrize("signer", ["owner", "R1"])
def test_the_collector_admits_nobody(lab: Lab, signer: str) -> None:
    signed = lab.open_study(admission="invited", admission_signer=signer)
    assert send_fleet(lab, signed) == ["bad_invitation"] * FLEET
    (link,) = invitations.make_invitations(signed.study, lab.owner, 1, FAR, lambda _: None)
    with Client(signed, invitation=link.invitation) as client:
        client.submit(SYBIL)
    for k in (1, 2):
        held = lab.query(f"R{k}", "SELECT count(*) FROM submissions WHERE study_id = ?", (signed.study.id,))
        assert held == [(1,)]
    forged = Invitation.draw(signed.study.id, FAR, SystemRandom()).signed_with(lab.key("collector"))
    with pytest.raises(VerificationError):
        Client(signed, invitation=forged)


def test_where_the_collector_admits_its_fleet_fills_the_block(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did before: the key of who collects was that of who admits."""
    monkeypatch.setattr(Study, "admits", property(lambda study: study.collector.identity))
    signed = lab.open_study(admission="invited")
    assert send_fleet(lab, signed) == ["taken in"] * FLEET
    assert signed.study.rows.block_rows == FLEET + 1  # one person more, and the block is full


def chosen_block(rogue: RowRogue) -> bool:
    """Whether a collector that has only those rows decided which it wants, all of its fleet but one, makes a block of them.

    Of 72 rows the last 24 are of people whom it wants to leave out.
    """
    wanted = rogue.ids[:48]
    said = rogue.freeze()
    assert not rogue.judge_all(said)
    try:
        rogue.run(rogue.of_choice("wanted", wanted))
    except Refused as refusal:
        if refusal.reason != "out_of_step":
            raise
        # It cannot cut the rows into checks. So it has the one check that there is begun, and decided by nobody.
        check = rogue.of_draw(said)
        rogue.commit(check)
        check.coins.extend(rogue.reveal(check, role) for role in rogue.roles)
        assert not rogue.judge_all(said)
        said.verdicts.extend(
            PoolVerdicts(marks=b"\1" * 48 + bytes(24), signature=bytes(64)) for _ in rogue.roles
        )
        with refused_with("bad_signature"):
            rogue.open(said, "R1")
        return False
    assert rogue.judge_all(said)
    (block,) = rogue.settle(said).blocks()
    assert all(rogue.bind(role, block.block_id) for role in rogue.roles)
    return set(split_ids(block.submission_ids)) <= set(wanted)


def test_the_collector_does_not_choose_who_is_in_a_block(lab: Lab) -> None:
    with RowRogue.at_work(lab, 72) as rogue:
        assert not chosen_block(rogue)
        for role in rogue.roles:
            sql = "SELECT count(*) FROM blocks WHERE study_id = ?"
            assert lab.query(role, sql, (rogue.study.id,)) == [(0,)]


def test_where_rows_may_stay_undecided_the_collector_chooses(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did before: each row had a check of its own, and only those that it wanted were decided."""
    bind = CheckStore.bind

    async def bind_any(store: CheckStore, study_id: bytes, check_id: bytes, ids: list[bytes]) -> bytes:
        await store.database.write(lambda tx: _put(tx, study_id, check_id, ids, b""))
        return await bind(store, study_id, check_id, ids)

    monkeypatch.setattr(CheckStore, "bind", bind_any)
    monkeypatch.setattr(right_draw, "_all_decided", lambda *_: True)
    judge = DrawStore.judge

    async def late(store: DrawStore, draw: Draw, *more: Any) -> Any:
        """As the collector asks too early first, nobody answers then."""
        decided = await store.database.read(
            lambda tx: tx.row("SELECT 1 FROM row_checks WHERE study_id = ? AND decided = 1", (draw.study.id,))
        )
        return await judge(store, draw, *more) if decided else None

    monkeypatch.setattr(DrawStore, "judge", late)
    with RowRogue.at_work(lab, 72) as rogue:
        assert chosen_block(rogue)


def surrounded(rogue: RowRogue, people: int = 0) -> bool:
    """Whether a collector that ends intake, when one person and its fleet of 23 are there, gets them as a block.

    With `people` it has an order of the owner for so many, else one of its own.
    """
    key = admission_key(rogue.lab.owner) if people else rogue.lab.key("collector")
    for role in rogue.roles:
        try:
            rogue.stop_intake(role, key, people)
        except Refused as refusal:
            if refusal.reason != ("not_yet" if people else "bad_signature"):
                raise
    said = rogue.freeze()
    rogue.judge_all(said)
    rogue.run(rogue.of_draw(said))
    assert rogue.judge_all(said)
    if not rogue.open(said, "R1"):
        return False
    (block,) = rogue.settle(said).blocks()
    assert all(rogue.bind(role, block.block_id) for role in rogue.roles)
    return split_ids(block.submission_ids) == rogue.ids


def test_the_collector_does_not_end_intake(lab: Lab) -> None:
    with RowRogue.at_work(lab, FLEET + 1) as rogue:
        assert not surrounded(rogue)
        with Client(rogue.signed) as client:
            client.submit(SYBIL)  # others go on answering
        for role in rogue.roles:  # and nothing was bound or erased
            held = "SELECT count(*) FROM submissions WHERE study_id = ? AND block_id IS NULL AND payload IS NOT NULL"
            assert lab.query(role, held, (rogue.study.id,)) == [(FLEET + 2,)]
            with refused_with("not_yet"):
                request = right_batches_pb2.EraseStudyRequest(study_id=rogue.study.id)
                rogue.call(role, RightBatchServiceStub, "EraseStudy", request)


def test_where_the_collector_ends_intake_it_surrounds_one_person(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did before: right providers took its word that the study is closing."""
    monkeypatch.setattr(batches, "verify_close", lambda *_: None)
    with RowRogue.at_work(lab, FLEET + 1) as rogue:
        assert surrounded(rogue)


def test_the_collector_does_not_miscount(lab: Lab) -> None:
    """The owner has ordered the study closed with one person more than there are."""
    with RowRogue.at_work(lab, FLEET + 1) as rogue:
        assert not surrounded(rogue, FLEET + 2)


def test_where_the_collector_counts_alone_it_surrounds_one_person(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def as_told(*_: object) -> int:
        return FLEET + 2

    monkeypatch.setattr(RowStore, "people", as_told)
    with RowRogue.at_work(lab, FLEET + 1) as rogue:
        assert surrounded(rogue, FLEET + 2)


def test_a_study_in_which_the_collector_admits_cannot_be_made(lab: Lab) -> None:
    for wrong in ("collector", "L1", "R3", "R0"):
        with pytest.raises(ImpossibleStudy, match="the collector may not admit people"):
            lab.new_study(admission="invited", admission_signer=wrong)
    with pytest.raises(ImpossibleStudy, match="take admission_signer out"):
        lab.new_study(admission_signer="R1")
