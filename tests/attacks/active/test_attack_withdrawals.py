"""A stranger withdraws submissions that never were.

Any 32 bytes are the key of some submission id, and each was kept for ever, with an entry in the audit log: 3,000 random keys
made 3,000 rows and 3,000 entries at a right provider, in a study for invited people, and after it had closed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from trimask_cli import invitations, owner
from trimask_client import Client, Queue
from trimask_client.transport import Endpoint, H2Transport, Unreachable
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation
from trimask_lab import Lab
from trimask_server.right import row_intake

FAR = 4_000_000_000_000
ANSWERS = {"x": 1.0, "y": 1.0}
KEYS = 300


def kept(lab: Lab, study_id: bytes) -> tuple[int, int]:
    """Rows of the study, and withdrawals in the audit log of R1."""
    (rows,) = lab.query("R1", "SELECT count(*) FROM submissions WHERE study_id = ?", (study_id,))
    entries = lab.query("R1", "SELECT details FROM audit WHERE kind = 'submission_withdrawn'")
    return rows[0], sum(study_id.hex() in details for (details,) in entries)


def withdraw_at_random(signed: SignedStudy, count: int = KEYS) -> list[str]:
    """What R1 says to keys that nobody has drawn before: a reason, or that it has signed."""
    source, answers = DeterministicRandom(signed.study.id.hex()), []
    with Client(signed) as client:
        for _ in range(count):
            try:
                client.withdraw(source.read(32), 1)
                answers.append("signed")
            except Refused as refusal:
                answers.append(str(refusal.reason))
    return answers


def invite(lab: Lab, signed: SignedStudy) -> Invitation:
    (link,) = invitations.make_invitations(signed.study, lab.owner, 1, FAR, lambda _: None)
    assert link.invitation is not None
    return link.invitation


def test_random_keys_in_an_invited_study_leave_nothing(lab: Lab) -> None:
    signed = lab.open_study(admission="invited")
    before = lab.refusals("R1")["no_invitation"]
    assert set(withdraw_at_random(signed)) == {"no_invitation"}
    assert lab.refusals("R1")["no_invitation"] == before + KEYS
    assert kept(lab, signed.study.id) == (0, 0)


@pytest.mark.slow
def test_without_the_question_for_standing_every_key_leaves_a_row(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_intake, "_require_standing", lambda *_: None)
    signed = lab.open_study(admission="invited")
    assert withdraw_at_random(signed, 50) == ["signed"] * 50
    assert kept(lab, signed.study.id) == (50, 50)


def test_one_invitation_keeps_one_id_out(lab: Lab) -> None:
    signed = lab.open_study(admission="invited")
    invitation, other = invite(lab, signed), invite(lab, signed)
    with Client(signed, invitation=invitation, attempts=1) as client:
        late = client.prepare(ANSWERS)
        word = client.withdraw(late.withdrawal_key, 1)
        assert client.withdraw(late.withdrawal_key, 1) == word
        whole = other.admit(late).to_bytes()
        altered = whole[:-1] + bytes([whole[-1] ^ 1])
        for number in range(5):
            with pytest.raises(Refused) as caught:
                client.withdraw(bytes([number]) * 32, 1)
            assert caught.value.reason == "invitation_used"
        for unfit in (altered, whole):  # the second was signed for another id
            with pytest.raises(Refused) as caught:
                client.withdraw(bytes(32), 1, unfit)
            assert caught.value.reason == "bad_invitation"
        assert kept(lab, signed.study.id) == (1, 1)
        for token in (invitation, other):
            with pytest.raises(Refused) as caught:
                client.upload(late, 1, token.admit(late).to_bytes())
            assert caught.value.reason == "submission_withdrawn"


def test_random_keys_after_closing_leave_nothing(lab: Lab) -> None:
    for admission in ("open", "invited"):
        signed = lab.open_study(admission=admission)
        owner.close_study(signed.study, lab.owner)
        lab.wait(signed.study, lambda status: status.state == "closed")
        # The provider's word that it holds nothing and takes nothing in is true of any id by now.
        assert set(withdraw_at_random(signed)) == {"signed"}
        assert kept(lab, signed.study.id) == (0, 0)


def test_random_keys_in_an_open_study_are_bounded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_intake, "MOST_UNKNOWN", 20)
    signed = lab.open_study()
    answers = withdraw_at_random(signed, 50)
    assert answers == ["signed"] * 20 + ["too_many_withdrawals"] * 30
    assert kept(lab, signed.study.id) == (20, 20)
    with Client(signed) as client:  # who has a row here withdraws it as before
        receipt = client.submit(ANSWERS)
        client.withdraw(receipt.withdrawal_key, 1)
    assert kept(lab, signed.study.id) == (21, 21)


class _R2IsAway(H2Transport):
    """The network to R2 is down for submissions."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def call(self, endpoint: Endpoint, path: str, request: bytes, timeout_seconds: float) -> bytes:
        if endpoint.address == self._address and path.endswith("/Submit"):
            raise Unreachable("no network")
        return super().call(endpoint, path, request, timeout_seconds)


def test_a_device_of_an_invited_person_withdraws_what_reached_one_provider(lab: Lab, tmp_path: Path) -> None:
    signed = lab.open_study(admission="invited")
    queue = Queue(tmp_path / "device", bytes(32), transport=_R2IsAway(lab.parties["R2"].address))
    study_id = queue.join(signed, invitation=invite(lab, signed))
    sealed = queue.seal(study_id, ANSWERS)
    (entry,) = queue.send(now=True)
    assert entry.received_by == ("R1",)
    queue.join(signed, invitation=invite(lab, signed))  # another invitation was opened since
    assert queue.withdraw(sealed.submission_id).state == "withdrawn"
    queue.close()
