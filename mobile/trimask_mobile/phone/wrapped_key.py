"""The device's key, kept encrypted under a key that never leaves the phone's key store.

`device.key.wrapped` takes the place of `device.key`. Whenever the power fails one of them is whole: the wrapped one is on
disk, and was opened once, before the plain one goes.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Protocol

from trimask_client import device_key
from trimask_client.disk import FileDisk
from trimask_core.errors import ConfigError
from trimask_core.randomness import SEED_BYTES, RandomSource, SystemRandom

__all__ = ["KeyStoreError", "Wrapper", "wrapped_device_key"]

_PLAIN, _WRAPPED, _PASSING = "device.key", "device.key.wrapped", ".new"
_log = logging.getLogger("trimask.app")


class KeyStoreError(Exception):
    """The phone's key store did not do what it was asked. Says what kind of error it was, and nothing of a key."""


class Wrapper(Protocol):
    """Encrypts under a key that stays where it is. Both raise `KeyStoreError`."""

    def wrap(self, key: bytes) -> tuple[bytes, bytes]:
        """Initialisation vector and ciphertext."""
        ...

    def unwrap(self, iv: bytes, wrapped: bytes) -> bytes:
        """The key again, if it is what was wrapped."""
        ...


def wrapped_device_key(home: Path, wrapper: Wrapper, source: RandomSource | None = None) -> bytes:
    """The device's key; made and wrapped if there is none, and wrapped if there is a plain one of an older version.

    A phone whose key store fails before anything was wrapped keeps the plain file (mode 0600, in the app's own folder),
    as a computer does; a person is not kept from taking part by it.
    """
    disk = FileDisk(home)
    with disk.lock(_WRAPPED, wait=True):
        if (home / _WRAPPED).exists():
            key = _open(home / _WRAPPED, wrapper)
            disk.remove(_PLAIN)  # left if the power failed while it was being wrapped
            return key
        old = device_key(home / _PLAIN) if (home / _PLAIN).exists() else None
        key = old or (source or SystemRandom()).seed()
        try:
            iv, wrapped = _wrap(key, wrapper)
        except KeyStoreError as error:
            _log.warning("the phone's key store cannot be used (%s); the key stays in a file", error)
            return old or device_key(home / _PLAIN, source)
        disk.write(_WRAPPED + _PASSING, json.dumps({"iv": iv.hex(), "wrapped": wrapped.hex()}).encode())
        disk.rename(_WRAPPED + _PASSING, _WRAPPED)
        disk.sync("")
        disk.remove(_PLAIN)
        disk.sync("")
    return key


def _wrap(key: bytes, wrapper: Wrapper) -> tuple[bytes, bytes]:
    """Wrapped, and opened once: a key store that does not give a key back must not get the only copy."""
    iv, wrapped = wrapper.wrap(key)
    if wrapper.unwrap(iv, wrapped) != key:
        raise KeyStoreError("it gave another key back")
    return iv, wrapped


def _open(path: Path, wrapper: Wrapper) -> bytes:
    try:
        record = json.loads(path.read_text(encoding="ascii"))
        key = wrapper.unwrap(bytes.fromhex(record["iv"]), bytes.fromhex(record["wrapped"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not this app's, or damaged") from error
    except KeyStoreError as error:
        raise ConfigError(
            f"this phone's key store does not open what the app keeps ({error}); what is kept here cannot be read any more. "
            "Delete the app's data in the system's settings to begin anew; a saved receipt can be opened then"
        ) from error
    if len(key) != SEED_BYTES:
        raise ConfigError(f"{path} is not this app's, or damaged")
    return key
