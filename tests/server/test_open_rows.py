"""Rows opened once for a check and for masking: what is kept of them, how much, and until when."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SEED
from trimask_core.rows.payloads import form_of
from trimask_server.suites.rows import attempt_shares
from trimask_server.suites.rows.attempt_shares import OpenRows

Make = Callable[..., Any]


class Lab:
    """R1 of a study, its store, and how many rows it has opened."""

    def __init__(self, study: Any, people: int) -> None:
        source = DeterministicRandom("open rows")
        self.study, self.opened = study, 0
        more = b"\1" * form_of(study, 1).more
        self.stored = {bytes([i]) * 16: SEED + source.seed() + more for i in range(people)}
        self.rows = OpenRows(self.node, self.store, self.ring)  # type: ignore[arg-type]

    @property
    def node(self) -> Any:
        async def run(function: Callable[..., Any], *arguments: Any) -> Any:
            return function(*arguments)

        return SimpleNamespace(role_in=lambda _: "R1", workers=SimpleNamespace(run=run))

    @property
    def store(self) -> Any:
        async def digests(study_id: bytes, ids: Sequence[bytes], check_id: bytes) -> dict[bytes, bytes]:
            return {name: hashlib.sha256(self.stored[name]).digest() for name in ids if name in self.stored}

        async def sealed(study_id: bytes, ids: Sequence[bytes], check_id: bytes) -> list[tuple[bytes, bytes]]:
            return [(name, self.stored[name]) for name in ids if name in self.stored]

        return SimpleNamespace(digests=digests, sealed=sealed)

    @property
    def ring(self) -> Any:
        def open_held(sealed: bytes, info: bytes, kind: str) -> bytes:
            self.opened += 1
            return sealed

        return SimpleNamespace(ring=SimpleNamespace(open_held=open_held))

    async def of(self) -> dict[bytes, Any]:
        return await self.rows.of(self.study, b"c" * 16, sorted(self.stored))


@pytest.fixture
def lab(make_study: Make) -> Lab:
    return Lab(make_study(block_rows=16).study, 6)


def test_a_row_is_opened_once_and_forgotten_when_it_is_masked(lab: Lab) -> None:
    async def run() -> None:
        first, again = await lab.of(), await lab.of()
        assert lab.opened == 6
        assert first.keys() == again.keys() == lab.stored.keys()
        taken = await lab.rows.take(lab.study, list(lab.stored.items()))
        assert lab.opened == 6
        for name, row in zip(lab.stored, taken, strict=True):
            assert np.array_equal(row.component, first[name].component)
        await lab.rows.take(lab.study, list(lab.stored.items()))
        assert lab.opened == 12  # a second attempt begins from what is stored

    asyncio.run(run())


def test_other_bytes_under_an_id_are_opened_anew_and_rows_that_are_gone_are_not_told(lab: Lab) -> None:
    async def run() -> None:
        names = sorted(lab.stored)
        before = await lab.of()
        lab.stored[names[0]] = lab.stored[names[1]]
        del lab.stored[names[2]]
        after = await lab.of()
        assert lab.opened == 7
        assert names[2] not in after
        assert np.array_equal(after[names[0]].component, before[names[1]].component)

    asyncio.run(run())


def test_no_more_is_kept_than_there_is_room_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_shares, "_KEPT_BYTES", 3 * 8 * lab.study.rows.columns)

    async def run() -> None:
        assert len(await lab.of()) == 6
        assert len(await lab.of()) == 6
        assert lab.opened == 9  # three of six were kept

    asyncio.run(run())


def test_what_was_not_masked_is_forgotten(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        due: list[Callable[[], object]] = []
        monkeypatch.setattr(loop, "call_later", lambda _, call: due.append(call))
        await lab.of()
        for call in due:
            call()
        await lab.of()
        assert lab.opened == 12

    asyncio.run(run())
