"""Streams against HKDF and AES counter mode done by hand; the test double stays in tests."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from trimask_core.basics.errors import ParameterError
from trimask_core.basics.randomness import DeterministicRandom, Stream, SystemRandom, derive_key

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "core-stream.json").read_text()
)["cases"]


def hkdf(secret: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, one block, an empty salt."""
    extracted = hmac.digest(bytes(32), secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def keystream(key: bytes, count: int) -> bytes:
    """AES-256 of the big-endian block numbers 0, 1, 2, ..."""
    blocks = b"".join(number.to_bytes(16, "big") for number in range(-(-count // 16)))
    cipher = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305 - the building block itself
    return cipher.update(blocks)[:count]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["label"])
def test_stream_known_answers(case: dict[str, Any]) -> None:
    seed, label, expected = bytes.fromhex(case["seed"]), case["label"].encode(), bytes.fromhex(case["bytes"])
    assert Stream(seed, label).read(len(expected)) == expected
    assert keystream(hkdf(seed, b"trimask/v1/" + label), len(expected)) == expected


def test_derived_keys_are_hkdf() -> None:
    assert derive_key(b"secret", b"purpose") == hkdf(b"secret", b"trimask/v1/purpose")


def test_reading_in_pieces_is_reading_at_once() -> None:
    whole = Stream(bytes(32), b"x").read(100)
    pieces = Stream(bytes(32), b"x")
    assert b"".join(pieces.read(count) for count in (0, 1, 15, 16, 17, 51)) == whole


def test_words_are_little_endian() -> None:
    words = Stream(bytes(32), b"x").words(3)
    assert words.dtype == np.uint64
    raw = Stream(bytes(32), b"x").read(24)
    assert words.tolist() == [int.from_bytes(raw[i : i + 8], "little") for i in (0, 8, 16)]


def test_labels_and_seeds_separate_streams() -> None:
    streams = {
        Stream(seed, label).read(16)
        for seed in (bytes(32), bytes(31) + b"\1")
        for label in (b"a", b"b", b"a\0")
    }
    assert len(streams) == 6


@pytest.mark.parametrize("length", [0, 4, 31, 33])
def test_a_seed_has_32_bytes(length: int) -> None:
    with pytest.raises(ParameterError, match="seed must be 32 bytes") as caught:
        Stream(b"\x5a" * length, b"x")
    assert "5a" not in str(caught.value)
    assert "Z" not in str(caught.value)


def test_the_system_source_repeats_nothing() -> None:
    source = SystemRandom()
    assert len({source.seed() for _ in range(100)}) == 100
    assert len(source.read(7)) == 7


def test_the_test_double_repeats_itself_by_its_whole_label() -> None:
    long = "a label longer than thirty-two bytes, number "
    assert DeterministicRandom(long + "1").seed() == DeterministicRandom(long + "1").seed()
    assert DeterministicRandom(long + "1").seed() != DeterministicRandom(long + "2").seed()


def test_the_test_double_is_refused_outside_tests() -> None:
    program = (
        "from trimask_core.basics.errors import UnsafeRandomness\n"
        "from trimask_core.basics.randomness import DeterministicRandom, SystemRandom\n"
        "assert len(SystemRandom().seed()) == 32\n"
        "try:\n    DeterministicRandom('x')\n"
        "except UnsafeRandomness as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "for tests only" in done.stdout
