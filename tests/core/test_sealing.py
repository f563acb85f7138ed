"""Sealing: RFC 9180 by hand opens it; nothing else does."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import (
    SEAL_OVERHEAD_BYTES,
    SEALINGS,
    Pairing,
    Sealing,
    SealingKey,
    component_info,
    require_kind,
    seal,
)

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


@pytest.mark.parametrize("kind", SEALINGS)
def test_a_pair_has_one_secret_the_same_at_every_repeat(kind: Sealing) -> None:
    source = DeterministicRandom(f"pairs {kind}")
    sides = {role: Pairing(SealingKey.generate(source, kind), role, STUDY) for role in ("R1", "R2", "L2")}

    def secret(one: str, other: str) -> bytes:
        own, peer = sides[one], sides[other]
        return own.secret(other, peer.key.public, peer.share(one, own.key.public))

    found = {pair: secret(*pair) for pair in itertools.product(sides, repeat=2)}
    for one, other in found:
        assert found[one, other] == found[other, one] == secret(one, other)
    assert len(set(found.values())) == 6  # of three pairs, and of each with itself
    assert "R1" in repr(sides["R1"])
    assert sides["R1"].key.secret_bytes().hex() not in repr(sides["R1"])


def test_the_secret_of_a_pair_by_hand() -> None:
    """Halves by HKDF-SHA256 (RFC 5869) in two lines; what was sealed opens, from both sides, to the same secret."""
    pair, context = VECTOR["pair"], bytes.fromhex(VECTOR["pair"]["context"])
    keys = {role: SealingKey(bytes.fromhex(seed), "hybrid") for role, seed in pair["seeds"].items()}
    for own, other in (("R1", "R2"), ("R2", "R1")):
        label = b"trimask/v1/pair share\0" + context + f"{own}>{other}".encode()
        extracted = hmac.digest(bytes(32), keys[own].secret_bytes(), hashlib.sha256)
        assert (
            hmac.digest(extracted, label + b"\x01", hashlib.sha256).hex() == pair["halves"][f"{own}>{other}"]
        )
        share = bytes.fromhex(pair["sealed"][f"{other}>{own}"])
        side = Pairing(keys[own], own, context)
        assert side.secret(other, keys[other].public, share).hex() == pair["secret"]
    assert pair["secret"] == pair["halves"]["R1>R2"] + pair["halves"]["R2>R1"]


def test_a_share_is_for_one_pair_in_one_context_and_one_direction() -> None:
    source = DeterministicRandom("shares")
    one, two, three = (
        Pairing(SealingKey.generate(source, "hybrid"), role, STUDY) for role in ("R1", "R2", "R3")
    )
    public = two.key.public
    share = one.share("R2", public)
    assert len(share) == 32 + SEAL_OVERHEAD_BYTES["hybrid"]
    assert len(two.secret("R1", one.key.public, share)) == 64
    for bad in (
        b"",
        share[:-1],
        share[:-1] + bytes([share[-1] ^ 1]),
        Pairing(one.key, "R1", b"another study").share("R2", public),
        one.share("R3", public),
        three.share("R2", public),
    ):
        with pytest.raises(VerificationError, match="does not open"):
            two.secret("R1", one.key.public, bad)


def test_nothing_is_sealed_to_a_key_of_another_kind() -> None:
    for kind, other in (SEALINGS, SEALINGS[::-1]):
        public = SealingKey.generate(DeterministicRandom("kinds"), kind).public
        require_kind(public, kind, "R2")
        with pytest.raises(VerificationError, match=f"the key of R2 is not {other}"):
            require_kind(public, other, "R2")


def test_sealing_to_an_unusable_key_raises() -> None:
    for bad in (b"short", bytes(32)):
        with pytest.raises(VerificationError, match="sealing key"):
            seal(bad, b"plaintext", b"")


def test_keys_have_32_bytes() -> None:
    for secret in (b"", bytes(31), bytes(33)):
        with pytest.raises(ParameterError, match="32 bytes"):
            SealingKey(secret)
    assert SealingKey(bytes(range(32))).secret_bytes() == bytes(range(32))
