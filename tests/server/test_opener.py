"""Components opened in a process beside the node, and what happens when that process dies."""

from __future__ import annotations

import asyncio
import hashlib
import math
import multiprocessing.util
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from trimask_core.basics.errors import VerificationError
from trimask_core.crypto.identity import SigningKey
from trimask_core.crypto.sealing import PayloadForm, SealingKey, component_info, seal
from trimask_core.submit.receipt import receipt_message
from trimask_server.right import sealing_keys as opening
from trimask_server.right.sealing_keys import Opened, Opener, OpeningKeys, Parcel, open_parcel

STUDY, COLUMNS, MANY = bytes([5]) * 32, 12, 100
OLD, NEW, IDENTITY = SealingKey(bytes([1]) * 32), SealingKey(bytes([2]) * 32), SigningKey(bytes([3]) * 32)
KEYS = OpeningKeys(IDENTITY, (NEW, OLD))
VECTOR = b"\x02" + bytes(8 * COLUMNS)


def parcel(number: int, plain: bytes = VECTOR, key: SealingKey = NEW) -> Parcel:
    submission_id = number.to_bytes(16, "big")
    sealed = seal(key.public, plain, component_info(STUDY, 3, submission_id))
    return Parcel(STUDY, STUDY, submission_id, PayloadForm("rows", 3, 3, COLUMNS), 1_000 + number, sealed)


def run_opener(parcels: list[Parcel], between: str = "") -> list[Opened | BaseException]:
    """What an opener makes of parcels that come all at once, a second time after `between` befell its helper."""

    async def work() -> list[Opened | BaseException]:
        opener = Opener(KEYS)
        opener.start()
        opener._load_until = math.inf
        try:
            await asyncio.gather(*(opener.open(item) for item in parcels), return_exceptions=True)
            helper = opener._helper
            assert helper is not None, "many at once go to the helper"
            if between == "kill":
                os.kill(*helper._processes, signal.SIGKILL)
            elif between == "other keys":
                await opener.use(OpeningKeys(IDENTITY, (OLD,)))
            return await asyncio.gather(*(opener.open(item) for item in parcels), return_exceptions=True)
        finally:
            await opener.stop()

    return asyncio.run(work())


@pytest.mark.parametrize("between", ["", "kill"])
def test_the_helper_answers_as_the_node_itself_would(between: str) -> None:
    parcels = [parcel(number, key=OLD if number % 3 == 0 else NEW) for number in range(MANY)]
    answers = run_opener(parcels, between)
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
    first, second, third = run_opener([altered, good, short])
    assert isinstance(first, VerificationError)
    assert "does not open" in str(first)
    assert second == open_parcel(KEYS, good)
    assert isinstance(third, VerificationError)
    assert "vector of 12 values" in str(third)


def test_new_keys_are_used_from_the_next_batch_on() -> None:
    to_new, to_old = parcel(1), parcel(2, key=OLD)
    first, second = run_opener([to_new, to_old], "other keys")
    assert isinstance(first, VerificationError)
    assert second == open_parcel(KEYS, to_old)


def test_keys_that_change_while_the_helper_starts_are_the_ones_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[OpeningKeys] = []
    start = opening._start_helper

    def noted(keys: OpeningKeys) -> ProcessPoolExecutor:
        started.append(keys)
        return start(keys)

    async def work() -> list[Opened | BaseException]:
        opener = Opener(OpeningKeys(IDENTITY, (OLD,)))
        opener.start()
        opener._load_until = math.inf
        try:
            opening = asyncio.gather(*(opener.open(item) for item in parcels), return_exceptions=True)
            while not started:  # noqa: ASYNC110 - a turn of the loop is what it takes
                await asyncio.sleep(0)
            await opener.use(KEYS)
            return [*await opening, *await asyncio.gather(*(opener.open(item) for item in parcels))]
        finally:
            await opener.stop()

    parcels = [parcel(number) for number in range(8)]
    monkeypatch.setattr(opening, "_start_helper", noted)
    assert asyncio.run(work()) == 2 * [open_parcel(KEYS, item) for item in parcels]
    assert [len(keys.sealing) for keys in started] == [1, 2]


def test_where_no_process_can_be_started_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    async def work() -> list[Opened]:
        opener = Opener(KEYS)
        opener.start()
        opener._load_until = math.inf
        try:
            return await asyncio.gather(*(opener.open(item) for item in parcels))
        finally:
            await opener.stop()

    parcels = [parcel(number) for number in range(MANY)]
    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", none_left)
    assert asyncio.run(work()) == [open_parcel(KEYS, item) for item in parcels]


def test_a_lone_submission_needs_no_helper() -> None:
    async def work() -> bool:
        opener = Opener(KEYS)
        opener.start()
        await opener.open(parcel(1))
        alone = opener._helper is None
        await opener.stop()
        return alone

    assert asyncio.run(work())


def test_a_rush_goes_to_the_helper_and_a_trickle_does_not() -> None:
    opener = Opener.__new__(Opener)
    opener._window_end = opener._in_window = opener._load_until = 0
    rush = [opener._under_load(10 + number / 1000) for number in range(250)]
    assert not any(rush[:20])  # so many may be alone
    assert all(rush[20:])
    bursts = [
        opener._under_load(10.25 + second + number / 1000) for second in range(3) for number in range(30)
    ]
    assert all(bursts)  # a pause between two of them does not end it
    trickle = [opener._under_load(20 + number / 50) for number in range(100)]
    assert not any(trickle)


NODE = """
import asyncio, math, os, sys
from tests.server.test_opener import KEYS, parcel
from trimask_server.right.sealing_keys import Opener

async def work():
    opener = Opener(KEYS)
    opener.start()
    opener._load_until = math.inf
    await opener.open(parcel(1))
    (helper,) = opener._helper._processes
    print(helper, flush=True)
    await asyncio.Event().wait()

asyncio.run(work())
"""


def test_the_helper_ends_with_its_node_and_shows_no_key() -> None:
    """The node is killed, and cannot end it; the helper holds a pipe of ours, which closes with its last process."""
    node = subprocess.Popen(
        [sys.executable, "-c", NODE], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert node.stdout is not None
    helper = Path("/proc") / node.stdout.readline().decode().strip()
    for shown in ("cmdline", "environ"):
        text = (helper / shown).read_bytes()
        assert not any(
            secret in text or secret.hex().encode() in text for secret in (bytes([1]) * 32, bytes([3]) * 32)
        )
    node.kill()
    node.wait()
    assert node.stdout.read() == b""  # at its end once nobody can write any more
    node.stdout.close()


def test_no_key_is_shown() -> None:
    assert (bytes([3]) * 32).hex() not in repr(KEYS)
    assert VECTOR.hex() not in repr(parcel(1))
