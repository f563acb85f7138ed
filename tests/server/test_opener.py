"""Components opened, and their receipts signed: one, or many that came together."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import cast

import pytest

from trimask_core.basics.errors import VerificationError
from trimask_core.crypto.keys import PayloadForm, SealingKey, SigningKey, component_info, seal
from trimask_core.submit.submission import receipt_message
from trimask_server.right import sealing_keys
from trimask_server.right.sealing_keys import JustOpened, Opened, OpeningKeys, Parcel, open_all, open_parcel

STUDY, COLUMNS, MANY = bytes([5]) * 32, 12, 100
OLD, NEW, IDENTITY = SealingKey(bytes([1]) * 32), SealingKey(bytes([2]) * 32), SigningKey(bytes([3]) * 32)
KEYS = OpeningKeys(IDENTITY, (NEW, OLD))
VECTOR = b"\x02" + bytes(8 * COLUMNS)


def parcel(number: int, plain: bytes = VECTOR, key: SealingKey = NEW) -> Parcel:
    submission_id = number.to_bytes(16, "big")
    sealed = seal(key.public, plain, component_info(STUDY, 3, submission_id))
    return Parcel(STUDY, STUDY, submission_id, PayloadForm("rows", 3, 3, COLUMNS), 1_000 + number, sealed)


def run_open_all(parcels: list[Parcel], keys: OpeningKeys = KEYS) -> list[Opened | str]:
    return asyncio.run(open_all(keys, parcels))


def test_many_are_opened_as_each_would_be() -> None:
    parcels = [parcel(number, key=OLD if number % 3 == 0 else NEW) for number in range(MANY)]
    answers = run_open_all(parcels)
    assert answers == [open_parcel(KEYS, item) for item in parcels]
    for item, answer in zip(parcels, answers, strict=True):
        assert isinstance(answer, Opened)
        assert answer.digest == hashlib.sha256(item.sealed).digest()
        message = receipt_message(STUDY, item.submission_id, item.sealed, item.receive_time_ms)
        assert answer.signature == IDENTITY.sign("receipt", message)


def test_each_is_refused_for_itself() -> None:
    good, short = parcel(1), parcel(2, VECTOR[:-8])
    altered = Parcel(
        STUDY, STUDY, good.submission_id, good.form, 7, good.sealed[:-1] + bytes([good.sealed[-1] ^ 1])
    )
    first, second, third = run_open_all([altered, good, short])
    assert isinstance(first, str)
    assert "does not open" in first
    assert second == open_parcel(KEYS, good)
    assert isinstance(third, str)
    assert "vector of 12 values" in third
    with pytest.raises(VerificationError, match="does not open"):
        open_parcel(KEYS, altered)


def test_only_the_keys_that_are_given_open() -> None:
    to_new, to_old = parcel(1), parcel(2, key=OLD)
    first, second = run_open_all([to_new, to_old], OpeningKeys(IDENTITY, (OLD,)))
    assert isinstance(first, str)
    assert second == open_parcel(KEYS, to_old)


def test_others_have_their_turn_while_many_are_opened() -> None:
    """The event loop is never held for more than a few of them, whoever sends how many."""
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    async def work() -> None:
        task = asyncio.create_task(other())
        await open_all(KEYS, [parcel(number) for number in range(64)])
        task.cancel()

    asyncio.run(work())
    assert len(turns) >= 8


def test_no_key_is_shown() -> None:
    assert (bytes([3]) * 32).hex() not in repr(KEYS)
    assert VECTOR.hex() not in repr(parcel(1))


def test_what_was_opened_is_handed_over_once_and_only_for_the_same_bytes() -> None:
    async def course() -> None:
        kept = JustOpened()
        sealed, other = (hashlib.sha256(word).digest() for word in (b"sealed", b"other bytes"))
        for info in (b"1", b"2", b"3"):
            kept.keep(info, sealed, b"plain")
        assert kept.take(b"1", sealed) == b"plain"
        assert kept.take(b"1", sealed) is None
        assert kept.take(b"2", other) is None
        assert kept.take(b"2", sealed) is None
        kept.forget(b"3")  # its person withdrew
        assert kept.take(b"3", sealed) is None
        assert (kept._kept, kept._bytes) == ({}, 0)
        assert kept._timer is not None
        kept._timer.cancel()

    asyncio.run(course())


@dataclass
class _At:
    """A loop at which it is so late."""

    now: float
    timers: list[float] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, *_: object) -> None:
        self.timers.append(when)


def test_what_was_opened_is_kept_for_so_many_bytes_and_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    async def course() -> None:
        kept = JustOpened()
        monkeypatch.setattr(sealing_keys, "_KEPT_BYTES", 10)
        for info in (b"1", b"2", b"3"):
            kept.keep(info, hashlib.sha256(b"sealed").digest(), b"plain")
        assert list(kept._kept) == [b"2", b"3"]
        kept._timer = kept._timer and kept._timer.cancel()
        # At the very instant when one is due, that one goes, and the timer is set for the next, later.
        loop = _At(kept._first_due())
        kept._sweep(cast("asyncio.AbstractEventLoop", loop))
        assert list(kept._kept) == [b"3"]
        assert loop.timers == [kept._first_due()]
        assert loop.timers[0] > loop.now
        loop.now = kept._first_due()
        kept._sweep(cast("asyncio.AbstractEventLoop", loop))
        assert (kept._kept, kept._bytes, kept._timer) == ({}, 0, None)

    asyncio.run(course())
