"""R_1 spends the invitations it is shown.

An invitation was a secret that a device showed to every provider. R_1 kept what came with each submission and, before the
device had reached the others, sent them submissions of its own with it: 50 of 50 invitations were spent, and the people
were told that theirs were used.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from trimask_cli import invitations
from trimask_client import Client
from trimask_core.basics.errors import Refused
from trimask_core.crypto.keys import verify
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Admission, invited_message, signed_digests
from trimask_core.submit.submission import SealedSubmission
from trimask_lab import Lab, some_people
from trimask_server.right.rows import RowStore

FAR = 4_000_000_000_000
INVITED = 12


class Listening:
    """R_1 as it should be, but it keeps what comes with every submission."""

    def __init__(self, lab: Lab, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[bytes, bytes]] = []
        honest = RowStore.insert
        (mine,) = (node.context.database for node in lab.nodes("R1"))

        async def insert(store: RowStore, *row: Any) -> int:
            admission = row[-1]
            if store.database is mine:
                self.seen.append((admission.submission_id, admission.to_bytes()))
            return await honest(store, *row)

        patch.setattr(RowStore, "insert", insert)


def spend(signed: SignedStudy, submission_id: bytes, shown: bytes) -> list[str]:
    """What R2 says to R1's submissions with an invitation it was shown: a reason each, or that it took one in."""
    study = signed.study
    answers = []
    with Client(signed, attempts=1) as client:
        own = client.prepare({"x": 10.0, "y": 4.0})
        same_id = SealedSubmission(study.id, submission_id, own.sealed)
        as_shown = Admission.from_bytes(study.id, submission_id, shown)
        moved = replace(as_shown, digests=signed_digests(own.sealed))
        attempts = [
            (own, shown),  # another submission, with the bytes as they came
            (own, moved.to_bytes()),  # and with its own digests in the place of the device's
            (same_id, shown),  # the person's id, with a part of R1's
            (same_id, moved.to_bytes()),
        ]
        for submission, admission in attempts:
            try:
                client.upload(submission, 2, admission)
                answers.append("taken in")
            except Refused as refusal:
                answers.append(str(refusal.reason))
    return answers


def attack(lab: Lab, patch: pytest.MonkeyPatch) -> tuple[list[list[str]], int]:
    """R1 spends every invitation between the device's first upload and its second; then how many people are complete."""
    signed = lab.open_study(admission="invited")
    listening = Listening(lab, patch)
    links = invitations.make_invitations(signed.study, lab.owner, INVITED, FAR, lambda _: None)
    answers, complete = [], 0
    for link, person in zip(links, some_people(INVITED, seed=5), strict=True):
        with Client(signed, invitation=link.invitation, attempts=1) as device:
            submission = device.prepare(person)
            device.upload(submission, 1)
            answers.append(spend(signed, *listening.seen[-1]))
            with contextlib.suppress(Refused):
                device.upload(submission, 2)
                complete += 1
    assert len(listening.seen) == INVITED
    return answers, complete


def test_what_r1_was_shown_is_of_no_use_to_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, complete = attack(lab, monkeypatch)
    assert answers == [["bad_invitation"] * 4] * INVITED
    assert complete == INVITED


def test_without_the_devices_signature_r1_spends_them_all(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did before: providers that ask only whether somebody was invited."""

    def invited(admission: Admission, signer: bytes) -> None:
        message = invited_message(admission.study_id, admission.public_key, admission.expires_ms)
        verify(signer, "invited", message, admission.signature, "the invitation")

    monkeypatch.setattr(Admission, "verify", invited)
    monkeypatch.setattr(Admission, "covers", lambda *_: True)
    answers, complete = attack(lab, monkeypatch)
    assert [first for first, *_ in answers] == ["taken in"] * INVITED
    assert complete == 0


def test_what_asks_whether_an_invitation_was_used_admits_nothing(lab: Lab) -> None:
    """R1 is shown it before anything is sent: neither a submission nor a withdrawal can come with it anywhere."""
    signed = lab.open_study(admission="invited")
    (link,) = invitations.make_invitations(signed.study, lab.owner, 1, FAR, lambda _: None)
    assert link.invitation is not None
    shown = link.invitation.admit_nothing()
    with Client(signed, attempts=1) as client:
        own = client.prepare({"x": 10.0, "y": 4.0})
        for submission_id in (b"", own.submission_id):
            assert spend(signed, submission_id, shown.to_bytes())[0] == "bad_invitation"
            assert set(spend(signed, submission_id, shown.to_bytes())) <= {"bad_invitation", "malformed"}
        with pytest.raises(Refused) as caught:
            client.withdraw(own.withdrawal_key, 2, shown.to_bytes())
        assert caught.value.reason == "bad_invitation"
    with Client(signed, invitation=link.invitation, attempts=1) as client:
        assert len(client.submit({"x": 10.0, "y": 4.0}).providers) == lab.right
