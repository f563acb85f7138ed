"""HPKE from primitives: the RFC's numbers, both ways with the native one, and nothing altered opens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from trimask_core.basics.errors import VerificationError
from trimask_core.crypto import keys as sealing
from trimask_core.crypto.keys import (
    SealingKey,
    component_info,
    hpke_open,
    hpke_seal,
    key_schedule,
    seal,
    shared_secret,
)

VECTOR: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "device-hpke.json").read_text())
INFO = component_info(bytes(32), 1, bytes(16))


def _bytes(name: str, case: dict[str, Any] = VECTOR) -> bytes:
    return bytes.fromhex(case.get(name, VECTOR[name]))


def test_appendix_a_1_1() -> None:
    ephemeral = X25519PrivateKey.from_private_bytes(_bytes("skEm"))
    recipient = X25519PrivateKey.from_private_bytes(_bytes("skRm"))
    assert ephemeral.public_key().public_bytes_raw() == _bytes("enc")
    sent = shared_secret(ephemeral, _bytes("pkRm"), _bytes("enc"), _bytes("pkRm"))
    received = shared_secret(recipient, _bytes("enc"), _bytes("enc"), _bytes("pkRm"))
    assert sent == received == _bytes("shared_secret")
    assert key_schedule(sent, _bytes("info")) == (_bytes("key"), _bytes("base_nonce"))
    sealed = hpke_seal(_bytes("pkRm"), _bytes("pt"), _bytes("info"), _bytes("aad"), ephemeral)
    assert sealed == _bytes("enc") + _bytes("ct")
    assert hpke_open(recipient, sealed, _bytes("info"), _bytes("aad")) == _bytes("pt")


@pytest.mark.parametrize("case", VECTOR["bad"], ids=lambda case: case["why"])
def test_what_does_not_open(case: dict[str, Any]) -> None:
    recipient = X25519PrivateKey.from_private_bytes(_bytes("skRm", case))
    with pytest.raises((InvalidTag, ValueError)):
        hpke_open(
            recipient, _bytes("enc", case) + _bytes("ct", case), _bytes("info", case), _bytes("aad", case)
        )


@pytest.mark.parametrize("size", [0, 1, 33, 8_353])
def test_both_ways_with_the_native_one(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sealing._LIBRARY is not None
    key, plaintext = SealingKey.generate(), bytes(range(256)) * (size // 256 + 1)
    plaintext = plaintext[:size]
    native = seal(key.public, plaintext, INFO)
    monkeypatch.setattr(sealing, "_LIBRARY", None)
    assert key.open(native, INFO) == plaintext
    own = seal(key.public, plaintext, INFO)
    assert len(own) == len(native)
    assert own != seal(key.public, plaintext, INFO)
    monkeypatch.undo()
    assert key.open(own, INFO) == plaintext


def test_errors_are_the_same_without_the_native_one(monkeypatch: pytest.MonkeyPatch) -> None:
    key = SealingKey.generate()
    for suite in (sealing._LIBRARY, None):
        monkeypatch.setattr(sealing, "_LIBRARY", suite)
        sealed = bytearray(seal(key.public, b"plaintext", INFO))
        sealed[-1] ^= 1
        for broken in (bytes(sealed), b"", bytes(40), bytes(100)):
            with pytest.raises(VerificationError, match="does not open"):
                key.open(broken, INFO)
        for public in (b"", bytes(32), bytes(31)):
            with pytest.raises(VerificationError, match="sealing key"):
                seal(public, b"plaintext", INFO)


def test_a_library_without_hpke_is_enough() -> None:
    script = (
        "import sys; sys.modules['cryptography.hazmat.primitives.hpke'] = None\n"
        "from trimask_core.crypto import keys as sealing\n"
        "assert sealing._LIBRARY is None\n"
        "key = sealing.SealingKey.generate()\n"
        "assert key.open(sealing.seal(key.public, b'x', b'i'), b'i') == b'x'"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
