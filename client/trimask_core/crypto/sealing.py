"""HPKE (RFC 9180): a component sealed to one right provider, for one study and one submission.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode: all of it is in every browser. The study id, the
provider's number and the submission id are HPKE's `info`, so a sealed component opens nowhere else. A sealed message is
the encapsulated key followed by the ciphertext. What a right provider must find when it opens its part has one form,
whatever the suite.

Where `cryptography` has no HPKE of its own (Android's packages are older), the same is done from its primitives: KEM
0x0020, KDF 0x0001, AEAD 0x0001, one message a key (sequence number 0, so the nonce is the base nonce). Checked on Appendix
A.1.1 and, both ways, against the native implementation.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import RandomSource, SystemRandom

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite


_KEM = b"KEM\x00\x20"
_SUITE = b"HPKE\x00\x20\x00\x01\x00\x01"
_KEY_BYTES, _NONCE_BYTES, _SECRET_BYTES, _ENC_BYTES = 16, 12, 32, 32


def _extract(salt: bytes, suite: bytes, label: bytes, keying: bytes) -> bytes:
    """LabeledExtract, section 4. An empty salt is HMAC's empty key, which is a block of zeros."""
    return hmac.digest(salt, b"HPKE-v1" + suite + label + keying, hashlib.sha256)


def _expand(key: bytes, suite: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """LabeledExpand, section 4; one block of SHA-256 is all that is ever asked for."""
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(key, labelled + b"\x01", hashlib.sha256)[:length]


def shared_secret(private: X25519PrivateKey, peer: bytes, enc: bytes, recipient: bytes) -> bytes:
    """Encap and Decap of section 4.1 after the key agreement: ExtractAndExpand over enc and the recipient's key.

    The agreement raises `ValueError` for a peer of low order, whose secret would be zero.
    """
    agreed = private.exchange(X25519PublicKey.from_public_bytes(peer))
    extracted = _extract(b"", _KEM, b"eae_prk", agreed)
    return _expand(extracted, _KEM, b"shared_secret", enc + recipient, _SECRET_BYTES)


def key_schedule(shared: bytes, info: bytes) -> tuple[bytes, bytes]:
    """The AEAD key and base nonce of section 5.1 in base mode: no pre-shared key, no sender's key."""
    context = b"\x00" + _extract(b"", _SUITE, b"psk_id_hash", b"") + _extract(b"", _SUITE, b"info_hash", info)
    secret = _extract(shared, _SUITE, b"secret", b"")
    return (
        _expand(secret, _SUITE, b"key", context, _KEY_BYTES),
        _expand(secret, _SUITE, b"base_nonce", context, _NONCE_BYTES),
    )


def hpke_seal(
    public: bytes, plaintext: bytes, info: bytes, aad: bytes = b"", ephemeral: X25519PrivateKey | None = None
) -> bytes:
    """SealBase. `ephemeral` is for test vectors: a key used twice shows that two plaintexts are alike."""
    ephemeral = ephemeral or X25519PrivateKey.generate()
    enc = ephemeral.public_key().public_bytes_raw()
    key, nonce = key_schedule(shared_secret(ephemeral, public, enc, public), info)
    return enc + AESGCM(key).encrypt(nonce, plaintext, aad)


def hpke_open(private: X25519PrivateKey, sealed: bytes, info: bytes, aad: bytes = b"") -> bytes:
    """OpenBase; `InvalidTag` if it was altered or sealed for something else."""
    enc, ciphertext = sealed[:_ENC_BYTES], sealed[_ENC_BYTES:]
    if len(ciphertext) < 16:
        raise InvalidTag
    recipient = private.public_key().public_bytes_raw()
    key, nonce = key_schedule(shared_secret(private, enc, enc, recipient), info)
    return AESGCM(key).decrypt(nonce, ciphertext, aad)


SEAL_OVERHEAD_BYTES = 32 + 16  # the encapsulated key and the tag


def _native_suite() -> Suite | None:
    try:
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    except ImportError:
        return None
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


_LIBRARY = _native_suite()


def component_info(binding: bytes, provider: int, submission_id: bytes) -> bytes:
    """What a sealed component is bound to; `binding` is the study's (`Study.binding`)."""
    return b"trimask/v1/component\0" + binding + provider.to_bytes(2, "big") + submission_id


def sealing_key_id(public: bytes) -> bytes:
    """The short name of a sealing key."""
    return hashlib.sha256(public).digest()[:8]


def sealing_key_message(public: bytes, activate_ms: int, expire_ms: int) -> bytes:
    """What a right provider signs (context "sealing-key") when it publishes a key; `expire_ms` is 0 while no end is set."""
    return public + activate_ms.to_bytes(8, "big") + expire_ms.to_bytes(8, "big")


def seal(public: bytes, plaintext: bytes, info: bytes) -> bytes:
    """`plaintext` for the holder of the private half of `public` alone."""
    try:
        if _LIBRARY is None:
            return hpke_seal(public, plaintext, info)
        return _LIBRARY.encrypt(plaintext, X25519PublicKey.from_public_bytes(public), info)
    except ValueError:
        raise VerificationError("a sealing key is not a usable X25519 public key") from None


class SealingKey:
    """A private X25519 key that opens what was sealed to it."""

    __slots__ = ("_key", "public")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ParameterError("sealing key", "32 bytes")
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, source: RandomSource | None = None) -> SealingKey:
        """A fresh key."""
        return cls((source or SystemRandom()).seed())

    def __repr__(self) -> str:
        return f"SealingKey(public={self.public.hex()})"

    def secret_bytes(self) -> bytes:
        """The private half, for the key file and nothing else."""
        return self._key.private_bytes_raw()

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """The plaintext, or `VerificationError` if it was altered or sealed for something else."""
        try:
            if _LIBRARY is None:
                return hpke_open(self._key, sealed, info)
            return _LIBRARY.decrypt(sealed, self._key, info)
        except (InvalidTag, ValueError):
            raise VerificationError(
                "a sealed component does not open: it was altered, or sealed to another key, study or submission"
            ) from None

    def agree(self, peer_public: bytes) -> bytes:
        """The X25519 secret shared with the holder of `peer_public`'s private half."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(peer_public))
        except ValueError:
            raise VerificationError("a key agreement share is not a usable X25519 public key") from None


SEED, VECTOR = b"\x01", b"\x02"
"""The first byte of a payload: a 32-byte seed follows, or values of 8 bytes each."""


@dataclass(frozen=True)
class PayloadForm:
    """For which right provider a payload is, of how many, and how many values a whole share has, in which suite.

    `more` bytes follow the share; a share sent whole is no longer than `longest`, as a vector.
    """

    suite: str
    provider: int
    providers: int
    values: int
    more: int = 0
    longest: float = math.inf
