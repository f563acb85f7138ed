"""An invitation takes one submission, ever: with races, replays, forgeries, expiry, and at the device."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_cli import invitations
from trimask_client import Client, Queue
from trimask_client.grpc_channel import plain_errors
from trimask_client.transport import Endpoint, H2Transport, Unreachable
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError, InvitationError, Refused, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.explain.statement import explain_study
from trimask_core.study.party import admission_key
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation
from trimask_grpcio import GrpcioTransport
from trimask_lab import Lab, exact_gram, some_people
from trimask_patience import patience
from trimask_proto.v1.admission_pb2 import SignInvitationsRequest
from trimask_proto.v1.admission_pb2_grpc import InvitationServiceStub
from trimask_proto.v1.submission_pb2 import AskSubmissionRequest, AskSubmissionResponse
from trimask_terminal.program import main

FAR = 4_000_000_000_000
ANSWERS = {"x": 1.0, "y": 1.0}
Invite = Callable[[int], list[Invitation]]


@pytest.fixture(scope="module")
def signed(lab: Lab) -> SignedStudy:
    study: SignedStudy = lab.open_study(admission="invited")
    return study


@pytest.fixture(scope="module")
def invite(lab: Lab, signed: SignedStudy) -> Invite:
    def make(count: int, expires_ms: int = FAR) -> list[Invitation]:
        links = invitations.make_invitations(signed.study, lab.owner, count, expires_ms, lambda _: None)
        return [link.invitation for link in links if link.invitation is not None]

    return make


def pending(lab: Lab, study_id: bytes) -> list[set[bytes]]:
    """The ids each right provider holds."""
    found = []
    for k in range(1, lab.right + 1):
        rows = lab.query(f"R{k}", "SELECT submission_id FROM submissions WHERE study_id = ?", (study_id,))
        found.append({row[0] for row in rows})
    return found


def test_invited_people_are_counted_once_each(lab: Lab) -> None:
    """The whole way: 48 invitations, 48 rows, and the Gram matrix of exactly those people."""
    signed = lab.open_study(admission="invited")
    people = some_people(48, seed=21)
    links = invitations.make_invitations(signed.study, lab.owner, 48, FAR, lambda _: None)
    with Client(signed) as client:  # one connection for all of them
        for link, answers in zip(links, people, strict=True):
            assert link.invitation is not None
            submission = client.prepare(answers)
            for k in range(1, lab.right + 1):
                client.upload(submission, k, link.invitation.admit(submission).to_bytes())
    with Client(signed, invitation=links[0].invitation, attempts=1) as client:
        with pytest.raises(Refused, match="used before") as caught:
            client.submit(people[0])
    assert caught.value.reason == "invitation_used"
    lab.close(signed.study)
    (dataset,) = lab.datasets(signed.study)
    assert dataset.rows == 48
    exact = exact_gram(signed.study, people)
    assert np.abs(dataset.gram(units="scaled").to_numpy() - exact).max() <= 1e-7 * np.abs(exact).max()


def test_the_same_submission_again_is_answered_and_another_is_not(
    lab: Lab, signed: SignedStudy, invite: Invite
) -> None:
    (invitation,) = invite(1)
    with Client(signed, invitation=invitation, attempts=1) as client:
        first = client.prepare(ANSWERS)
        receipt = client.send(first)
        assert client.send(first) == receipt
        before = pending(lab, signed.study.id)
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                client.submit(ANSWERS)
            assert caught.value.reason == "invitation_used"
        assert pending(lab, signed.study.id) == before  # nothing of the second is kept anywhere


def test_a_used_invitation_is_noticed_before_anybody_answers(
    lab: Lab, signed: SignedStudy, invite: Invite, tmp_path: Path
) -> None:
    """R1 is asked by whoever has the invitation, and by nobody who has only seen its public half."""
    used, fresh = invite(2)
    with contextlib.closing(Queue(tmp_path, bytes(32))) as queue:
        for invitation in (used, fresh):
            queue.join(signed, signed.study.id, invitation)
            queue.check_open(signed.study.id)
        with Client(signed, invitation=used, attempts=1) as client:
            client.upload(client.prepare(ANSWERS), 1)  # to R1 alone: it decides
        queue.check_open(signed.study.id)
        queue.join(signed, signed.study.id, used)
        with pytest.raises(Refused) as caught:
            queue.check_open(signed.study.id)
        assert caught.value.reason == "invitation_used"
        assert queue.entries() == ()
    party, shown = signed.study.party("R1"), used.admit_nothing()
    forged = dataclasses.replace(shown, device_signature=fresh.admit_nothing().device_signature)
    over = dataclasses.replace(used, expires_ms=1).signed_with(admission_key(lab.owner)).admit_nothing()
    asked = {}
    with contextlib.closing(H2Transport()) as transport:
        for name, one in (("used", shown), ("forged", forged), ("over", over)):
            request = AskSubmissionRequest(study_id=signed.study.id, invitation=one.to_bytes())
            endpoint = Endpoint(party.address, party.tls_name, signed.study.tls_roots)
            method = "/trimask_proto.v1.SubmissionService/AskSubmission"
            try:
                answer = transport.call(endpoint, method, request.SerializeToString(), 15.0)
                asked[name] = str(AskSubmissionResponse.FromString(answer).reason)
            except Refused as refusal:
                asked[name] = f"refused: {refusal.reason}"
    assert asked == {
        "used": "invitation_used",
        "forged": "refused: bad_invitation",
        "over": "invitation_expired",
    }


_KILLED = """
import base64, os, signal, sys
from trimask_client import Client
from trimask_client.transport import H2Transport
from trimask_core.submit.invitation import Invitation
from trimask_core.study.signed import SignedStudy

class Killed(H2Transport):
    def call(self, endpoint, method, request, timeout_seconds):
        answer = super().call(endpoint, method, request, timeout_seconds)
        if method.endswith("/Submit"):
            os.kill(os.getpid(), signal.SIGKILL)  # R1 has it; nobody has its receipt
        return answer

signed = SignedStudy.from_json(open(sys.argv[1]).read())
invitation = Invitation.from_bytes(signed.study.id, base64.b64decode(sys.argv[2]))
folder = sys.argv[3] if len(sys.argv) > 3 else None
Client(signed, invitation=invitation, folder=folder, transport=Killed()).submit({"x": 1.0, "y": 1.0})
"""


@pytest.mark.parametrize("kept", [True, False])
def test_repro_a_second_client_goes_on_where_the_first_was_killed(
    lab: Lab, signed: SignedStudy, invite: Invite, tmp_path: Path, kept: bool
) -> None:
    """Without a folder nothing can go on with it: the invitation is bound to a submission that nobody has any more."""
    (invitation,) = invite(1)
    study, folder = tmp_path / "study.json", tmp_path / "unfinished"
    study.write_text(signed.to_json())
    arguments = [
        str(study),
        base64.b64encode(invitation.to_bytes()).decode(),
        *([str(folder)] if kept else []),
    ]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *arguments], timeout=patience(120))
    assert killed.returncode == -signal.SIGKILL
    before = pending(lab, signed.study.id)
    client = Client(signed, invitation=invitation, folder=folder if kept else None, attempts=1)
    with client:
        if not kept:
            with pytest.raises(Refused) as caught:
                client.submit(ANSWERS)
            assert caught.value.reason == "invitation_used"
            return
        with pytest.raises(InvitationError, match=r"call resume\(\)"):
            client.submit({"x": 2.0, "y": 1.0})
        assert pending(lab, signed.study.id) == before
        receipt = client.submit(ANSWERS)
        assert client.resume() == ()
    receipt.verify(signed.study)
    after = pending(lab, signed.study.id)
    assert receipt.submission_id in before[0]
    assert [new - old for new, old in zip(after, before, strict=True)] == [set()] + [
        {receipt.submission_id}
    ] * (lab.right - 1)
    assert not list((folder / "unfinished").iterdir())


def test_a_client_that_fails_says_what_to_do(
    lab: Lab, signed: SignedStudy, invite: Invite, tmp_path: Path
) -> None:
    class Cut(H2Transport):
        away = True

        def call(self, endpoint: Any, *rest: Any) -> bytes:
            if self.away and endpoint.address == signed.study.right[1].address:
                raise Unreachable("cut off")
            return super().call(endpoint, *rest)

    (invitation,) = invite(1)
    for folder, words in ((None, "again on this Client"), (tmp_path, "kept in")):
        cut = Cut()
        with Client(signed, invitation=invitation, folder=folder, attempts=1, transport=cut) as client:
            with pytest.raises(Unreachable) as caught:
                client.submit(ANSWERS)
            assert words in caught.value.__notes__[0]
            cut.away = False
            (receipt,) = client.resume()  # in memory, and then from the folder
            assert client.resume() == ()
        receipt.verify(signed.study)
        (invitation,) = invite(1)


def test_without_one_or_with_one_of_somebody_else(lab: Lab, signed: SignedStudy, invite: Invite) -> None:
    (good,) = invite(1)
    study = signed.study
    forger = SigningKey.generate(DeterministicRandom("forger"))
    forged = Invitation(study.id, bytes(16), FAR).signed_with(forger)
    longer = dataclasses.replace(good, expires_ms=good.expires_ms + 1)
    other = dataclasses.replace(good, secret=bytes(16))
    before = pending(lab, study.id)
    with Client(signed, attempts=1) as client:
        submission = client.prepare(ANSWERS)
        with pytest.raises(Refused) as caught:
            client.send(submission)
        assert caught.value.reason == "no_invitation"
        shown = good.admit(submission)
        for bad in (
            *(item.admit(submission).to_bytes() for item in (forged, longer, other)),
            dataclasses.replace(shown, digests=shown.digests[:-1]).to_bytes(),
            good.admit_withdrawal(submission.submission_id).to_bytes(),
            good.to_bytes(),
            bytes(88),
            shown.to_bytes() + b"x",
        ):
            with pytest.raises(Refused) as caught:
                client.upload(submission, 1, bad)
            assert caught.value.reason == "bad_invitation"
        assert pending(lab, study.id) == before
        client.upload(submission, 1, shown.to_bytes())  # nothing of the bad ones stood in the way
    with pytest.raises(VerificationError):
        Client(signed, invitation=forged)
    with pytest.raises(InvitationError, match="another study"):
        Client(signed, invitation=dataclasses.replace(good, study_id=bytes(32)))


def test_one_that_is_over_still_gets_the_receipt_of_what_came_in_time(
    lab: Lab, signed: SignedStudy, invite: Invite
) -> None:
    (invitation,) = invite(1)
    with contextlib.ExitStack() as later:
        client = later.enter_context(Client(signed, invitation=invitation, attempts=1))
        early, late = client.prepare(ANSWERS), client.prepare(ANSWERS)
        receipt = client.send(early)
        (unused,) = invite(1)
        for k in range(1, lab.right + 1):
            later.enter_context(lab.at_another_time(f"R{k}", _At()))
        assert client.send(early) == receipt
        other = later.enter_context(Client(signed, invitation=unused, attempts=1))
        with pytest.raises(Refused) as caught:
            other.send(late)
        assert caught.value.reason == "invitation_expired"


class _At(SystemClock):
    """The far future; sleeping takes as long as ever."""

    def now_ms(self) -> int:
        return FAR


def test_two_submissions_race_with_one_invitation(lab: Lab, signed: SignedStudy, invite: Invite) -> None:
    """At all providers at once, in every order: at most one of the two is ever complete."""
    complete, split = 0, 0
    # grpcio: the default transport makes one call at a time to a provider, and these shall arrive together.
    racing = Client(signed, attempts=1, transport=GrpcioTransport())
    with racing as client, ThreadPoolExecutor(2 * lab.right) as pool:
        for number, invitation in enumerate(invite(12)):
            two = [client.prepare(ANSWERS), client.prepare(ANSWERS)]
            jobs = list(itertools.product(two, range(1, lab.right + 1)))
            if number % 2:
                jobs.reverse()

            def upload(job: Any, invitation: Invitation = invitation) -> str:
                try:
                    client.upload(*job, invitation.admit(job[0]).to_bytes())
                except Refused as error:
                    return error.reason
                return "ok"

            answers = dict(
                zip([(item.submission_id, k) for item, k in jobs], pool.map(upload, jobs), strict=True)
            )
            assert set(answers.values()) <= {"ok", "invitation_used"}
            for k in range(1, lab.right + 1):  # every provider took exactly one of the two
                assert [answers[item.submission_id, k] for item in two].count("ok") == 1
            whole = [
                all(answers[item.submission_id, k] == "ok" for k in range(1, lab.right + 1)) for item in two
            ]
            assert sum(whole) <= 1
            complete, split = complete + sum(whole), split + (not any(whole))
    assert complete + split == 12


def test_an_invitation_split_between_two_submissions_serves_neither(
    lab: Lab, signed: SignedStudy, invite: Invite
) -> None:
    """Only a client that does not keep the order can do this, and only to its own invitation."""
    (invitation,) = invite(1)
    with Client(signed, invitation=invitation, attempts=1) as client:
        one, two = client.prepare(ANSWERS), client.prepare(ANSWERS)
        client.upload(one, 1)
        client.upload(two, 2)
        for submission, provider in ((one, 2), (two, 1)):
            with pytest.raises(Refused) as caught:
                client.upload(submission, provider)
            assert caught.value.reason == "invitation_used"
    held = pending(lab, signed.study.id)
    assert one.submission_id not in set.intersection(*held)
    assert two.submission_id not in set.intersection(*held)


def test_the_owner_makes_them_for_invited_studies_only_and_in_batches(lab: Lab, signed: SignedStudy) -> None:
    open_study = lab.open_study()
    with pytest.raises(Refused) as caught:
        invitations.make_invitations(open_study.study, lab.owner, 1, FAR, lambda _: None)
    assert caught.value.reason == "not_your_role"
    seen: list[int] = []
    links = invitations.make_invitations(signed.study, lab.owner, invitations.BATCH + 1, FAR, seen.append)
    assert seen == [invitations.BATCH, invitations.BATCH + 1]
    assert len({str(link) for link in links}) == invitations.BATCH + 1
    with pytest.raises(ConfigError, match=r"admission\.key is missing"):
        invitations.make_invitations(signed.study, lab.folder / "R1", 1, FAR, lambda _: None)


def test_a_right_provider_admits_where_the_study_says_so(lab: Lab) -> None:
    signed = lab.open_study(admission="invited", admission_signer="R2")
    links = invitations.make_invitations(signed.study, lab.owner, 3, FAR, lambda _: None)
    with Client(signed, invitation=links[0].invitation) as client:
        client.submit(ANSWERS)
    assert links[1].invitation is not None
    links[1].invitation.verify(lab.parties["R2"].identity)
    made = lab.query("R2", "SELECT count FROM invitations_made WHERE study_id = ?", (signed.study.id,))
    assert made == [(3,)]
    for k in range(1, lab.right + 1):  # every right provider counts those that were used
        used = lab.query(f"R{k}", "SELECT count(*) FROM invitations WHERE study_id = ?", (signed.study.id,))
        assert used == [(1,)]
    key, study_id = bytes(32), signed.study.id
    assert refusal(lab, "R1", study_id, key, FAR) == "not_your_role"
    for keys, expires_ms in (
        (b"", FAR),
        (bytes(33), FAR),
        (bytes(32 * 1001), FAR),
        (key, int(time.time() * 1000) - 1),
        (key, -5),
    ):
        assert refusal(lab, "R2", study_id, keys, expires_ms) == "malformed"
    assert refusal(lab, "R2", lab.open_study().study.id, key, FAR) == "not_your_role"
    lab.close(signed.study)
    assert refusal(lab, "R2", study_id, key, FAR) == "study_closed"


def refusal(lab: Lab, to: str, study_id: bytes, keys: bytes, expires_ms: int) -> str:
    """Why a node does not sign."""
    request = SignInvitationsRequest(study_id=study_id, public_keys=keys, expire_time_ms=expires_ms)
    with (
        lab.channel_as("owner", to) as channel,
        pytest.raises(Refused) as caught,
        plain_errors(to),
    ):
        InvitationServiceStub(channel).SignInvitations(request, timeout=patience(10))
    return str(caught.value.reason)


def test_a_queue_keeps_the_invitation_with_the_payload(
    lab: Lab, signed: SignedStudy, invite: Invite, tmp_path: Path
) -> None:
    first, second = invite(2)
    queue = Queue(tmp_path / "device", bytes(32))
    study_id = queue.join(signed, invitation=first)
    queue.seal(study_id, ANSWERS)
    queue.join(signed, invitation=second)  # another invitation is opened before the first payload is sent
    queue.close()
    queue = Queue(tmp_path / "device", bytes(32))
    (sent,) = queue.send(now=True)
    assert sent.state == "sent"
    with Client(signed, invitation=first, attempts=1) as client, pytest.raises(Refused) as caught:
        client.submit(ANSWERS)
    assert caught.value.reason == "invitation_used"
    with Client(signed, invitation=second, attempts=1) as client:  # the second is still free
        client.submit(ANSWERS)
    queue.close()


def test_a_queue_stops_for_good_when_the_invitation_is_used(
    signed: SignedStudy, invite: Invite, tmp_path: Path
) -> None:
    (invitation,) = invite(1)
    with Client(signed, invitation=invitation) as client:
        client.submit(ANSWERS)
    queue = Queue(tmp_path / "device", bytes(32))
    with pytest.raises(Refused, match="invited people"):
        queue.seal(queue.join(signed), ANSWERS)  # not even sealed without one
    queue.seal(queue.join(signed, invitation=invitation), ANSWERS)
    (entry,) = queue.send(now=True)
    assert (entry.state, entry.received_by) == ("refused", ())
    assert "used before" in entry.why
    queue.close()


def test_all_right_providers_count_what_was_used(lab: Lab, invite: Invite, signed: SignedStudy) -> None:
    """Asked directly, and passed on by the collector; which ones were used is told by nobody without reminders."""
    before = invitations.ask(
        signed.study, lab.owner, with_keys=False
    )  # other tests left some at one provider alone
    (invitation,) = invite(1)
    with Client(signed, invitation=invitation) as client:
        client.submit(ANSWERS)
    after = invitations.ask(signed.study, lab.owner, with_keys=False)
    assert after.used == {role: count + 1 for role, count in before.used.items()}
    assert set(after.used) == {f"R{k}" for k in range(1, lab.right + 1)}

    lab.wait(signed.study, lambda status: status.invitations_used == after.used)
    with pytest.raises(Refused, match="has no reminders"):
        invitations.ask(signed.study, lab.owner, with_keys=True)


def test_people_who_have_not_answered_are_reminded_from_the_owners_own_file(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signed = lab.open_study(admission="invited", reminders=True)
    links = invitations.make_invitations(signed.study, lab.owner, 5, FAR, lambda _: None)
    with Client(signed, invitation=links[1].invitation) as client:
        client.submit(ANSWERS)
    submission = None
    with Client(signed, invitation=links[3].invitation) as client:  # on its way: it has reached one provider
        submission = client.prepare(ANSWERS)
        client.upload(submission, 1)
    invitations.write_csv(tmp_path / "made.csv", links)
    lines = (tmp_path / "made.csv").read_text().splitlines()
    (tmp_path / "merge.csv").write_text(
        "\n".join([lines[0] + ",name", *(f"{line},Person {n}" for n, line in enumerate(lines[1:]))])
    )
    (tmp_path / "study.json").write_text(signed.to_json())
    status = main(
        ["study", "invitations", str(tmp_path / "study.json"), "--owner", str(lab.owner), "--made",
         str(tmp_path / "merge.csv"), "--unused", str(tmp_path / "remind.csv"), "--json"]
    )  # fmt: skip
    said = json.loads(capsys.readouterr().out)
    assert status == 1, "the providers differ while one submission is on its way"
    assert said["used"] == {"R1": 2} | {f"R{k}": 1 for k in range(2, lab.right + 1)}
    assert (said["made"], said["unused"], said["expired_unused"], said["used_at_some_providers_only"]) == (
        5,
        3,
        0,
        1,
    )
    written = (tmp_path / "remind.csv").read_text().splitlines()
    assert written[0].endswith(",name")
    assert [line.rsplit(",", 1)[1] for line in written[1:]] == ["Person 0", "Person 2", "Person 4"]
    assert (tmp_path / "remind.csv").stat().st_mode & 0o777 == 0o600
    assert "can see that you answered" in explain_study(signed.study)
