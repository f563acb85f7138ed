"""Studies and refusal counts that several processes of one node share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.operations.refusal_counts import Refusals
from trimask_server.store.schema import PROVIDER
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
