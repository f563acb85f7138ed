"""No mask, share, seed, key or answer in the printed form of anything that holds one."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from trimask_client import Client
from trimask_core.basics.randomness import DeterministicRandom, DiscreteGaussian, Stream
from trimask_core.crypto.keys import SealingKey, SigningKey
from trimask_core.rows.arrays import HaarFrame, NormalStream, SecureNormals
from trimask_core.rows.gateway import Gateway
from trimask_core.submit.submission import build_submission

SECRET = bytes(range(160, 192))


def forms(secret: bytes) -> list[str]:
    """How 32 bytes could turn up in a text: hex, base64, a bytes literal, a list of numbers. Eight bytes suffice."""
    part = secret[:8]
    return [
        part.hex(),
        part.hex(" "),
        base64.b64encode(part)[:10].decode(),
        repr(part)[2:-1],
        ", ".join(map(str, part)),
        " ".join(map(str, part)),
    ]


HOLDERS: list[Callable[[], object]] = [
    lambda: SigningKey(SECRET),
    lambda: SealingKey(SECRET),
    lambda: Stream(SECRET, b"x"),
    lambda: NormalStream(SECRET, b"x"),
    lambda: SecureNormals(DeterministicRandom("x")),
    lambda: HaarFrame(SECRET, 2, 3),
    lambda: HaarFrame(SECRET, 2, 3)._panels,
    lambda: DeterministicRandom("x"),
    lambda: DiscreteGaussian(3, DeterministicRandom("x")),
]


@pytest.mark.parametrize("make", HOLDERS)
def test_keys_seeds_and_streams(make: Callable[[], object]) -> None:
    holder = make()
    for text in (repr(holder), str(holder), f"{holder}", repr([holder]), repr({"key": holder})):
        assert not any(form in text for form in forms(SECRET))
        assert "array" not in text


def test_the_search_would_find_them() -> None:
    @dataclasses.dataclass
    class Careless:
        key: bytes

    assert any(form in repr(Careless(SECRET)) for form in forms(SECRET))
    assert any(form in str(list(SECRET)) for form in forms(SECRET))
    assert any(form in str(np.frombuffer(SECRET, np.uint8)) for form in forms(SECRET))


def test_gateways(made_study: Any, answers: Mapping[str, object]) -> None:
    gateway = Gateway(made_study.study)
    drawn = gateway._draw(answers, DeterministicRandom("drawn"))
    assert repr(drawn) == "_Drawn()"
    assert repr(gateway) == f"Gateway({made_study.study.id.hex()})"


def test_submissions(made_study: Any, answers: Mapping[str, object]) -> None:
    submission = build_submission(made_study.study, answers, DeterministicRandom("print"))
    text = repr(submission)
    for sealed in submission.sealed:
        assert not any(form in text for form in forms(sealed))
        assert not any(form in text for form in forms(sealed[32:]))


def test_studies(made_study: Any) -> None:
    """The mask's seed is in the study, which devices read, but in no log line that prints one."""
    for text in (repr(made_study.study), repr(made_study.signed), repr(made_study)):
        assert not any(form in text for form in forms(made_study.study.rows.mask_seed))
    for key in (*made_study.identities.values(), *made_study.sealing.values()):
        assert not any(form in repr(key) for form in forms(key.secret_bytes()))


def test_clients(made_study: Any) -> None:
    with Client(made_study.signed) as client:
        assert not any(form in repr(client) for form in forms(made_study.study.rows.mask_seed))
