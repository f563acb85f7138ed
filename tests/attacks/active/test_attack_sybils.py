"""A collector with a fleet of its own devices: n - 1 of them around one person leave that person's noisy row.

The collector signed invitations, so it admitted its fleet. Who admits is somebody else now: the owner or a right provider,
by a key that is in the study everybody approved.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trimask_cli import invitations
from trimask_client import Client
from trimask_core.errors import ImpossibleStudy, Refused, VerificationError
from trimask_core.invitation import Invitation
from trimask_core.randomness import SystemRandom
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study
from trimask_lab import Lab
from trimask_server.right.drawing import Draw
from trimask_server.suites.rows.driver import RowsWork

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


class Choosing:
    """A collector that plans its fleet around one person, out of all that are checked."""

    def __init__(self, patch: pytest.MonkeyPatch, fleet: set[bytes], person: bytes) -> None:
        self.plans: list[list[bytes]] = []

        def choose(work: RowsWork, ready: list[bytes], *, closing: bool) -> list[bytes]:
            wanted = [*(name for name in ready if name in fleet), person]
            if closing or len(wanted) <= FLEET or person not in ready:
                return []
            self.plans.append(sorted(wanted))
            return self.plans[-1]

        patch.setattr(RowsWork, "choose", choose)


def surrounded(lab: Lab, patch: pytest.MonkeyPatch, until: Callable[[SignedStudy, Choosing], bool]) -> bool:
    """Whether the person and the fleet become a block: 24 other people are there, too."""
    signed = lab.open_study()
    with Client(signed) as client:
        prepared = [client.prepare(SYBIL) for _ in range(2 * FLEET + 2)]
        ids = [submission.submission_id for submission in prepared]
        choosing = Choosing(patch, set(ids[:FLEET]), ids[FLEET])
        for submission in prepared:
            client.send(submission)
    lab.wait(signed.study, lambda _: until(signed, choosing))
    sql = "SELECT submission_ids FROM blocks WHERE study_id = ? AND cancelled = 0 AND submission_ids != ?"
    bound = [row[0] for row in lab.query("R2", sql, (signed.study.id, b""))]
    lab.close(signed.study)
    return b"".join(sorted(ids[: FLEET + 1])) in bound


def test_the_collector_does_not_choose_who_is_in_a_block(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """False failure: the fleet and the person are what the coin draws, one chance in C(48, 24) = 3e13."""
    assert not surrounded(lab, monkeypatch, lambda _, choosing: len(choosing.plans) >= 3)


def test_where_nobody_draws_the_collector_chooses(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did before."""
    monkeypatch.setattr(Draw, "require", lambda *_: None)
    assert surrounded(
        lab,
        monkeypatch,
        lambda signed, _: bool(
            lab.query("R2", "SELECT 1 FROM blocks WHERE study_id = ?", (signed.study.id,))
        ),
    )


def test_a_study_in_which_the_collector_admits_cannot_be_made(lab: Lab) -> None:
    for wrong in ("collector", "L1", "R3", "R0"):
        with pytest.raises(ImpossibleStudy, match="the collector may not admit people"):
            lab.new_study(admission="invited", admission_signer=wrong)
    with pytest.raises(ImpossibleStudy, match="take admission_signer out"):
        lab.new_study(admission_signer="R1")
