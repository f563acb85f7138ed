"""An old copy of the collector's folder, put back: what a budget has paid for is not paid for again.

Before right providers witnessed the ledger, a copy made before the first question spent the whole budget again each time
it was put back: three answers of epsilon 1 from a budget of 1.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import trimask
from trimask import release
from trimask.errors import VerificationError
from trimask_client import Client
from trimask_core.budget_chain import BudgetLink, chain
from trimask_core.errors import Refused, TrimaskError
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Budget
from trimask_lab import Lab, some_people
from trimask_proto.v1 import witness_pb2
from trimask_proto.v1.witness_pb2_grpc import WitnessServiceStub
from trimask_server.access import budget_witness
from trimask_server.suites.rows import answers
from trimask_terminal.program import main

REQUEST = bytes(range(16))


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """A closed study with a budget of epsilon 1, the collector's folder as it was then, and the budget spent since."""
    lab = Lab(tmp_path_factory.mktemp("rollback"), right=2, left=1)
    with lab.in_thread(request):
        signed = lab.open_study(budget=Budget(1.0, 1e-6))
        with Client(signed) as client:
            for person in some_people(48, 5):
                client.submit(person)
        lab.close(signed.study)
        old = lab.folder / "old"
        lab.stop("collector")
        shutil.copytree(lab.folder / "collector", old)
        lab.start("collector")
        first = ask(lab, signed)
        yield lab, signed, old, first


def ask(
    lab: Lab, signed: SignedStudy, request_id: bytes = REQUEST, column: str = "y", epsilon: float = 1.0
) -> Any:
    collector = signed.study.collector
    with trimask.connect(
        collector.peer_address,
        roots=lab.owner / "ca.pem",
        tls_name=collector.tls_name,
        certificate=(lab.owner / "tls.pem", lab.owner / "tls.key"),
    ) as connection:
        return release.sum(
            connection, signed.study.id, [column], epsilon=epsilon, delta=1e-7, request_id=request_id
        ).answer


def put_back(lab: Lab, copy: Path) -> None:
    lab.stop("collector")
    shutil.rmtree(lab.folder / "collector")
    shutil.copytree(copy, lab.folder / "collector")
    lab.start("collector")


def alarms(lab: Lab, name: str) -> int:
    return lab.refusals(name)["budget_rolled_back"]


def test_an_old_copy_of_the_collectors_folder_spends_nothing_again(spent: Any) -> None:
    lab, signed, old, first = spent
    assert first.witnessed_by == ("L1", "R1", "R2")
    newest = lab.folder / "newest"
    lab.stop("collector")
    shutil.copytree(lab.folder / "collector", newest)
    lab.start("collector")
    # A new question, another one, and the very request that was answered: each would be a second draw.
    for request_id, column in ((bytes(16), "x"), (bytes(15) + b"\1", "y"), (REQUEST, "y")):
        put_back(lab, old)
        before = alarms(lab, "R1")
        with pytest.raises(Refused, match="ledger went back") as caught:
            ask(lab, signed, request_id, column)
        assert caught.value.reason == "budget_forked"
        assert alarms(lab, "R1") > before
    (details,) = lab.query(
        "R1", "SELECT details FROM audit WHERE kind = 'budget_rolled_back' ORDER BY sequence DESC LIMIT 1"
    )
    assert json.loads(details[0])["study"] == signed.study.id.hex()
    assert lab.query("collector", "SELECT 1 FROM audit WHERE kind = 'budget_unwitnessed'")
    assert not lab.query("collector", "SELECT 1 FROM release_answers WHERE state = 'answered'")
    # The newest copy goes on where it was: the same answer, and nothing left to spend.
    put_back(lab, newest)
    assert ask(lab, signed).raw == first.raw
    with pytest.raises(Refused) as caught:
        ask(lab, signed, bytes(16), "x", 0.1)
    assert caught.value.reason == "budget_spent"


def test_an_answer_nobody_witnessed_is_not_believed(spent: Any, tmp_path: Path, capsys: Any) -> None:
    """A changed collector draws and signs as often as it likes; what it signs alone convinces nobody."""
    lab, signed, _, first = spent
    kept = (first.raw, first.signature)
    checked = trimask.release.answer.Answer.checked
    assert checked(signed.study, *kept, (first.number, first.head, first.witnesses)).raw == first.raw
    for witnesses in ({}, {"R1": first.witnesses["R1"]}, {**first.witnesses, "R2": first.witnesses["R1"]}):
        with pytest.raises(VerificationError):
            checked(signed.study, *kept, (first.number, first.head, witnesses))
    with pytest.raises(VerificationError):
        checked(signed.study, *kept, (2, first.head, first.witnesses))
    body = json.loads(first.raw)
    body["values"]["sum"][0] += 1.0
    other = json.dumps(body).encode()
    signature = lab.key("collector").sign("release-answer", other)
    with pytest.raises(VerificationError, match="witnessed of the budget"):
        checked(signed.study, other, signature, (first.number, first.head, first.witnesses))
    # And from the command line.
    study, answer = tmp_path / "study.json", tmp_path / "answer.json"
    study.write_text(signed.without_seed().to_json())
    spend = {
        "number": 1,
        "head": first.head.hex(),
        "witnesses": {r: s.hex() for r, s in first.witnesses.items()},
    }
    document = {"signed": first.raw.decode(), "signature": first.signature.hex(), "spend": spend}
    answer.write_text(json.dumps(document))
    assert main(["release", "verify", str(study), str(answer)]) == 0
    assert "witnessed by L1, R1, R2" in capsys.readouterr().out
    del spend["witnesses"]["R2"]
    answer.write_text(json.dumps(document))
    assert main(["release", "verify", str(study), str(answer)]) != 0
    assert "not witnessed by R2" in capsys.readouterr().err


@pytest.fixture(scope="module")
def answering(lab: Lab) -> SignedStudy:
    """A closed study with a budget of epsilon 2."""
    signed = lab.open_study(budget=Budget(2.0, 1e-5))
    with Client(signed) as client:
        for person in some_people(48, 6):
            client.submit(person)
    lab.close(signed.study)
    return signed


def test_many_questions_at_once_never_overspend(lab: Lab, answering: SignedStudy) -> None:
    """Eight callers ask eight questions, each twice, with room for three; and what is answered is answered once."""
    collector = answering.study.collector
    with trimask.connect(
        collector.address, roots=lab.owner / "ca.pem", tls_name=collector.tls_name
    ) as anybody:
        before = release.budget(anybody, answering.study.id)
        price = math.floor(1000 * before.left.epsilon / 3) / 1000 - 0.001  # and a little for the tests beside

        def question(number: int) -> tuple[int, Any]:
            try:
                return number % 8, ask(lab, answering, bytes([9, number % 8] * 8), "xy"[number % 2], price)
            except Refused as error:
                return number % 8, error.reason

        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(question, range(16)))
        answered = [(number, answer) for number, answer in found if not isinstance(answer, str)]
        assert len({number for number, _ in answered}) == 3
        assert len({answer.raw for _, answer in answered}) == 3  # both who asked the same have the same bytes
        assert {answer for _, answer in found if isinstance(answer, str)} == {"budget_spent"}
        assert len({answer.number for _, answer in answered}) == 3
        after = release.budget(anybody, answering.study.id)
    assert after.spent.epsilon <= 2.0
    assert len(after.entries) == len(before.entries) + 3


def test_a_provider_that_is_away_delays_an_answer_and_does_not_change_it(
    lab: Lab, answering: SignedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = answering
    drawn: list[bytes] = []
    gather: Callable[..., Any] = answers.gather_witnesses

    async def seen(node: Any, study: Any, links: Any, number: int, answer: bytes) -> Any:
        drawn.append(answer)
        return await gather(node, study, links, number, answer)

    monkeypatch.setattr(answers, "gather_witnesses", seen)
    monkeypatch.setattr("trimask_server.collector.releases.witnesses._SECONDS", 0.5)
    lab.stop("R2")
    with pytest.raises(TrimaskError, match="must witness"):
        ask(lab, signed, epsilon=0.001)
    lab.start("R2")
    answer = ask(lab, signed, epsilon=0.001)
    assert set(drawn) == {answer.raw}  # drawn once, whoever was there
    lab.stop("L1")
    try:
        assert ask(lab, signed, bytes(16), epsilon=0.001).witnessed_by == ("R1", "R2")
    finally:
        lab.start("L1")


def test_a_chain_that_costs_more_than_the_budget_is_not_witnessed(spent: Any) -> None:
    lab, signed, _, first = spent
    study = signed.study
    link = witness_pb2.BudgetLink(answer_hash=bytes(32), epsilon=1.0, delta=1e-7)
    first_link = witness_pb2.BudgetLink(answer_hash=hash_of(first.raw), epsilon=1.0, delta=1e-7)
    assert chain(study.id, [BudgetLink(hash_of(first.raw), 1.0, 1e-7, None)]) == [first.head]
    with lab.channel_as("collector", "R1") as channel:
        stub: Any = WitnessServiceStub(channel)
        before = alarms(lab, "R1")
        request = witness_pb2.WitnessBudgetRequest(study_id=study.id, links=[first_link, link], number=2)
        with pytest.raises(Exception, match="the budget cannot pay"):
            stub.WitnessBudget(request, timeout=20)
        # The one that was witnessed is signed again, the same way.
        request = witness_pb2.WitnessBudgetRequest(study_id=study.id, links=[first_link], number=1)
        assert stub.WitnessBudget(request, timeout=20).signature == first.witnesses["R1"]
    assert alarms(lab, "R1") == before + 1


def hash_of(answer: bytes) -> bytes:
    return hashlib.sha256(answer).digest()


@pytest.mark.slow
def test_without_witnesses_the_old_copy_spends_the_budget_again(
    spent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Last, because it leaves a second chain behind. Providers sign whatever they are shown."""
    lab, signed, old, first = spent
    monkeypatch.setattr(budget_witness, "_keep", lambda *_, **__: None)
    answers = {first.raw}
    for request_id in (bytes(16), REQUEST):
        put_back(lab, old)
        answers.add(ask(lab, signed, request_id).raw)
    assert len(answers) == 3  # three draws of epsilon 1, from a budget of 1
