"""Android's key store: an AES-256 key that is made in the phone's secure hardware where it has some, and never leaves it.

The device's key is kept encrypted under it: `device.key.wrapped` takes the place of `device.key`. Whenever the power
fails one of them is whole: the wrapped one is on disk, and was opened once, before the plain one goes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from trimask_client import device_key
from trimask_client.records import FileDisk
from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SEED_BYTES, RandomSource, SystemRandom

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


_STORE, _ALIAS = "AndroidKeyStore", "trimask-device"
_ENCRYPT, _DECRYPT = 1, 2  # KeyProperties.PURPOSE_*, and Cipher.*_MODE
_TAG_BITS = 128
T = TypeVar("T")


class AndroidKeyStore:
    """AES-GCM under the key `trimask-device`. It asks for no fingerprint: what waits is sent while the phone is locked."""

    def wrap(self, key: bytes) -> tuple[bytes, bytes]:
        """See `Wrapper`. The system draws the initialisation vector."""

        def work(jnius: Any) -> tuple[bytes, bytes]:
            cipher = _cipher(jnius)
            cipher.init(_ENCRYPT, self._key(jnius, make=True))
            wrapped = _bytes(cipher.doFinal(key))
            return _bytes(cipher.getIV()), wrapped

        return _java(work)

    def unwrap(self, iv: bytes, wrapped: bytes) -> bytes:
        """See `Wrapper`."""

        def work(jnius: Any) -> bytes:
            cipher = _cipher(jnius)
            spec = jnius.autoclass("javax.crypto.spec.GCMParameterSpec")(_TAG_BITS, iv)
            cipher.init(_DECRYPT, self._key(jnius, make=False), spec)
            return _bytes(cipher.doFinal(wrapped))

        return _java(work)

    def _key(self, jnius: Any, *, make: bool) -> Any:
        store = jnius.autoclass("java.security.KeyStore").getInstance(_STORE)
        store.load(None)
        if not store.containsAlias(_ALIAS):
            if not make:
                raise KeyStoreError("its key is gone")
            _generate(jnius)
        # By this name: from a SecretKey pyjnius takes Cipher.init(int, Certificate).
        return jnius.cast("java.security.Key", store.getKey(_ALIAS, None))


def _generate(jnius: Any) -> None:
    builder = jnius.autoclass("android.security.keystore.KeyGenParameterSpec$Builder")(
        _ALIAS, _ENCRYPT | _DECRYPT
    )
    builder.setBlockModes("GCM")
    builder.setEncryptionPaddings("NoPadding")
    builder.setKeySize(256)
    generator = jnius.autoclass("javax.crypto.KeyGenerator").getInstance("AES", _STORE)
    generator.init(builder.build())
    generator.generateKey()


def _cipher(jnius: Any) -> Any:
    return jnius.autoclass("javax.crypto.Cipher").getInstance("AES/GCM/NoPadding")


def _bytes(found: Any) -> bytes:
    """Java's bytes have a sign; pyjnius hands them over as such, in a list or an array."""
    return bytes(value & 0xFF for value in found)


def _java(work: Callable[[Any], T]) -> T:
    import jnius

    try:
        return work(jnius)
    except jnius.JavaException as error:
        # The class of the error alone: its words are the system's, and go to no log of ours.
        raise KeyStoreError(str(getattr(error, "classname", None) or type(error).__name__)) from None
