"""Hybrid sealing: published numbers, both ways with the native implementation, and nothing else opens it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey

from moments_cases import random_schema
from trimask_core.basics.errors import ConfigError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto import keys as sealing
from trimask_core.crypto import mlkem
from trimask_core.crypto.keys import (
    PUBLIC_KEY_BYTES,
    SEAL_OVERHEAD_BYTES,
    SEALINGS,
    SealingKey,
    hybrid_encapsulate,
    hybrid_seal,
    key_schedule,
    kind_of,
    seal,
)
from trimask_core.submit.submission import seal_payloads
from web_cases import Recorded, made_study

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "device-hybrid.json").read_text()
)
OWN: dict[str, Any] = VECTORS["own"]
INFO = b"info"


def _bytes(case: dict[str, Any], *names: str) -> list[bytes]:
    return [bytes.fromhex(case[name]) for name in names]


@pytest.mark.parametrize("case", VECTORS["encapsulate"], ids=lambda case: case["from"])
def test_published_encapsulations(case: dict[str, Any]) -> None:
    ek, random, secret, ciphertext = _bytes(case, "ek", "m", "k", "c")
    assert mlkem.encapsulate(ek, random) == (secret, ciphertext)


@pytest.mark.parametrize("case", VECTORS["bad_keys"], ids=lambda case: case["why"])
def test_keys_that_are_refused(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VerificationError, match="ML-KEM-768"):
        mlkem.encapsulate(bytes.fromhex(case["ek"]), bytes(32))
    public = bytes.fromhex(case["ek"]) + SealingKey.generate().public
    for library in (sealing._HYBRID_LIBRARY, None):
        monkeypatch.setattr(sealing, "_HYBRID_LIBRARY", library)
        with pytest.raises(VerificationError, match=r"sealing key|ML-KEM"):
            seal(public, b"x", INFO)


def test_compression_is_the_nearest_whole_number() -> None:
    for bits in (4, 10):
        nearest = [((2 * x << bits) + 3329) // (2 * 3329) % (1 << bits) for x in range(3329)]
        assert mlkem._compress(list(range(3329)), bits) == nearest


def test_the_draft() -> None:
    draft = VECTORS["draft"]
    private, public, random, enc, shared = _bytes(draft, "skRm", "pkRm", "random", "enc", "shared_secret")
    assert SealingKey(private, "hybrid").public == public
    assert hybrid_encapsulate(public, random) == (shared, enc)
    info, suite, key, nonce, plain, aad, ciphertext = _bytes(
        draft, "info", "suite_id", "key", "base_nonce", "pt", "aad", "ct"
    )
    assert key_schedule(shared, info, suite, 32) == (key, nonce)
    assert ChaCha20Poly1305(key).encrypt(nonce, plain, aad) == ciphertext


def test_our_own() -> None:
    seed, public, random, info, sealed = _bytes(OWN, "seed", "public", "random", "info", "sealed")
    key = SealingKey(seed, "hybrid")
    assert key.public == public
    assert hybrid_seal(public, OWN["plaintext"].encode(), info, random) == sealed
    assert key.open(sealed, info) == OWN["plaintext"].encode()


@pytest.mark.parametrize("case", OWN["bad"], ids=lambda case: case["why"])
def test_what_does_not_open(case: dict[str, Any]) -> None:
    seed, sealed, info = _bytes(OWN | case, "seed", "sealed", "info")
    with pytest.raises(VerificationError, match="does not open"):
        SealingKey(seed, "hybrid").open(sealed, info)


@pytest.mark.parametrize("size", [0, 1, 33, 8_353])
def test_both_ways_with_the_native_one(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    key, plaintext = SealingKey.generate(kind="hybrid"), bytes(size)
    native = seal(key.public, plaintext, INFO)
    monkeypatch.setattr(sealing, "_HYBRID_LIBRARY", None)
    own = seal(key.public, plaintext, INFO)
    assert own != seal(key.public, plaintext, INFO)
    monkeypatch.undo()
    assert key.open(own, INFO) == key.open(native, INFO) == plaintext
    assert len(own) == len(native) == size + SEAL_OVERHEAD_BYTES["hybrid"]


def test_a_library_without_ml_kem_seals_and_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = SealingKey.generate(kind="hybrid")
    monkeypatch.setattr(sealing, "_HYBRID_LIBRARY", None)
    sealed = seal(key.public, b"x", INFO)
    with pytest.raises(ConfigError, match="ML-KEM"):
        SealingKey.generate(kind="hybrid")
    monkeypatch.undo()
    assert key.open(sealed, INFO) == b"x"


def test_a_key_tells_its_kind_by_its_length() -> None:
    for kind in SEALINGS:
        key = SealingKey.generate(DeterministicRandom(kind), kind)
        assert (kind_of(key.public), len(key.public), key.kind) == (kind, PUBLIC_KEY_BYTES[kind], kind)
        assert SealingKey(key.secret_bytes(), kind).public == key.public
    for length in (0, 31, 33, 1184, 1215, 1217):
        with pytest.raises(VerificationError, match="no kind"):
            seal(bytes(length), b"x", INFO)


def test_both_halves_are_needed() -> None:
    """With either private half replaced by a stranger's it stays closed: neither alone is enough."""
    seed = bytes.fromhex(OWN["seed"])
    expanded = hashlib.shake_256(seed).digest(96)
    lattice = MLKEM768PrivateKey.from_seed_bytes(expanded[:64])
    curve = X25519PrivateKey.from_private_bytes(expanded[64:])
    sealed, info = _bytes(OWN, "sealed", "info")
    key = SealingKey(seed, "hybrid")
    key._key = MLKEM768X25519PrivateKey(lattice, curve)
    assert key.open(sealed, info)
    for halves in ((MLKEM768PrivateKey.generate(), curve), (lattice, X25519PrivateKey.generate())):
        key._key = MLKEM768X25519PrivateKey(*halves)
        with pytest.raises(VerificationError):
            key.open(sealed, info)


def test_nothing_is_sealed_to_a_key_of_another_kind() -> None:
    schema = random_schema(Random(3))
    for kind in SEALINGS:
        made = made_study(f"kinds {kind}", schema, suite="moments", right=2, kind=kind)
        other = SealingKey.generate(kind=next(each for each in SEALINGS if each != kind))
        with pytest.raises(VerificationError, match="not of the kind"):
            seal_payloads(made.study, [b"x", b"y"], Recorded("kinds"), {2: other.public})
        sealed = seal_payloads(made.study, [b"x", b"y"], Recorded("kinds"))
        assert [len(part) for part in sealed.sealed] == [1 + SEAL_OVERHEAD_BYTES[kind]] * 2
