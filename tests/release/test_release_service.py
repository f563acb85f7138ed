"""The service between its steps: a failure injected at each, and what is charged and answered after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask.release import Answer
from trimask_answers import OWNER, ROWS, LoneCollector, stand_in
from trimask_core.basics.errors import ParameterError, Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import verify
from trimask_core.study.guarantee import Budget, Protection
from trimask_proto.v1 import release_pb2 as pb
from trimask_server.collector.releases import BudgetLedger, ReleaseServicer
from trimask_server.suites.moments import answers

BUDGET = Budget(1.0, 1e-6, 1.0)


class Killed(BaseException):
    """What a kill -9 would be: nothing after it runs, not even `except Exception`."""


class Bench:
    """A lone collector with a study that has a budget."""

    def __init__(self, path: Path, made: Any) -> None:
        self.made, self.study = made, made.study
        self.collector = LoneCollector(path, made.identities["collector"])

    def service(self) -> ReleaseServicer:
        return self.collector.service()

    async def open(self, state: str = "closed", release: str = "answerable") -> None:
        await self.collector.open(self.made.signed, state, release)

    def request(self, number: int = 1, epsilon: float = 0.5, **question: Any) -> pb.AskReleaseRequest:
        asked = question or {"sum": pb.SumQuestion(columns=["age"])}
        return pb.AskReleaseRequest(
            study_id=self.study.id,
            request_id=number.to_bytes(16, "big"),
            approximate=pb.ApproximatePrice(epsilon=epsilon, delta=1e-7),
            **asked,
        )

    async def states(self) -> list[str]:
        return (await self.collector.states(self.study.id))[0]


@pytest.fixture
def bench(tmp_path: Path, make_study: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    stand_in(monkeypatch.setattr)
    norm = make_study(suite="moments", sigma=0.0).study.protection.row_norm
    made = make_study(suite="moments", sigma=0.0, protection=Protection(norm, 0.0, "exact", budget=BUDGET))
    found = Bench(tmp_path / "collector.sqlite3", made)
    yield found
    found.collector.database.close()


def test_an_answer_is_signed_and_the_same_when_asked_again(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        request = bench.request()
        first = await bench.service().AskRelease(request, OWNER)
        again = await bench.service().AskRelease(request, OWNER)
        assert (again.answer, again.signature) == (first.answer, first.signature)
        assert (first.replayed, again.replayed) == (False, True)
        answer = Answer.read(bench.study, request, first)
        assert (answer.rows, answer.cost["epsilon"]) == (ROWS, 0.5)
        verify(bench.study.collector.identity, "release-answer", first.answer, first.signature, "the answer")
        with pytest.raises(Refused) as caught:
            await bench.service().AskRelease(bench.request(epsilon=0.25), OWNER)
        assert caught.value.reason == "bad_question"
        assert await bench.states() == ["answered"]

    asyncio.run(story())


def test_answers_that_were_changed_are_not_believed(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        request = bench.request()
        good = await bench.service().AskRelease(request, OWNER)
        body = json.loads(good.answer)
        body["values"]["totals"][0] += 1
        changed = pb.AskReleaseResponse(answer=json.dumps(body).encode(), signature=good.signature)
        with pytest.raises(VerificationError, match="does not verify"):
            Answer.read(bench.study, request, changed)
        with pytest.raises(VerificationError, match="another request"):
            Answer.read(bench.study, bench.request(2), good)

    asyncio.run(story())


@pytest.mark.parametrize("step", ["commit", "deliver", "answer"])
def test_killed_between_reservation_and_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The cost stays, the same request resumes it, and it is charged once."""

    def kill(*_: object, **__: object) -> Any:
        raise Killed

    async def story() -> None:
        await bench.open()
        with monkeypatch.context() as patch:
            patch.setattr(BudgetLedger if step == "answer" else answers, step, kill)
            with pytest.raises(Killed):
                await bench.service().AskRelease(bench.request(), OWNER)
        assert await bench.states() == ["reserved"]
        shown = await bench.service().GetBudget(pb.GetBudgetRequest(study_id=bench.study.id), OWNER)
        assert (shown.spent.epsilon, shown.left.epsilon) == (0.5, 0.5)
        resumed = await bench.service().AskRelease(bench.request(), OWNER)
        assert resumed.replayed is False
        assert await bench.states() == ["answered"]
        again = await bench.service().AskRelease(bench.request(), OWNER)
        assert again.answer == resumed.answer

    asyncio.run(story())


def test_a_failure_before_the_data_were_used_is_taken_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> Any:
        raise Refused(Reason.UNREACHABLE, "R2 is away")

    async def story() -> None:
        await bench.open()
        with monkeypatch.context() as patch:
            patch.setattr(answers, "commit", away)
            with pytest.raises(Refused, match="R2 is away"):
                await bench.service().AskRelease(bench.request(), OWNER)
        assert await bench.states() == []
        # After the commitments it stays paid, also when a later try does not get as far; then it is completed.
        for step in ("deliver", "commit"):
            with monkeypatch.context() as patch:
                patch.setattr(answers, step, away)
                with pytest.raises(Refused, match="R2 is away"):
                    await bench.service().AskRelease(bench.request(), OWNER)
            assert await bench.states() == ["reserved"]
        await bench.service().AskRelease(bench.request(), OWNER)
        assert await bench.states() == ["answered"]

    asyncio.run(story())


def test_a_failure_after_the_data_were_used_stays_paid_and_says_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> Any:
        raise ArithmeticError("value 17 of the data is odd")

    async def story() -> None:
        await bench.open()
        with monkeypatch.context() as patch:
            patch.setattr(answers, "deliver", broken)
            with pytest.raises(Refused) as caught:
                await bench.service().AskRelease(bench.request(), OWNER)
        assert caught.value.reason == "release_failed"
        assert "17" not in str(caught.value)
        assert await bench.states() == ["failed"]
        with pytest.raises(Refused) as caught:
            await bench.service().AskRelease(bench.request(), OWNER)
        assert caught.value.reason == "release_failed"

    asyncio.run(story())


def test_what_is_refused_in_planning_costs_nothing(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        service = bench.service()
        for number, (why, question) in enumerate(
            (
                ("no column", {"sum": pb.SumQuestion(columns=["height"])}),
                ("which is public", {"sum": pb.SumQuestion(columns=["one"])}),
                ("at least 2", {"gram": pb.GramQuestion(columns=["age"])}),
                ("each only once", {"gram": pb.GramQuestion(columns=["age", "bmi", "bmi"])}),
            )
        ):
            with pytest.raises(Refused, match=why) as caught:
                await service.AskRelease(bench.request(number, **question), OWNER)
            assert caught.value.reason == "bad_question"
        nothing = bench.request()
        nothing.ClearField("sum")
        with pytest.raises(Refused, match="ask a question: sum"):
            await service.AskRelease(nothing, OWNER)
        with pytest.raises(ParameterError):
            await service.AskRelease(bench.request(epsilon=-1.0), OWNER)
        short = bench.request()
        short.request_id = b"short"
        with pytest.raises(Refused, match="16 random bytes"):
            await service.AskRelease(short, OWNER)
        assert await bench.states() == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("state", "release", "reason"),
    [("closed", "discarded", "too_few_rows"), ("open", "open", "not_yet")],
)
def test_without_rows_nothing_is_answered_or_charged(
    bench: Bench, state: str, release: str, reason: str
) -> None:
    async def story() -> None:
        await bench.open(state, release)
        with pytest.raises(Refused) as caught:
            await bench.service().AskRelease(bench.request(), OWNER)
        assert caught.value.reason == reason
        shown = await bench.service().GetBudget(pb.GetBudgetRequest(study_id=bench.study.id), OWNER)
        wanted = pb.BUDGET_STATE_CLOSED if state == "closed" else pb.BUDGET_STATE_COLLECTING
        assert (shown.state, shown.rows, len(shown.entries)) == (wanted, 0, 0)

    asyncio.run(story())


def test_the_same_request_many_times_at_once_is_one_answer(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        service = bench.service()
        replies = await asyncio.gather(*(service.AskRelease(bench.request(), OWNER) for _ in range(8)))
        assert len({reply.answer for reply in replies}) == 1
        assert sum(not reply.replayed for reply in replies) == 1
        assert await bench.states() == ["answered"]

    asyncio.run(story())


def test_a_study_that_publishes_has_no_answers(bench: Bench, make_study: Any) -> None:
    async def story() -> None:
        await bench.open()
        plain = make_study(sigma=0.0, title="plain")
        await bench.collector.registry.register(plain.signed, 1)
        for ask in (
            bench.service().AskRelease(pb.AskReleaseRequest(study_id=plain.study.id), OWNER),
            bench.service().GetBudget(pb.GetBudgetRequest(study_id=plain.study.id), OWNER),
        ):
            with pytest.raises(Refused) as caught:
                await ask
            assert caught.value.reason == "no_budget"

    asyncio.run(story())
