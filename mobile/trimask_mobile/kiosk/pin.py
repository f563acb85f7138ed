"""The interviewer's PIN: what it opens, and how slowly it can be guessed.

The PIN is kept nowhere, nor is a hash of it. Stretched by scrypt (RFC 7914) with a salt it is the key of one record, the
invitations not used yet; the PIN is right if that record opens. So whoever has the device without the PIN has no invitation
to use, unless they guess it: on this device against waits that grow and outlast a restart, and with the device's files in a
laboratory against scrypt alone, which six digits do not survive for long. The PIN keeps respondents out, not laboratories.

Waits are counted by the time since the device was started, sleep included, which nobody can set; the clock that people see
has no part in them. After a restart of the device its whole new run counts, and the time it was off does not: a wait may be
longer than it says, never shorter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from trimask_client.records import Vault
from trimask_core.basics.errors import TrimaskError, VerificationError
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_core.crypto.records import STRETCH_COST, RecordCipher, stretch

PIN_DIGITS = (6, 12)
FREE_TRIES = 3
LONGEST_MS = 3_600_000
_FIRST_MS = 30_000
_KIND, _LIST, _TRIES = "interviewer", "00", "01"
_NAME = "invitations"


class WrongPin(TrimaskError):
    """Not the PIN, or not yet: `wait_ms` until it may be tried again."""

    def __init__(self, wait_ms: int, *, tried: bool) -> None:
        super().__init__("the PIN is wrong" if tried else "the PIN cannot be tried yet")
        self.wait_ms, self.tried = wait_ms, tried


def pin_problem(pin: str) -> str:
    """What is wrong with a new PIN, as the end of a text's key; empty if nothing is."""
    if not pin.isascii() or not pin.isdigit() or not PIN_DIGITS[0] <= len(pin) <= PIN_DIGITS[1]:
        return "digits"
    steps = {(int(after) - int(before)) % 10 for before, after in pairwise(pin)}
    return "simple" if steps <= {0} or steps <= {1} or steps <= {9} else ""


def wait_after(failures: int) -> int:
    """How long nothing is tried after so many wrong ones in a row, in milliseconds: 30 s after the third, then doubled."""
    if failures < FREE_TRIES:
        return 0
    return min(LONGEST_MS, _FIRST_MS << min(failures - FREE_TRIES, 16))


class HasVault(Protocol):
    """The device; its vault is another once everything on it was removed."""

    vault: Vault


def since_boot() -> float:
    """Seconds since the device was started. Where the system does not count its sleep, waits are the longer for it."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux, so Android
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


@dataclass
class Unlocked:
    """What the PIN has opened: the invitations not used yet, and the key to keep them under while it is open."""

    invitations: list[str] = field(default_factory=list, repr=False)
    key: bytes = field(default=b"", repr=False)


class PinLock:
    """The record the PIN opens, and the count of wrong ones, in the device's vault."""

    def __init__(
        self,
        device: HasVault,
        *,
        source: RandomSource | None = None,
        cost: tuple[int, int, int] = STRETCH_COST,
        running: Callable[[], float] = since_boot,
    ) -> None:
        self._device, self._source, self._cost = device, source or SystemRandom(), cost
        self._running = running

    @property
    def _vault(self) -> Vault:
        return self._device.vault

    @property
    def is_set(self) -> bool:
        """Whether there is a PIN."""
        return _LIST in self._vault.names(_KIND)

    def set(self, pin: str, invitations: list[str]) -> Unlocked:
        """A new PIN, in the place of any other."""
        if pin_problem(pin):
            raise TrimaskError(
                f"a PIN has {PIN_DIGITS[0]} to {PIN_DIGITS[1]} digits that are no row of digits"
            )
        salt = self._source.read(16)
        made = Unlocked(list(invitations), stretch(pin, salt, self._cost))
        self._write(made, salt, self._cost)
        self._vault.delete(_KIND, _TRIES)
        return made

    def open(self, pin: str) -> Unlocked:
        """What the PIN opens; `WrongPin` with the wait until the next try. A try counts before it is made: who ends the
        program in the middle of one has made it."""
        left = self.wait_ms()
        if left:
            raise WrongPin(left, tried=False)
        failures = int((self._vault.get(_KIND, _TRIES) or {}).get("failures", 0)) + 1
        wait = wait_after(failures)
        self._count(failures, wait)
        try:
            record = self._vault.get(_KIND, _LIST) or {}
            key = stretch(pin, bytes.fromhex(record["salt"]), tuple(record["cost"]))
            text = RecordCipher(key, self._source).open(_NAME, bytes.fromhex(record["sealed"]))
        except (VerificationError, KeyError):
            self._count(failures, wait)  # from now on: stretching takes a while
            raise WrongPin(wait, tried=True) from None
        self._vault.delete(_KIND, _TRIES)
        return Unlocked(list(json.loads(text)), key)

    def keep(self, unlocked: Unlocked) -> None:
        """Write the list anew, under the key that opened it."""
        record = self._vault.get(_KIND, _LIST) or {}
        self._write(unlocked, bytes.fromhex(record["salt"]), tuple(record["cost"]))

    def remove(self) -> None:
        """No PIN, and no list."""
        for name in (_LIST, _TRIES):
            self._vault.delete(_KIND, name)

    def wait_ms(self) -> int:
        """How long until a PIN may be tried."""
        try:
            record = self._vault.get(_KIND, _TRIES) or {}
            failures, left, since = (
                int(record.get(name, 0)) for name in ("failures", "left_ms", "since_boot_ms")
            )
        except VerificationError:  # somebody has changed the count
            self._count(FREE_TRIES + 7, LONGEST_MS)
            return LONGEST_MS
        now = self._running_ms()
        if left and now < since:  # the device was started anew: it has run for so long at least
            left = max(0, left - now)
            self._count(failures, left)
            return left
        return max(0, left - (now - since))

    def _count(self, failures: int, left_ms: int) -> None:
        record = {"failures": failures, "left_ms": left_ms, "since_boot_ms": self._running_ms()}
        self._vault.put(_KIND, _TRIES, record)

    def _running_ms(self) -> int:
        return round(self._running() * 1000)

    def _write(self, unlocked: Unlocked, salt: bytes, cost: tuple[int, ...]) -> None:
        sealed = RecordCipher(unlocked.key, self._source).seal(
            _NAME, json.dumps(unlocked.invitations).encode()
        )
        self._vault.put(_KIND, _LIST, {"salt": salt.hex(), "cost": list(cost), "sealed": sealed.hex()})
