"""Whoever records what devices and nodes send today, and has every X25519 private key in twenty years.

The attacker is given what is inside TLS, as if TLS had fallen too, and all X25519 secrets: those of the classical sealing
keys, and the X25519 halves of the hybrid ones. In a study sealed classically it adds up the shares and reads the answers; in
one sealed hybrid nothing opens, whatever it puts in the place of the secret that it lacks. So with what nodes seal to each
other; in `rows` the attacker is the collector, which is sent blinded components and carries the keys they are blinded by
(right masks and tag keys go inside TLS alone).
"""

from __future__ import annotations

import hashlib
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimask_client import Client
from trimask_client.transport import Endpoint, H2Transport
from trimask_core.crypto import mlkem
from trimask_core.crypto.keys import (
    Pairing,
    Sealing,
    SealingKey,
    component_info,
    hpke_open,
    key_schedule,
)
from trimask_core.moments.field import P, unpack
from trimask_core.moments.report import MomentsSecret, contribution_hash, read_share
from trimask_core.moments.totals import asked_hash
from trimask_core.study.definition import Study
from trimask_core.study.party import read_secret
from trimask_core.study.signed import SignedStudy
from trimask_lab import Lab, some_people
from trimask_moments import moments_people, open_moments, submit_all
from trimask_proto.v1 import collection_pb2, moments_pb2, unmasking_pb2
from trimask_proto.v1.submission_pb2 import SubmitRequest
from trimask_server.runtime.context import Peers
from trimask_server.suites.moments import batch_check, batch_store, deliveries, key_exchange
from trimask_server.suites.rows import math as rows_math
from trimask_server.suites.rows import unmasking
from trimask_server.suites.rows.attempt_shares import attempt_bytes

_HYBRID = b"HPKE\x64\x7a\x00\x01\x00\x02"


class Recorder(H2Transport):
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
        found.append(curve_half(SealingKey(read_secret(folder / "sealing-hybrid.key"), "hybrid")))
        found.append(curve_half(SealingKey(read_secret(folder / "sealing.key"))))
    return found


def curve_half(key: SealingKey) -> X25519PrivateKey:
    """The X25519 private key of a key of either kind."""
    secret = key.secret_bytes()
    secret = hashlib.shake_256(secret).digest(96)[64:] if key.kind == "hybrid" else secret
    return X25519PrivateKey.from_private_bytes(secret)


def opened(request: SubmitRequest, study: Study, keys: list[X25519PrivateKey]) -> bytes | None:
    """What a sealed component hides, by any way that X25519 alone leads to."""
    infos = [component_info(study.binding, k, request.submission_id) for k in range(1, len(study.right) + 1)]
    return opened_by_curve(request.sealed_component, infos, keys)


def opened_by_curve(sealed: bytes, infos: list[bytes], keys: list[X25519PrivateKey]) -> bytes | None:
    """What is sealed to one of these keys, for one of these purposes."""
    for key, info in product(keys, infos):
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


Wire = list[tuple[Any, Any]]


def tapped(patch: pytest.MonkeyPatch) -> Wire:
    """Every call between nodes from now on, and its answer, as they are inside TLS."""
    wire: Wire = []
    call = Peers.call

    async def recorded(self: Peers, method: Any, request: Any, *timeout: float) -> Any:
        answer = await call(self, method, request, *timeout)
        wire.append((request, answer))
        return answer

    patch.setattr(Peers, "call", recorded)
    return wire


def pair_secrets(keys: dict[str, SealingKey], shares: dict[tuple[str, str], bytes | None]) -> list[Any]:
    """For every two roles the secret they may have, guess by guess: agreed upon, or of halves that opened."""

    def agreed(one: str, other: str) -> bytes:
        return curve_half(keys[one]).exchange(curve_half(keys[other]).public_key())

    def halves(one: str, other: str) -> bytes:
        low, high = sorted((one, other))
        return (shares.get((low, high)) or b"") + (shares.get((high, low)) or b"")

    ways = (agreed, lambda *pair: 2 * agreed(*pair), halves, lambda *pair: halves(*pair) or bytes(64))
    return [{pair: way(*pair) or b"0" for pair in product(keys, repeat=2)} for way in ways]


@pytest.mark.parametrize("kind", ["classical", "hybrid"])
def test_what_was_recorded_between_right_providers(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: Sealing
) -> None:
    """Contributions to the challenge key, shares of proofs, and what blinds a share of the totals."""
    wire, noisy = tapped(monkeypatch), {}

    def blind(values: list[int], provider: int, *more: Any) -> list[int]:
        noisy[f"R{provider}"] = values
        return batch_store.blind(values, provider, *more)

    monkeypatch.setattr(deliveries, "blind", blind)
    signed = open_moments(lab, sealing=kind, release_rows=4)
    study = signed.study
    submit_all(signed, moments_people(4))
    lab.close(study)
    pairs = list(permutations(("R1", "R2")))
    own = {role: MomentsSecret.load(lab.folder / role).exchange_key(study.id, kind) for role in ("R1", "R2")}
    curves = [curve_half(key) for key in own.values()]
    contributions, forms, shares, context, delivered = [], [], {}, b"", []
    for request, answer in wire:
        if isinstance(request, moments_pb2.IntroduceRequest) and request.study_id == study.id:
            infos = [key_exchange._info(study, *pair) for pair in pairs]
            contributions.append(opened_by_curve(answer.sealed_contribution, infos, curves))
            for sender, receiver in pairs:
                info = Pairing(own[sender], sender, study.binding)._info(sender, receiver)
                if answer.exchange_key == own[sender].public:
                    shares[sender, receiver] = opened_by_curve(answer.sealed_share, [info], curves)
        elif isinstance(request, moments_pb2.GetFormsRequest) and request.attempt.study_id == study.id:
            infos = [batch_check._info(study, request.attempt.block_id, *pair) for pair in pairs]
            forms.append(opened_by_curve(answer.sealed_values, infos, curves))
        elif isinstance(request, moments_pb2.DeliverTotalsRequest):
            asked = request.totals
            what = asked_hash(study.id, asked.release_number, asked.batch_ids, asked.question)
            context = hashlib.sha256(what + request.commitments[0].accepted_hash).digest()
            delivered.append(unpack(answer.values))
    assert len(contributions) >= 2
    assert forms
    assert len(delivered) == 2
    known = {contribution_hash(found) for found in contributions if found}
    assert known == (set(study.commitments) if kind == "classical" else set())
    assert [found is not None for found in forms] == [kind == "classical"] * len(forms)

    def unblinded(secret: bytes) -> bool:
        """Whether R1's share of the totals comes out of what it delivered."""
        masks = batch_store.blind([0] * len(noisy["R1"]), 1, {2: secret}, context)
        plain = [[(a - b) % P for a, b in zip(values, masks, strict=True)] for values in delivered]
        return noisy["R1"] in plain

    guesses = [guess["R1", "R2"] for guess in pair_secrets(own, shares)]
    assert any(unblinded(guess) for guess in guesses) == (kind == "classical")
    sides = {role: Pairing(own[role], role, study.binding) for role in own}
    share = sides["R2"].share("R1", own["R1"].public)
    assert unblinded(sides["R1"].secret("R2", own["R2"].public, share)), (
        "the rest of the keys is all that is lacking"
    )


def unblinded(
    delivered: np.ndarray, k: int, guess: dict[tuple[str, str], bytes], roles: tuple[str, ...], context: bytes
) -> np.ndarray:
    """What a delivery of component k hides, if every pair has the secret that is guessed."""
    secrets = {other: guess[roles[k - 1], role] for other, role in enumerate(roles, 1)}
    masks = rows_math.blind(np.zeros(delivered.shape, dtype=np.int64), k, secrets, context)
    return (delivered - masks).view(np.int64)


@pytest.mark.parametrize("kind", ["classical", "hybrid"])
def test_what_the_collector_was_sent_of_a_block(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: Sealing
) -> None:
    """A X^k of each component, of which it is to know the sum alone."""
    wire, plain, sides = tapped(monkeypatch), {}, {}

    def blind(values: np.ndarray, k: int, secrets: dict[int, bytes], context: bytes) -> np.ndarray:
        plain[context, k] = values.copy()
        return rows_math.blind(values, k, secrets, context)

    def pairing(key: SealingKey, role: str, context: bytes) -> Pairing:
        sides[context, role] = Pairing(key, role, context)
        return sides[context, role]

    monkeypatch.setattr(unmasking, "blind", blind)
    monkeypatch.setattr(unmasking, "Pairing", pairing)
    signed = lab.open_study(sealing=kind)
    study = signed.study
    with Client(signed) as client:
        for person in some_people(48, 1):
            client.submit(person)
    lab.close(study)
    roles = study.rows.unmasking
    pushed = [request for request, _ in wire if isinstance(request, collection_pb2.PushDeliveryRequest)]
    pushed = [request for request in pushed if request.attempt.study_id == study.id]
    assert len({request.component for request in pushed}) == len(roles)
    for request in pushed:
        context, k, piece = attempt_bytes(request.attempt), request.component, request.slice
        delivered = np.frombuffer(piece.values, dtype="<u8").reshape(-1, piece.columns)
        own = {role: sides[context, role].key for role in set(roles)}
        curves = [curve_half(key) for key in own.values()]
        carried = [
            share
            for asked, _ in wire
            if isinstance(asked, unmasking_pb2.ShareBlindingKeysRequest)
            and attempt_bytes(asked.attempt) == context
            for share in asked.shares
        ]
        assert bool(carried) == (kind == "hybrid")
        shares = {
            (share.sender, share.receiver): opened_by_curve(
                share.sealed, [sides[context, share.sender]._info(share.sender, share.receiver)], curves
            )
            for share in carried
        }
        assert set(shares.values()) <= {None}

        guesses = pair_secrets(own, shares)
        found = [unblinded(delivered, k, guess, roles, context) for guess in guesses]
        assert [(values == plain[context, k]).all() for values in found].count(True) == (kind == "classical")
        whole = {
            (one, other): sides[context, one].secret(
                other, own[other].public, sides[context, other].share(one, own[one].public)
            )
            for one, other in product(own, repeat=2)
        }
        values = unblinded(delivered, k, whole, roles, context)
        assert (values == plain[context, k]).all(), "the rest of the keys is all that is lacking"
