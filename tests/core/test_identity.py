"""Signatures are bound to their purpose and fail loudly."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SigningKey, verify

# RFC 8032, section 7.1, TEST 1: the key pair.
RFC8032_SECRET = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
RFC8032_PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.generate(DeterministicRandom("identity"))


def test_the_public_half_is_ed25519s() -> None:
    assert SigningKey(bytes.fromhex(RFC8032_SECRET)).public.hex() == RFC8032_PUBLIC


def test_what_is_signed_is_the_prefixed_message(key: SigningKey) -> None:
    raw = Ed25519PrivateKey.from_private_bytes(key.secret_bytes())
    assert key.sign("receipt", b"message") == raw.sign(b"trimask/v1/receipt\0message")


def test_a_good_signature_verifies(key: SigningKey) -> None:
    verify(key.public, "receipt", b"message", key.sign("receipt", b"message"), "the receipt")


@pytest.mark.parametrize(
    ("context", "message"),
    [("manifest", b"message"), ("receipt", b"massage"), ("receip", b"t\0message"), ("receipt\0m", b"essage")],
)
def test_another_purpose_or_message_does_not_verify(key: SigningKey, context: str, message: bytes) -> None:
    with pytest.raises(VerificationError, match="the signature on the receipt does not verify"):
        verify(key.public, context, message, key.sign("receipt", b"message"), "the receipt")


def test_another_key_or_signature_does_not_verify(key: SigningKey) -> None:
    good = key.sign("receipt", b"message")
    other = SigningKey.generate(DeterministicRandom("other identity"))
    altered = bytes([good[0] ^ 1]) + good[1:]
    for public, signature in (
        (other.public, good),
        (key.public, altered),
        (key.public, b""),
        (key.public, good + b"\0"),
        (b"short", good),
        (bytes(32), bytes(64)),
    ):
        with pytest.raises(VerificationError):
            verify(public, "receipt", b"message", signature, "the receipt")


def test_keys_have_32_bytes() -> None:
    for secret in (b"", bytes(31), bytes(64)):
        with pytest.raises(ParameterError, match="32 bytes"):
            SigningKey(secret)
    assert SigningKey(bytes.fromhex(RFC8032_SECRET)).secret_bytes().hex() == RFC8032_SECRET
