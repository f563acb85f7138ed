"""Android's key store: an AES-256 key that is made in the phone's secure hardware where it has some, and never leaves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from trimask_mobile.phone.wrapped_key import KeyStoreError

__all__ = ["AndroidKeyStore"]

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
