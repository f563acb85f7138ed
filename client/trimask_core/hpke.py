"""HPKE in base mode from X25519, HKDF-SHA256 and AES-128-GCM, for a `cryptography` without its own.

RFC 9180 with KEM 0x0020, KDF 0x0001, AEAD 0x0001, one message a key (sequence number 0, so the nonce is the base
nonce). A sealed message is the encapsulated key followed by the ciphertext, as in the library's one-shot interface.
Checked on Appendix A.1.1 and, both ways, against the native implementation.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["hpke_open", "hpke_seal", "key_schedule", "shared_secret"]

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
