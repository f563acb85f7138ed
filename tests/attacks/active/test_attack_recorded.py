"""Whoever records what devices send today, and has every X25519 private key in twenty years.

The attacker is given what is inside TLS, as if TLS had fallen too, and all X25519 secrets: those of the classical sealing
keys, and the X25519 halves of the hybrid ones. In a study sealed classically it adds up the shares and reads the answers; in
one sealed hybrid nothing opens, whatever it puts in the place of the secret that it lacks.
"""

from __future__ import annotations

import hashlib
from itertools import product

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimask_client import Client
from trimask_client.lazy_transport import LazyTransport
from trimask_client.transport import Endpoint
from trimask_core.crypto import mlkem
from trimask_core.crypto.sealing import Sealing, component_info, hpke_open, key_schedule
from trimask_core.moments.field import P
from trimask_core.moments.report import read_share
from trimask_core.study.definition import Study
from trimask_core.study.party import read_secret
from trimask_core.study.signed import SignedStudy
from trimask_lab import Lab, some_people
from trimask_moments import moments_people, open_moments
from trimask_proto.v1.submission_pb2 import SubmitRequest

_HYBRID = b"HPKE\x64\x7a\x00\x01\x00\x02"


class Recorder(LazyTransport):
    """What goes in and out, inside TLS."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, bytes]] = []

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        self.sent.append((method.rpartition("/")[2], request))
        return super().call(endpoint, method, request, timeout_seconds)


def curve_keys(lab: Lab) -> list[X25519PrivateKey]:
    """Every X25519 private key of the right providers, and nothing of ML-KEM."""
    found = []
    for k in range(1, lab.right + 1):
        folder = lab.folder / f"R{k}"
        seed = read_secret(folder / "sealing-hybrid.key")
        found += [read_secret(folder / "sealing.key"), hashlib.shake_256(seed).digest(96)[64:]]
    return [X25519PrivateKey.from_private_bytes(secret) for secret in found]


def opened(request: SubmitRequest, study: Study, keys: list[X25519PrivateKey]) -> bytes | None:
    """What a sealed component hides, by any way that X25519 alone leads to."""
    sealed = request.sealed_component
    for key, k in product(keys, range(1, len(study.right) + 1)):
        info = component_info(study.binding, k, request.submission_id)
        try:
            return hpke_open(key, sealed, info)
        except (InvalidTag, ValueError):
            pass
        lattice, point = sealed[: mlkem.CIPHERTEXT_BYTES], sealed[mlkem.CIPHERTEXT_BYTES :][:32]
        if len(point) < 32:
            continue
        agreed = key.exchange(X25519PublicKey.from_public_bytes(point))
        own = key.public_key().public_bytes_raw()
        for guess in (b"", bytes(32), agreed, hashlib.sha3_256(lattice).digest()):
            for shared in (
                hashlib.sha3_256(guess + agreed + point + own + rb"\.//^" + b"\\").digest(),
                agreed,
            ):
                aead, nonce = key_schedule(shared, info, _HYBRID, 32)
                try:
                    return AESGCM(aead).decrypt(nonce, sealed[mlkem.CIPHERTEXT_BYTES + 32 :], b"")
                except InvalidTag:
                    continue
    return None


def recorded(signed: SignedStudy, answers: dict[str, object]) -> list[SubmitRequest]:
    """The submissions a device sent, as the wire had them."""
    recorder = Recorder()
    with Client(signed, transport=recorder) as client:
        client.submit(answers)
    return [SubmitRequest.FromString(data) for method, data in recorder.sent if method == "Submit"]


@pytest.mark.parametrize("kind", ["classical", "hybrid"])
def test_what_was_recorded_of_a_report(lab: Lab, kind: Sealing) -> None:
    signed = open_moments(lab, sealing=kind)
    study, (answers,) = signed.study, moments_people(1)
    requests = recorded(signed, answers)
    assert len(requests) == lab.right
    found = [opened(request, study, curve_keys(lab)) for request in requests]
    if kind == "hybrid":
        assert found == [None] * lab.right
        return
    layout = study.moments.layout
    shares = [read_share(payload or b"", k, lab.right, layout.elements) for k, payload in enumerate(found, 1)]
    report = [sum(parts) % P for parts in zip(*shares, strict=True)]
    bits = layout.encode(answers).bits
    assert report[: len(bits)] == list(bits)  # the answers, bit by bit


@pytest.mark.parametrize("kind", ["classical", "hybrid"])
def test_what_was_recorded_of_a_row(lab: Lab, kind: Sealing) -> None:
    signed = lab.open_study(sealing=kind)
    requests = recorded(signed, some_people(1, 1)[0])
    found = [opened(request, signed.study, curve_keys(lab)) for request in requests]
    assert [payload is not None for payload in found] == [kind == "classical"] * lab.right
