"""Challenges: the same for the same key, study and bucket; different for any other; never one that opens answers."""

from __future__ import annotations

import hashlib

import pytest

from moments_cases import SMALL, SMALL_NORM, STUDY
from trimask_core.basics.errors import ParameterError
from trimask_core.moments import report as module
from trimask_core.moments.field import P
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import (
    BUCKETS,
    Challenge,
    bucket_of,
    challenge_key,
    contribution_hash,
    derive_challenge,
)

LAYOUT = MomentsLayout.of(SMALL, SMALL_NORM)
ONE, TWO = bytes(32), bytes(31) + b"\x01"
KEY = challenge_key(STUDY, [ONE, TWO])


def test_the_key_is_a_hash_of_everything() -> None:
    expected = hashlib.sha256(
        b"trimask/v1/moments challenge key" + b"\x20\x00" + STUDY + b"\x02" + ONE + TWO
    ).digest()
    assert expected == KEY
    others = [
        challenge_key(STUDY, [TWO, ONE]), challenge_key(STUDY, [ONE, ONE]), challenge_key(STUDY, [ONE, TWO, ONE]),
        challenge_key(STUDY[1:], [ONE, TWO]), challenge_key(STUDY + b"\0", [ONE, TWO]),
    ]  # fmt: skip
    assert len({KEY, *others}) == 6


def test_a_contribution_is_hashed_in_its_own_domain() -> None:
    assert contribution_hash(ONE) == hashlib.sha256(b"trimask/v1/moments contribution" + ONE).digest()
    assert len({contribution_hash(ONE), contribution_hash(TWO), hashlib.sha256(ONE).digest()}) == 3


def test_256_different_challenges_each_again_the_same() -> None:
    every = [derive_challenge(KEY, STUDY, bucket, LAYOUT) for bucket in range(BUCKETS)]
    assert every == [derive_challenge(KEY, STUDY, bucket, LAYOUT) for bucket in range(BUCKETS)]
    for values in zip(*((c.r, c.u_rho, *c.u, *c.g) for c in every), strict=True):
        assert len(set(values)) == BUCKETS
    for c in every:
        assert (len(c.u), len(c.g)) == (LAYOUT.q, len(LAYOUT.linear_checks))
        assert 0 < c.u_rho < P
        assert 2 * LAYOUT.bits < c.r < P
    assert derive_challenge(KEY, STUDY[::-1], 0, LAYOUT) != every[0]
    assert derive_challenge(ONE, STUDY, 0, LAYOUT) != every[0]


def test_points_that_would_open_answers_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter([*range(LAYOUT.q), 0, 0, 5, 0, 1, LAYOUT.bits, 2 * LAYOUT.bits, 2 * LAYOUT.bits + 1, 0, 9])
    monkeypatch.setattr(module, "draw", lambda _stream: next(words))
    assert derive_challenge(KEY, STUDY, 0, LAYOUT) == Challenge(
        u=tuple(range(LAYOUT.q)), u_rho=5, r=2 * LAYOUT.bits + 1, g=(0, 9)
    )


def test_the_bucket_is_the_first_byte() -> None:
    assert [bucket_of(bytes([first]) + bytes(15)) for first in (0, 7, 255)] == [0, 7, 255]
    with pytest.raises(ParameterError, match="submission_id"):
        bucket_of(b"")


@pytest.mark.parametrize("contribution", [b"", bytes(31), bytes(33)])
def test_contributions_of_another_length(contribution: bytes) -> None:
    for refuse in (contribution_hash, lambda wrong: challenge_key(STUDY, [ONE, wrong])):
        with pytest.raises(ParameterError, match="contribution must be 32 bytes"):
            refuse(contribution)


def test_other_arguments_that_are_refused() -> None:
    for contributions in ([], [ONE], [ONE] * 256):
        with pytest.raises(ParameterError, match="contributions"):
            challenge_key(STUDY, contributions)
    for bucket in (-1, 256):
        with pytest.raises(ParameterError, match="bucket"):
            derive_challenge(KEY, STUDY, bucket, LAYOUT)
    with pytest.raises(ParameterError, match="key must be 32 bytes"):
        derive_challenge(KEY[1:], STUDY, 0, LAYOUT)
