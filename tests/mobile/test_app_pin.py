"""The interviewer's PIN: kept nowhere, slow to guess, and the only thing that opens the list of invitations."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from trimask_client.records import FileDisk, Vault
from trimask_core.basics.errors import TrimaskError
from trimask_core.basics.randomness import SystemRandom
from trimask_mobile.kiosk.pin import LONGEST_MS, PinLock, WrongPin, pin_problem, since_boot, wait_after

PIN = "271828"
CHEAP = (4, 8, 1)


class Place:
    """A device's vault, and how long it has been running; `start` is the app starting again, `reboot` the device."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.running = folder, 5000.0
        self.vault = Vault(FileDisk(folder), bytes(32), SystemRandom())

    def start(self) -> PinLock:
        return PinLock(self, cost=CHEAP, running=lambda: self.running)

    def wait(self, seconds: float) -> None:
        self.running += seconds

    def reboot(self) -> PinLock:
        self.running = 0.0
        return self.start()


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
        patch.setattr("trimask_mobile.kiosk.pin.stretch", killed)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                place.start().open("111222")
    assert place.start().wait_ms() == 30_000


def test_repro_a_clock_set_on_shortens_no_wait(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with the app started anew, which used to leave the clock alone to count by."""
    lock = place.start()
    lock.set(PIN, [])
    for _ in range(3):
        wrong(lock)
    monkeypatch.setattr("time.time_ns", lambda: 4_000_000_000_000_000_000)
    monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)
    assert place.start().wait_ms() == 30_000
    assert not wrong(place.start(), PIN).tried
    place.wait(30)
    assert place.start().open(PIN).invitations == []


def test_a_restart_of_the_device_shortens_no_wait(place: Place) -> None:
    """What it has run since counts; the time it was off does not."""
    lock = place.start()
    lock.set(PIN, [])
    for _ in range(4):
        wrong(lock)
        place.wait(lock.wait_ms() / 1000)
    assert wrong(lock).wait_ms == 120_000
    place.wait(20)
    assert place.reboot().wait_ms() == 120_000  # it does not know of the 20 seconds: nobody had asked
    place.wait(50)
    assert place.start().wait_ms() == 70_000
    assert place.reboot().wait_ms() == 70_000 + 50_000
    place.wait(10_000)  # longer than it had run when the wait began
    assert place.start().open(PIN).invitations == []


def test_the_device_counts_its_sleep() -> None:
    assert since_boot() >= time.monotonic() - 1
    assert since_boot() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)


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
