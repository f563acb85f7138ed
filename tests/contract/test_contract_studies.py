"""Studies and refusal counts that several processes of one node share."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey
from trimask_server.access.governance import Proposals
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.metrics import Refusals
from trimask_server.store.database import COLLECTOR, PROVIDER
from trimask_server.store.studies import StudyRegistry


def test_one_process_sees_what_another_registered_and_closed(make_store: Any, signed_study: Any) -> None:
    study_id = signed_study.study.id

    async def course() -> None:
        mine, other = (StudyRegistry(make_store(PROVIDER)) for _ in range(2))
        await mine.register(signed_study, 1)
        await mine.register(signed_study, 2)
        with pytest.raises(Refused, match="does not know"):
            other.get(study_id)
        await other.refresh()
        assert other.get(study_id) == signed_study.study
        await mine.set_state(study_id, "closed")
        assert other.state(study_id) == "open"
        await other.set_state(study_id, "closing")  # it has not heard yet: nothing is opened again
        await other.refresh()
        assert other.state(study_id) == "closed"

    asyncio.run(course())


def _audit(store: Any) -> AuditLog:
    source = DeterministicRandom("operator")
    return AuditLog(store, SigningKey.generate(source), SystemClock(), None, logging.getLogger("test"))


def _nothing(_: Any) -> None:
    return


def test_repro_a_late_copy_neither_ends_a_pause_nor_begins_one(make_store: Any, signed_study: Any) -> None:
    """A call that ended an earlier pause, arriving during a later one, let people withdraw what had been counted."""
    study_id = signed_study.study.id

    async def course() -> None:
        provider = StudyRegistry(make_store(PROVIDER))
        await provider.register(signed_study, 1)
        entries: list[int] = []
        for turn, state in (
            (0, "open"),
            (1, "paused"),
            (0, "paused"),
            (2, "open"),
            (1, "open"),
            (3, "paused"),
        ):
            highest = await provider.follow(study_id, turn, lambda _, turn=turn: entries.append(turn))  # type: ignore[misc]
            assert (highest >= turn, provider.state(study_id)) == (True, state)
        assert entries == [1, 2, 3], "what changes nothing is in no log"
        await provider.set_state(study_id, "closing")
        await provider.follow(study_id, 4, _nothing)
        assert provider.state(study_id) == "closing"

    asyncio.run(course())


@pytest.mark.parametrize(("said", "taken"), [(7, 8), (6, 8), (1, 2)])
def test_a_restored_collector_takes_the_next_turn(
    make_store: Any, signed_study: Any, said: int, taken: int
) -> None:
    """Right providers were told turns that it has forgotten, and would follow none below."""
    study_id = signed_study.study.id

    async def course() -> None:
        studies = StudyRegistry(make_store(COLLECTOR))
        await studies.register(signed_study, 1)
        await studies.outnumber(study_id, said)
        assert await studies.intake(study_id) == ("open", taken)
        await studies.outnumber(study_id, 1)
        await studies.pause(study_id, _nothing)
        await studies.outnumber(study_id, said + 6)
        state, turn = await studies.intake(study_id)
        assert (state, turn % 2, turn > said + 6) == ("paused", 1, True)

    asyncio.run(course())


def test_repro_a_pause_that_is_over_is_not_ended_again(make_store: Any, signed_study: Any) -> None:
    """The owner ordered it closed while it was counted: it got the note that it was not closed."""
    study_id = signed_study.study.id

    async def course() -> None:
        mine, other = (StudyRegistry(make_store(COLLECTOR)) for _ in range(2))
        await mine.register(signed_study, 1)
        await other.refresh()
        done: list[str] = []
        await mine.pause(study_id, _nothing)
        await mine.end_pause(study_id, 1, "open", lambda _: done.append("goes on"))
        await other.pause(study_id, _nothing)  # a worker that has counted before that decides nothing now
        await mine.end_pause(study_id, 1, "closing", lambda _: done.append("stale"))
        assert await other.intake(study_id) == ("paused", 3)
        await mine.set_state(study_id, "closing", lambda _: done.append("closing"))
        await other.end_pause(study_id, 3, "open", lambda _: done.append("late"))
        assert (await other.state_now(study_id), done) == ("closing", ["goes on", "closing"])

    asyncio.run(course())


def test_repro_an_operators_word_does_not_end_a_pause(make_store: Any, signed_study: Any) -> None:
    study_id = signed_study.study.id

    async def course() -> None:
        store = make_store(PROVIDER)
        audit = _audit(store)
        await audit.load()
        studies, proposals = StudyRegistry(store), Proposals(store, audit)
        await studies.register(signed_study, 1)
        await studies.follow(study_id, 1, _nothing)
        await proposals.refuse(signed_study, "no", 2)
        assert await studies.state_now(study_id) == "refused"
        await proposals.approve(signed_study, signed_study.approvals[0], 3)
        assert await studies.state_now(study_id) == "paused"
        await proposals.refuse(signed_study, "no", 4)
        await studies.follow(study_id, 2, _nothing)
        assert await studies.state_now(study_id) == "refused"
        await proposals.approve(signed_study, signed_study.approvals[0], 5)
        assert await studies.state_now(study_id) == "open"

    asyncio.run(course())


def test_refusals_add_up_and_are_not_lost_with_a_failed_write(make_store: Any, monkeypatch: Any) -> None:
    async def course() -> None:
        stores = [make_store(PROVIDER) for _ in range(2)]
        counters = [await Refusals.load(store) for store in stores]
        for counter, store in zip(counters, stores, strict=True):
            counter.count("malformed")
            await counter.save(store)
            await counter.save(store)
        assert (await Refusals.load(stores[0])).as_dict() == {"malformed": 2}
        counters[0].count("malformed")
        with monkeypatch.context() as patched:

            async def fail(function: Any, **_: Any) -> None:
                raise Refused(Reason.STORE_UNAVAILABLE, "away")

            patched.setattr(stores[0], "write", fail)
            with pytest.raises(Refused):
                await counters[0].save(stores[0])
        await counters[0].save(stores[0])
        assert (await Refusals.load(stores[0])).as_dict() == {"malformed": 3}

    asyncio.run(course())
