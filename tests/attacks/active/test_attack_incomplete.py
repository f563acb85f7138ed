"""A stranger fills one right provider's disk with submissions that no other provider gets.

Such a submission can be in no block, so it stayed until the study closed, with as many others as anybody cared to send.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from trimask_cli import invitations
from trimask_client import Client, Endpoint
from trimask_core.basics.errors import Refused
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import SealedSubmission
from trimask_lab import Lab
from trimask_proto.v1.submission_pb2 import AskSubmissionRequest, AskSubmissionResponse
from trimask_server.right import batches
from trimask_server.right.batches import IncompleteRows

ANSWERS = {"x": 1.0, "y": 1.0}
MOST, SENT = 3, 8
SOON, OLD = 11 * 60_000, 31 * 24 * 3_600_000
ASK = "/trimask_proto.v1.SubmissionService/AskSubmission"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("incomplete"), right=3, left=1)
    with lab.in_thread(request):
        yield lab


@pytest.fixture
def signed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> SignedStudy:
    monkeypatch.setattr(batches, "_MOST", MOST)
    return lab.open_study()


def sweep(lab: Lab, signed: SignedStudy, later_ms: int, role: str = "R1") -> int:
    """What R1's hourly round does about this study, so much later."""
    context = lab.nodes(role)[0].context
    return int(lab.on_loop(IncompleteRows(context)._sweep(signed.study, context.clock.now_ms() + later_ms)))


def held(lab: Lab, signed: SignedStudy, role: str = "R1") -> list[bytes]:
    rows = lab.query(
        role,
        "SELECT submission_id FROM submissions WHERE study_id = ? AND payload IS NOT NULL ORDER BY sequence",
        (signed.study.id,),
    )
    return [bytes(row[0]) for row in rows]


def send(client: Client, *providers: int) -> SealedSubmission:
    submission = client.prepare(ANSWERS)
    for provider in providers:
        client.upload(submission, provider)
    return submission


@pytest.mark.parametrize("erases", [True, False])
def test_submissions_for_one_provider_do_not_stay(
    lab: Lab, signed: SignedStudy, monkeypatch: pytest.MonkeyPatch, erases: bool
) -> None:
    """The oldest go while there are too many, the rest when they are old; without either rule all of them stay."""
    if not erases:
        monkeypatch.setattr(batches, "_MOST", 10**9)
        monkeypatch.setattr(batches, "_AGE_MS", 10**15)
    before = lab.nodes("R1")[0].context.refusals.as_dict().get("incomplete_submission", 0)
    with Client(signed, attempts=1) as client:
        complete = [send(client, 1, 2, 3) for _ in range(2)]
        junk = [send(client, 1) for _ in range(SENT)]
        ids = [submission.submission_id for submission in complete + junk]
        assert sweep(lab, signed, 0) == 0  # a device may be about to send the other parts
        assert held(lab, signed) == ids
        erased = sweep(lab, signed, SOON)
        assert erased == (SENT - MOST if erases else 0)
        assert held(lab, signed) == ids[:2] + ids[2 + erased :]
        sweep(lab, signed, OLD)
        assert held(lab, signed) == (ids[:2] if erases else ids)
        counted = lab.nodes("R1")[0].context.refusals.as_dict().get("incomplete_submission", 0) - before
        assert counted == (SENT if erases else 0)
        if not erases:
            return
        # Whoever comes later with it is told, wherever; and whoever asks.
        for provider in (1, 2):
            with pytest.raises(Refused) as caught:
                client.upload(junk[0], provider)
            assert (caught.value.reason, caught.value.reason.final) == ("incomplete_submission", True)
        assert asked(signed, client, junk[0]) == "incomplete_submission"
        assert asked(signed, client, complete[0]) == ""


def asked(signed: SignedStudy, client: Client, submission: SealedSubmission) -> str:
    """What R1 says to a device that has its receipt."""
    party = signed.study.party("R1")
    request = AskSubmissionRequest(
        study_id=signed.study.id,
        submission_id=submission.submission_id,
        sealed_hash=hashlib.sha256(submission.sealed[0]).digest(),
    )
    endpoint = Endpoint(party.address, party.tls_name, signed.study.tls_roots)
    answer = client._transport.call(endpoint, ASK, request.SerializeToString(), 20)
    return str(AskSubmissionResponse.FromString(answer).reason)


def test_what_was_complete_once_is_never_touched(lab: Lab, signed: SignedStudy) -> None:
    """Not even when another provider has lost its part since: its operator may have the store yet."""
    with Client(signed, attempts=1) as client:
        kept = send(client, 1, 2, 3)
    assert sweep(lab, signed, SOON) == 0

    async def lose() -> None:
        sql = "DELETE FROM submissions WHERE submission_id = ?"
        await lab.nodes("R2")[0].context.database.write(lambda tx: tx.run(sql, (kept.submission_id,)))

    lab.on_loop(lose())
    assert sweep(lab, signed, OLD) == 0
    assert held(lab, signed) == [kept.submission_id]


@pytest.mark.parametrize("binding", [True, False])
def test_what_becomes_complete_meanwhile_is_not_erased(
    lab: Lab, signed: SignedStudy, monkeypatch: pytest.MonkeyPatch, binding: bool
) -> None:
    """The last parts come after the others were asked, and before anything is erased. Were the first answer enough, R1 would
    erase its part of a submission that everybody has signed for."""
    client = Client(signed, attempts=1)
    late = send(client, 1)
    ask = IncompleteRows._ask

    async def overtaken(
        rows: Any, study: Any, role: str, ids: Any, silent: Any, *, refuse: bool = False
    ) -> list[bytes]:
        if refuse and role == "R2":
            for provider in (2, 3):
                await asyncio.to_thread(client.upload, late, provider)
            if not binding:
                return list(ids)
        return await ask(rows, study, role, ids, silent, refuse=refuse)

    monkeypatch.setattr(IncompleteRows, "_ask", overtaken)
    with client:
        assert sweep(lab, signed, OLD) == (0 if binding else 1)
    assert [held(lab, signed, role) == [late.submission_id] for role in ("R1", "R2", "R3")] == [
        binding,
        True,
        True,
    ]


def test_nothing_is_erased_on_nobodys_word(lab: Lab, signed: SignedStudy) -> None:
    """While the others do not refuse it for ever, here because the study is being counted, all of it stays."""
    with Client(signed, attempts=1) as client:
        junk = send(client, 1)
    for role in ("R2", "R3"):
        context = lab.nodes(role)[0].context
        entry = context.audit.entry("study_paused", study=signed.study.id.hex())
        lab.on_loop(context.studies.pause(signed.study.id, entry))
    assert sweep(lab, signed, OLD) == 0
    assert held(lab, signed) == [junk.submission_id]


def test_an_invited_study_keeps_them(lab: Lab) -> None:
    """There are no more of them than invitations, and an invitation is for one submission."""
    signed = lab.open_study(admission="invited")
    (link,) = invitations.make_invitations(signed.study, lab.owner, 1, 4_000_000_000_000, lambda _: None)
    with Client(signed, invitation=link.invitation, attempts=1) as client:
        submission = send(client, 1)
    context = lab.nodes("R1")[0].context
    lab.on_loop(IncompleteRows(context).sweep(context.clock.now_ms() + OLD))
    assert held(lab, signed) == [submission.submission_id]


def test_refused_ids_do_not_fill_the_disk_either(
    lab: Lab, signed: SignedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_MOST_REMEMBERED", 2)
    with Client(signed, attempts=1) as client:
        for _ in range(5):
            send(client, 1)
    assert sweep(lab, signed, OLD) == 5
    for role in ("R1", "R2"):
        rows = lab.query(role, "SELECT count(*) FROM submissions WHERE study_id = ?", (signed.study.id,))
        assert rows[0][0] == 2


def test_the_hourly_round_asks(lab: Lab, signed: SignedStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    async def noted(_: Any, now_ms: int) -> int:
        seen.append(now_ms)
        return 0

    monkeypatch.setattr(IncompleteRows, "sweep", noted)
    lab.on_loop(lab.nodes("R1")[0].services.after_collection(7))
    assert seen == [7]
