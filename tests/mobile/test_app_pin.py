"""The interviewer's PIN: kept nowhere, slow to guess, and the only thing that opens the list of invitations."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from trimask_client.disk import FileDisk
from trimask_client.record_store import Vault
from trimask_core.clock import ManualClock
from trimask_core.errors import TrimaskError
from trimask_core.randomness import SystemRandom
from trimask_mobile.model.pin import LONGEST_MS, PinLock, WrongPin, pin_problem, wait_after

PIN = "271828"
CHEAP = (4, 8, 1)


class Place:
    """A device's vault and clock; `start` is the app starting again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.passed = folder, ManualClock(1_800_000_000_000), 0.0
        self.vault = Vault(FileDisk(folder), bytes(32), SystemRandom())

    def start(self) -> PinLock:
        return PinLock(self, cost=CHEAP, monotonic=lambda: self.passed)

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.passed += seconds


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "vault")


def wrong(lock: PinLock, pin: str = "999111") -> WrongPin:
    with pytest.raises(WrongPin) as caught:
        lock.open(pin)
    return caught.value


def test_it_opens_what_it_was_set_with_and_is_kept_nowhere(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lock = place.start()
    assert not lock.is_set
    made = lock.set(PIN, ["trimask://a.example:1/join/secret"])
    again = place.start()
    assert again.is_set
    found = again.open(PIN)
    assert found.invitations == ["trimask://a.example:1/join/secret"]
    found.invitations.append("two")
    again.keep(found)
    assert place.start().open(PIN).invitations[1:] == ["two"]
    kept = b"".join(path.read_bytes() for path in place.folder.rglob("*") if path.is_file())
    said = repr(made) + repr(found) + repr(lock) + caplog.text + str(wrong(lock))
    # Not even what the device's own key opens has the PIN or an invitation.
    record = place.vault.get("interviewer", "00") or {}
    for secret in (PIN, "secret"):
        assert secret.encode() not in kept
        assert secret not in said
        assert secret not in str(record)
        assert secret.encode().hex() not in str(record)
    assert made.key.hex() not in str(record)


def test_the_same_pin_has_another_key_elsewhere(place: Place, tmp_path: Path) -> None:
    assert place.start().set(PIN, []).key != Place(tmp_path / "other").start().set(PIN, []).key


def test_waits_grow_and_outlast_a_restart(place: Place) -> None:
    lock = place.start()
    lock.set(PIN, [])
    assert [wrong(lock).wait_ms for _ in range(3)] == [0, 0, 30_000]
    early = wrong(lock, PIN)  # even the right one
    assert (early.tried, early.wait_ms) == (False, 30_000)
    again = place.start()
    assert again.wait_ms() == 30_000
    place.wait(29)
    assert not wrong(again, PIN).tried
    place.wait(1)
    assert wrong(again).wait_ms == 60_000
    place.wait(60)
    assert place.start().open(PIN).invitations == []
    assert wrong(again).wait_ms == 0  # counted from the beginning


def test_a_try_counts_before_it_is_made(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ends the app in the middle of a try has made it."""
    place.start().set(PIN, [])

    def killed(*_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("trimask_mobile.model.pin.stretch", killed)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                place.start().open("111222")
    assert place.start().wait_ms() == 30_000


def test_neither_clock_alone_shortens_a_wait(place: Place) -> None:
    lock = place.start()
    lock.set(PIN, [])
    for _ in range(3):
        wrong(lock)
    place.clock.advance(3600)  # the device's clock was set on
    assert not wrong(lock, PIN).tried
    place.clock.advance(-4 * 3600)  # and back: the wait begins again, and ends
    assert 0 < lock.wait_ms() <= LONGEST_MS
    place.wait(60)
    assert lock.open(PIN).invitations == []


def test_waits_double_up_to_an_hour() -> None:
    waits = [wait_after(failures) for failures in range(200)]
    assert waits[:5] == [0, 0, 0, 30_000, 60_000]
    assert waits == sorted(waits)
    assert max(waits) == LONGEST_MS == 3_600_000


@pytest.mark.parametrize(
    ("pin", "problem"),
    [
        ("27182", "digits"), ("2718281828459", "digits"), ("27182x", "digits"), ("", "digits"), ("٢٧١٨٢٨", "digits"),
        ("000000", "simple"), ("123456", "simple"), ("987654", "simple"), ("890123", "simple"), (PIN, ""),
    ],
)  # fmt: skip
def test_what_a_pin_may_be(place: Place, pin: str, problem: str) -> None:
    assert pin_problem(pin) == problem
    if problem:
        with pytest.raises(TrimaskError):
            place.start().set(pin, [])
