"""The service between its steps: a failure injected at each, and what is charged and answered after it."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stored_rows import put_release
from trimask.release.answer import Answer
from trimask_core.clock import SystemClock
from trimask_core.errors import ParameterError, Refused, VerificationError
from trimask_core.identity import verify
from trimask_core.randomness import DeterministicRandom
from trimask_core.rows.normal import SecureNormals
from trimask_core.study import Budget, Protection
from trimask_proto.v1 import release_pb2 as pb
from trimask_server.collector.releases.budget_ledger import BudgetLedger
from trimask_server.collector.releases.factors import Factors
from trimask_server.collector.releases.service import ReleaseServicer
from trimask_server.node.workers import Workers
from trimask_server.store.data_keys import Vault
from trimask_server.store.master_keys import KeyRing
from trimask_server.store.schema import COLLECTOR
from trimask_server.store.sqlite import SqliteStore
from trimask_server.store.studies import StudyRegistry
from trimask_witnesses import WitnessedAnswers

BUDGET = Budget(1.0, 1e-6, 1.0)


class Killed(BaseException):
    """What a kill -9 would be: nothing after it runs, not even `except Exception`."""


class Bench:
    """A release service over a real store, without the rest of a node; `restart` forgets all that is in memory."""

    def __init__(self, path: Path, made: Any, rows: int = 48) -> None:
        self.path, self.made, self.rows = path, made, rows
        self.study = made.study
        self.database = SqliteStore(path, COLLECTOR)
        self.vault = Vault(KeyRing.generate())
        self.workers = Workers(1)

    def service(self) -> ReleaseServicer:
        node = SimpleNamespace(
            database=self.database,
            vault=self.vault,
            studies=self.registry,
            workers=self.workers,
            clock=SystemClock(),
            source=DeterministicRandom(f"bench {self.rows}"),
            keys=SimpleNamespace(identity=self.made.identities["collector"]),
            log=logging.getLogger("bench"),
            config=SimpleNamespace(owner_tls_name="owner.trimask.local"),
        )
        return ReleaseServicer(node, lambda _: WitnessedAnswers(node, self.made.identities))  # type: ignore[arg-type]

    async def open(self, state: str = "closed", factor_state: str = "full") -> None:
        self.registry = StudyRegistry(self.database)
        await self.registry.register(self.made.signed, 1)
        await self.registry.set_state(self.study.id, state)
        p = self.study.attributes
        factor = np.linalg.qr(np.random.default_rng(1).uniform(-1, 1, (self.rows, p)), mode="r")
        await self.database.write(
            lambda tx: put_release(tx, self.vault, self.study.id, factor, self.rows, factor_state)
        )
        await Factors(self.database, self.vault).make_answerable(self.study.id, self.study.release_rows)

    def request(self, number: int = 1, epsilon: float = 0.5, **mechanism: Any) -> pb.AskReleaseRequest:
        asked = mechanism or {"sum": pb.SumMechanism(columns=["age"], method=pb.SUM_METHOD_GAUSSIAN)}
        return pb.AskReleaseRequest(
            study_id=self.study.id,
            request_id=number.to_bytes(16, "big"),
            approximate=pb.ApproximatePrice(epsilon=epsilon, delta=1e-7),
            **asked,
        )

    async def states(self) -> list[str]:
        return [entry.state for entry in await BudgetLedger(self.database).entries(self.study.id)]


@pytest.fixture
def bench(tmp_path: Path, make_study: Any) -> Iterator[Bench]:
    plain = make_study(sigma=0.0).study.protection.row_norm
    made = make_study(sigma=0.0, protection=Protection(plain, 0.0, "exact", budget=BUDGET))
    found = Bench(tmp_path / "collector.sqlite3", made)
    yield found
    found.workers.close()
    found.database.close()


CONTEXT: Any = SimpleNamespace(auth_context=lambda: {"peer_dns": [b"owner.trimask.local"]})


def test_an_answer_is_signed_and_the_same_when_asked_again(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        request = bench.request()
        first = await bench.service().AskRelease(request, CONTEXT)
        again = await bench.service().AskRelease(request, CONTEXT)
        assert (again.answer, again.signature) == (first.answer, first.signature)
        assert (first.replayed, again.replayed) == (False, True)
        answer = Answer.read(bench.study, request, first)
        assert (answer.rows, answer.cost["epsilon"]) == (48, 0.5)
        verify(bench.study.collector.identity, "release-answer", first.answer, first.signature, "the answer")
        with pytest.raises(Refused) as caught:
            await bench.service().AskRelease(bench.request(epsilon=0.25), CONTEXT)
        assert caught.value.reason == "request_conflict"
        assert await bench.states() == ["answered"]

    asyncio.run(story())


def test_answers_that_were_changed_are_not_believed(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        request = bench.request()
        good = await bench.service().AskRelease(request, CONTEXT)
        body = json.loads(good.answer)
        body["values"]["sum"][0] += 1
        changed = pb.AskReleaseResponse(answer=json.dumps(body).encode(), signature=good.signature)
        with pytest.raises(VerificationError, match="does not verify"):
            Answer.read(bench.study, request, changed)
        with pytest.raises(VerificationError, match="another request"):
            Answer.read(bench.study, bench.request(2), good)

    asyncio.run(story())


@pytest.mark.parametrize("step", ["load", "draw", "answer"])
def test_killed_between_reservation_and_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The cost stays, the same request resumes it, and it is charged once."""

    def kill(*_: object, **__: object) -> Any:
        raise Killed

    async def story() -> None:
        await bench.open()
        with monkeypatch.context() as patch:
            if step == "load":
                patch.setattr(Factors, "load", kill)
            elif step == "draw":
                patch.setattr("trimask_server.suites.rows.answers.SecureNormals", kill)
            else:
                patch.setattr(BudgetLedger, "answer", kill)
            with pytest.raises(Killed):
                await bench.service().AskRelease(bench.request(), CONTEXT)
        assert await bench.states() == ["reserved"]
        shown = await bench.service().GetBudget(pb.GetBudgetRequest(study_id=bench.study.id), CONTEXT)
        assert (shown.spent.epsilon, shown.left.epsilon) == (0.5, 0.5)
        resumed = await bench.service().AskRelease(bench.request(), CONTEXT)
        assert resumed.replayed is False
        assert await bench.states() == ["answered"]
        again = await bench.service().AskRelease(bench.request(), CONTEXT)
        assert again.answer == resumed.answer

    asyncio.run(story())


def test_a_failure_before_the_data_were_used_is_taken_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> Any:
        raise OSError("disk")

    async def story() -> None:
        await bench.open()
        with monkeypatch.context() as patch:
            patch.setattr(Factors, "load", broken)
            with pytest.raises(OSError, match="disk"):
                await bench.service().AskRelease(bench.request(), CONTEXT)
        assert await bench.states() == []
        await bench.service().AskRelease(bench.request(), CONTEXT)

    asyncio.run(story())


def test_a_failure_after_the_data_were_used_stays_paid_and_says_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise ArithmeticError("value 17 of the data is odd")

    async def story() -> None:
        await bench.open()
        with monkeypatch.context() as patch:
            patch.setattr("trimask_server.collector.releases.sums.as_lists", broken)
            with pytest.raises(Refused) as caught:
                await bench.service().AskRelease(bench.request(), CONTEXT)
        assert caught.value.reason == "release_failed"
        assert "17" not in str(caught.value)
        assert await bench.states() == ["failed"]
        with pytest.raises(Refused) as caught:
            await bench.service().AskRelease(bench.request(), CONTEXT)
        assert caught.value.reason == "release_failed"

    asyncio.run(story())


def test_what_is_refused_in_planning_costs_nothing(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        service = bench.service()
        unknown = pb.SumMechanism(columns=["height"], method=pb.SUM_METHOD_GAUSSIAN)
        collinear = pb.LeastSquaresMechanism(
            response="age", features=["bmi", "bmi"], method=pb.LEAST_SQUARES_METHOD_LS, reduced_dimension=5
        )
        clipped = pb.SumMechanism(method=pb.SUM_METHOD_CLIPPED)
        for number, (reason, mechanism) in enumerate(
            (("unknown_column", {"sum": unknown}), ("collinear_columns", {"least_squares": collinear}),
             ("not_declared", {"sum": clipped}))
        ):  # fmt: skip
            with pytest.raises(Refused) as caught:
                await service.AskRelease(bench.request(number, **mechanism), CONTEXT)
            assert caught.value.reason == reason
        with pytest.raises(ParameterError):
            await service.AskRelease(bench.request(epsilon=-1.0), CONTEXT)
        short = bench.request()
        short.request_id = b"short"
        with pytest.raises(Refused, match="16 random bytes"):
            await service.AskRelease(short, CONTEXT)
        assert await bench.states() == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("rows", "state", "reason"), [(31, "closed", "too_few_rows"), (31, "open", "not_answerable")]
)
def test_without_enough_rows_nothing_is_answered_or_charged(
    bench: Bench, rows: int, state: str, reason: str
) -> None:
    async def story() -> None:
        bench.rows = rows
        await bench.open(state, "open")
        with pytest.raises(Refused) as caught:
            await bench.service().AskRelease(bench.request(), CONTEXT)
        assert caught.value.reason == reason
        shown = await bench.service().GetBudget(pb.GetBudgetRequest(study_id=bench.study.id), CONTEXT)
        wanted = pb.BUDGET_STATE_CLOSED if state == "closed" else pb.BUDGET_STATE_COLLECTING
        assert (shown.state, shown.rows, len(shown.entries)) == (wanted, 0, 0)

    asyncio.run(story())


def test_the_same_request_many_times_at_once_is_one_answer(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        service = bench.service()
        replies = await asyncio.gather(*(service.AskRelease(bench.request(), CONTEXT) for _ in range(8)))
        assert len({reply.answer for reply in replies}) == 1
        assert sum(not reply.replayed for reply in replies) == 1
        assert await bench.states() == ["answered"]

    asyncio.run(story())


def test_noise_is_fresh_for_every_request(bench: Bench) -> None:
    async def story() -> None:
        await bench.open()
        service = bench.service()
        values = set()
        for number in range(4):
            reply = await service.AskRelease(bench.request(number, epsilon=0.1), CONTEXT)
            values.add(json.loads(reply.answer)["values"]["sum"][0])
        assert len(values) == 4

    asyncio.run(story())


def test_a_study_that_publishes_has_no_answers(bench: Bench, make_study: Any) -> None:
    async def story() -> None:
        await bench.open()
        plain = make_study(sigma=0.0, title="plain")
        await bench.registry.register(plain.signed, 1)
        for ask in (
            bench.service().AskRelease(pb.AskReleaseRequest(study_id=plain.study.id), CONTEXT),
            bench.service().GetBudget(pb.GetBudgetRequest(study_id=plain.study.id), CONTEXT),
        ):
            with pytest.raises(Refused) as caught:
                await ask
            assert caught.value.reason == "no_budget"

    asyncio.run(story())


def test_noise_is_the_exact_sampler_s_on_the_node_s_own_source(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[list[int]] = []
    real = SecureNormals.rounded_normal

    def seen(normals: SecureNormals, sigmas: Any) -> list[int]:
        drawn.append(real(normals, sigmas))
        return drawn[-1]

    async def story() -> None:
        await bench.open()
        monkeypatch.setattr(SecureNormals, "rounded_normal", seen)
        reply = await bench.service().AskRelease(bench.request(), CONTEXT)
        answer = json.loads(reply.answer)
        monkeypatch.setattr(SecureNormals, "rounded_normal", lambda *_: [0])
        silent = json.loads((await bench.service().AskRelease(bench.request(2, 0.5), CONTEXT)).answer)
        # What was added is a whole number of steps, a power of two each: the very ones that were drawn.
        step = (answer["values"]["sum"][0] - silent["values"]["sum"][0]) / drawn[0][0]
        assert math.frexp(step)[0] == 0.5

    asyncio.run(story())
