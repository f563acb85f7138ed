"""Sealing: RFC 9180 by hand opens it; nothing else does."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.sealing import SEAL_OVERHEAD_BYTES, SealingKey, component_info, seal

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "core-sealing.json").read_text())
STUDY, SUBMISSION = bytes(range(32)), bytes(range(16))


def _extract(salt: bytes, label: bytes, ikm: bytes, suite: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + ikm, hashlib.sha256)


def _expand(prk: bytes, label: bytes, info: bytes, length: int, suite: bytes) -> bytes:
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(prk, labelled + b"\x01", hashlib.sha256)[:length]


def rfc9180_open(secret: bytes, sealed: bytes, info: bytes) -> bytes:
    """DHKEM(X25519, HKDF-SHA256) = 0x0020, HKDF-SHA256 = 0x0001, AES-128-GCM = 0x0001, mode 0, no aad."""
    key = X25519PrivateKey.from_private_bytes(secret)
    enc, ciphertext = sealed[:32], sealed[32:]
    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x01"
    dh = key.exchange(X25519PublicKey.from_public_bytes(enc))
    context = enc + key.public_key().public_bytes_raw()
    shared = _expand(_extract(b"", b"eae_prk", dh, kem), b"shared_secret", context, 32, kem)
    schedule = b"\x00" + _extract(b"", b"psk_id_hash", b"", suite) + _extract(b"", b"info_hash", info, suite)
    prk = _extract(shared, b"secret", b"", suite)
    aead_key, nonce = (
        _expand(prk, name, schedule, size, suite) for name, size in ((b"key", 16), (b"base_nonce", 12))
    )
    return AESGCM(aead_key).decrypt(nonce, ciphertext, None)


@pytest.fixture(scope="module")
def key() -> SealingKey:
    return SealingKey.generate(DeterministicRandom("sealing"))


def test_round_trip_and_size(key: SealingKey) -> None:
    info = component_info(STUDY, 1, SUBMISSION)
    for plaintext in (b"", b"x", bytes(33), bytes(10_000)):
        sealed = seal(key.public, plaintext, info)
        assert len(sealed) == len(plaintext) + SEAL_OVERHEAD_BYTES["classical"]
        assert key.open(sealed, info) == plaintext
    assert seal(key.public, b"x", info) != seal(key.public, b"x", info)


def test_it_is_rfc_9180(key: SealingKey) -> None:
    info = component_info(STUDY, 2, SUBMISSION)
    sealed = seal(key.public, b"a component", info)
    assert rfc9180_open(key.secret_bytes(), sealed, info) == b"a component"


def test_known_answer() -> None:
    secret, sealed, info = (bytes.fromhex(VECTOR[name]) for name in ("secret", "sealed", "info"))
    assert SealingKey(secret).open(sealed, info) == VECTOR["plaintext"].encode()
    assert rfc9180_open(secret, sealed, info) == VECTOR["plaintext"].encode()


def test_another_key_study_provider_or_submission_does_not_open(key: SealingKey) -> None:
    sealed = seal(key.public, b"plaintext", component_info(STUDY, 1, SUBMISSION))
    other = SealingKey.generate(DeterministicRandom("other"))
    with pytest.raises(VerificationError, match="does not open"):
        other.open(sealed, component_info(STUDY, 1, SUBMISSION))
    for info in (
        component_info(bytes(32), 1, SUBMISSION),
        component_info(STUDY, 2, SUBMISSION),
        component_info(STUDY, 1, bytes(16)),
        b"",
    ):
        with pytest.raises(VerificationError, match="does not open") as caught:
            key.open(sealed, info)
        assert "plaintext" not in str(caught.value)


def test_tampering_anywhere_is_noticed(key: SealingKey) -> None:
    info = component_info(STUDY, 1, SUBMISSION)
    sealed = seal(key.public, b"0123456789", info)
    for position in range(len(sealed)):
        altered = bytearray(sealed)
        altered[position] ^= 0x40
        with pytest.raises(VerificationError):
            key.open(bytes(altered), info)
    for cut in (0, 1, 31, 32, 47, len(sealed) - 1):
        with pytest.raises(VerificationError):
            key.open(sealed[:cut], info)
    with pytest.raises(VerificationError):
        key.open(sealed + b"\0", info)


def test_agreement_is_symmetric_and_refuses_low_order_shares(key: SealingKey) -> None:
    other = SealingKey.generate(DeterministicRandom("agree"))
    assert key.agree(other.public) == other.agree(key.public)
    for bad in (bytes(32), b"\x01" + bytes(31), b"short"):
        with pytest.raises(VerificationError, match="X25519"):
            key.agree(bad)


def test_sealing_to_an_unusable_key_raises() -> None:
    for bad in (b"short", bytes(32)):
        with pytest.raises(VerificationError, match="sealing key"):
            seal(bad, b"plaintext", b"")


def test_keys_have_32_bytes() -> None:
    for secret in (b"", bytes(31), bytes(33)):
        with pytest.raises(ParameterError, match="32 bytes"):
            SealingKey(secret)
    assert SealingKey(bytes(range(32))).secret_bytes() == bytes(range(32))
