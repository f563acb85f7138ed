"""`Gateway` against real nodes: many people in one call, each with a receipt, and nobody twice after a crash."""

from __future__ import annotations

import csv
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from trimask_cli import owner
from trimask_client import Client
from trimask_client.gateway import SUBMIT_MANY_METHOD, Gateway
from trimask_client.grpc_channel import open_channel
from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.party import admission_key
from trimask_core.submit.invitation import Invitation
from trimask_core.submit.submission import Receipt, read_receipt
from trimask_patience import until
from trimask_proto.v1.submission_pb2 import SubmitManyRequest, SubmitManyResponse

FAR = 4_000_000_000_000


@pytest.fixture(scope="module", params=["rows", "moments", "invited"])
def opened(request: pytest.FixtureRequest, running: Any, make_study: Any) -> Any:
    """A study of each suite, and an invited one."""
    folder = running.cluster.folder
    more: dict[str, Any] = (
        {"suite": "moments"} if request.param == "moments" else {"left": 1, "block_rows": 64}
    )
    if request.param == "invited":
        more |= {"admission": "invited", "admission_signer": "owner"}
    made = make_study(right=2, keys=folder, title=f"Many, {request.param}", **more)
    owner.open_study(made.signed, folder / "owner")
    return made


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimask_client.gateway._BATCH", 4)
    monkeypatch.setattr("trimask_client.gateway._TOGETHER", 3)


def held(running: Any, study: Any, role: str) -> int:
    with sqlite3.connect(running.cluster.folder / role / "data" / "right.sqlite3") as connection:
        query = "SELECT count(*) FROM submissions WHERE study_id = ?"
        count: int = connection.execute(query, (study.id,)).fetchone()[0]
    connection.close()
    return count


def invitations(running: Any, study: Any, count: int) -> list[Invitation]:
    if study.admission != "invited":
        return []
    key, source = admission_key(running.cluster.folder / "owner"), SystemRandom()
    return [Invitation.draw(study.id, FAR, source).signed_with(key) for _ in range(count)]


def test_everybody_has_a_receipt_and_a_crash_counts_nobody_twice(
    running: Any, opened: Any, answers: Any, tmp_path: Path, few: None
) -> None:
    study, people = opened.study, [{**answers, "age": 20 + i} for i in range(10)]
    own = invitations(running, study, 10)
    lines = range(2, 12)
    with Gateway(opened.signed, folder=tmp_path) as gateway:
        sending = gateway.submit_many(people, own, lines)
        for _ in range(6):  # in the second batch, which is noted and not finished
            assert isinstance(next(sending)[1], Receipt)
        with pytest.raises(ConfigError, match="another program"):
            next(Gateway(opened.signed, folder=tmp_path).submit_many(people))
        sending.close()
    with Gateway(opened.signed, folder=tmp_path) as gateway:
        with pytest.raises(ConfigError, match="the rows are others"):
            next(gateway.submit_many(people[1:], own))
        with pytest.raises(ConfigError, match="the rows are others"):
            next(gateway.submit_many([*people[:5], *people[6:]], own))
    assert [held(running, study, role) for role in ("R1", "R2")] == [8, 8]
    with Gateway(opened.signed, folder=tmp_path) as gateway:
        rest = dict(gateway.submit_many(iter(people), own, lines))
    assert list(rest) == [*range(6, 12)]
    for receipt in rest.values():
        assert isinstance(receipt, Receipt)
        receipt.verify(study)
    assert [held(running, study, role) for role in ("R1", "R2")] == [10, 10]
    with (tmp_path / "receipts.csv").open(newline="") as file:
        noted = list(csv.DictReader(file))
    assert [int(one["line"]) for one in noted] == [*lines]
    assert len({one["submission"] for one in noted}) == 10
    read_receipt(noted[0]["receipt"]).verify(study)
    assert not (tmp_path / "refused.csv").exists()
    with pytest.raises(ConfigError, match="all 10 rows were sent"):
        next(Gateway(opened.signed, folder=tmp_path).submit_many(people, own))


@pytest.fixture
def call(running: Any, opened: Any) -> Iterator[Any]:
    """SubmitMany at R1, with grpcio: answers to messages of one stream."""
    party = opened.study.party("R1")
    with open_channel(party.address, opened.study.tls_roots, party.tls_name) as channel:
        yield channel.stream_stream(
            SUBMIT_MANY_METHOD,
            request_serializer=SubmitManyRequest.SerializeToString,
            response_deserializer=SubmitManyResponse.FromString,
        )


def test_each_submission_is_refused_for_itself(running: Any, opened: Any, answers: Any, call: Any) -> None:
    study = opened.study
    own = invitations(running, study, 6) or [None] * 6
    with Client(opened.signed) as client:
        made = [client.prepare(answers) for _ in range(6)]
        requests = [
            client.submit_request(one, 1, b"" if invitation is None else invitation.admit(one).to_bytes())
            for one, invitation in zip(made, own, strict=True)
        ]
    before, count = running.refused("R1"), held(running, study, "R1")
    came = owner.study_status(study).sent_together.get("R1", 0)
    requests[1].submission_id = b"short"
    requests[2].sealed_component = requests[2].sealed_component[:-1] + bytes(
        [requests[2].sealed_component[-1] ^ 1]
    )
    if own[0] is not None:  # one invitation for two submissions, and a stranger's
        requests[3].invitation = own[0].admit(made[3]).to_bytes()
        forged = Invitation.draw(study.id, FAR, SystemRandom()).signed_with(SigningKey.generate())
        requests[4].invitation = forged.admit(made[4]).to_bytes()
    reasons = ["", "malformed", "bad_invitation", "invitation_used", "bad_invitation", ""]
    if own[0] is None:
        reasons = ["", "malformed", "tampered_component", "", "", ""]
    first, again = list(call(iter([SubmitManyRequest(study_id=study.id, submissions=requests)] * 2)))
    assert [one.reason for one in first.outcomes] == reasons
    assert [one.reason for one in again.outcomes] == reasons
    accepted = [place for place, reason in enumerate(reasons) if not reason]
    assert [first.outcomes[i].receipt for i in accepted] == [again.outcomes[i].receipt for i in accepted], (
        "a repeat has the same receipt"
    )
    assert held(running, study, "R1") - count == len(accepted)
    until(lambda: owner.study_status(study).sent_together.get("R1", 0) == came + len(accepted))
    now = running.refused("R1")
    grown = {reason: now[reason] - before.get(reason, 0) for reason in {*reasons} - {""}}
    assert grown == {reason: 2 * reasons.count(reason) for reason in reasons if reason}


@pytest.mark.parametrize("submissions", [0, 65])
def test_a_message_has_bounds(running: Any, opened: Any, call: Any, submissions: int) -> None:
    message = SubmitManyRequest(study_id=opened.study.id)
    for _ in range(submissions):
        message.submissions.add()
    with pytest.raises(grpc.RpcError) as caught:
        list(call(iter([message])))
    assert dict(caught.value.trailing_metadata())["trimask-reason"] == "malformed"


def test_a_closed_study_ends_the_run(running: Any, make_study: Any, answers: Any) -> None:
    folder = running.cluster.folder
    made = make_study(suite="moments", right=2, keys=folder, title="Closed")
    owner.open_study(made.signed, folder / "owner")
    for role in ("R1", "R2"):
        node = running.cluster.nodes[role]
        with sqlite3.connect(folder / role / "data" / "right.sqlite3") as connection:
            connection.execute("UPDATE studies SET state = 'closing' WHERE study_id = ?", (made.study.id,))
        connection.close()
        assert node is not None
    with Gateway(made.signed) as gateway, pytest.raises(Refused) as refused:
        list(gateway.submit_many([answers] * 3))
    assert refused.value.reason == "study_closed"


def test_a_table_is_sent_from_a_shell_and_again_after_a_kill(
    running: Any, make_study: Any, answers: Any, tmp_path: Path
) -> None:
    """A process of its own, killed when the first receipts are noted; the same command then finishes."""
    folder = running.cluster.folder
    made = make_study(suite="moments", right=2, keys=folder, title="A table")
    owner.open_study(made.signed, folder / "owner")
    (tmp_path / "study.json").write_text(made.signed.to_json())
    people = [{**answers, "age": 20 + i % 50} for i in range(600)]
    with (tmp_path / "people.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(answers))
        table.writeheader()
        table.writerows({name: str(value) for name, value in one.items()} for one in people)
    command = [sys.executable, "-m", "trimask_terminal.device", "send-table", "study.json", "people.csv"]
    asked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert asked.returncode == 2
    assert "give --agree" in asked.stderr
    receipts = tmp_path / "people.sent" / "receipts.csv"
    with subprocess.Popen([*command, "--agree"], cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        until(receipts.exists)
        process.kill()
    assert 0 < held(running, made.study, "R1") < 600
    done = subprocess.run([*command, "--agree"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [held(running, made.study, role) for role in ("R1", "R2")] == [600, 600]
    with receipts.open(newline="") as file:
        noted = list(csv.DictReader(file))
    assert [int(one["line"]) for one in noted] == list(range(2, 602))
    assert len({one["submission"] for one in noted}) == 600
    assert owner.study_status(made.study).sent_together == {"R1": 600, "R2": 600}, (
        "each once, whoever sent it again"
    )


@pytest.mark.parametrize("opened", ["invited"], indirect=True)
def test_who_is_refused_is_named_by_line(running: Any, opened: Any, answers: Any, tmp_path: Path) -> None:
    """One invitation for two people, and one that has expired: the others go on, and nothing of these two is anywhere."""
    study, before = opened.study, {role: held(running, opened.study, role) for role in ("R1", "R2")}
    first, second, third = invitations(running, study, 3)
    key = admission_key(running.cluster.folder / "owner")
    expired = Invitation.draw(study.id, 1, SystemRandom()).signed_with(key)
    with Gateway(opened.signed, folder=tmp_path) as gateway:
        own = [first, second, second, expired, third]
        outcomes = dict(gateway.submit_many([answers] * 5, own, range(2, 7)))
    refused = {line: str(one.reason) for line, one in outcomes.items() if isinstance(one, Refused)}
    assert refused == {4: "invitation_used", 5: "invitation_expired"}
    with (tmp_path / "refused.csv").open(newline="") as file:
        assert {int(row["line"]): row["reason"] for row in csv.DictReader(file)} == refused
    with (tmp_path / "receipts.csv").open(newline="") as file:
        assert [int(row["line"]) for row in csv.DictReader(file)] == [2, 3, 6]
    assert {role: held(running, study, role) - count for role, count in before.items()} == {"R1": 3, "R2": 3}
