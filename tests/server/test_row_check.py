"""The check of a row's noise columns: what it accepts, refuses, opens and leaves."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.rows.arrays import device_frame, expand_component
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS
from trimask_core.rows.payloads import mask_row, noisy_answers
from trimask_core.study.definition import Study
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_server.suites.rows import check as row_check
from trimask_server.suites.rows.check import coin_of, commitments_hash, seed_of

Make = Callable[..., Any]


@pytest.fixture
def study(make_study: Make) -> Study:
    made: Study = make_study(block_rows=16).study
    return made


def rows_of(study: Study, answers: dict[str, Any], count: int) -> np.ndarray:
    source = DeterministicRandom("rows of a check")
    return np.array(
        [mask_row(study, noisy_answers(study, answers, source), source) for _ in range(count)], dtype=np.int64
    )


def test_directions_are_orthonormal_and_beside_the_frame(study: Study) -> None:
    Z = row_check.directions(study, b"z" * 32)
    assert np.abs(Z @ Z.T - np.eye(CHECK_DIRECTIONS)).max() < 1e-13
    assert np.abs(device_frame(study).unapply(Z)).max() < 1e-13
    assert not np.allclose(Z, row_check.directions(study, b"y" * 32))


def test_components_open_exactly_and_add_up_to_the_row(study: Study, answers: dict[str, Any]) -> None:
    row = rows_of(study, answers, 2)
    mask = np.array(
        [expand_component(bytes([i]) * 32, row.shape[1], study.rows.share_steps) for i in range(2)]
    )
    Z = row_check.directions(study, b"z" * 32)
    parts = [row_check.open_component(part, Z) for part in (mask, row - mask)]
    whole = np.rint(np.ldexp(Z, 30)).astype(np.int64)
    for i in range(2):
        for j in range(CHECK_DIRECTIONS):
            exact = sum(int(a) * int(b) for a, b in zip(row[i], whole[j], strict=True))
            assert sum(int.from_bytes(part[i, j].tobytes(), "little", signed=True) for part in parts) == exact
    packed = row_check.pack_openings(parts[0])
    assert (row_check.unpack_openings(packed, 2) == parts[0]).all()
    with pytest.raises(VerificationError):
        row_check.unpack_openings(packed[:-1], 2)


def test_honest_rows_pass_and_others_do_not(study: Study, answers: dict[str, Any]) -> None:
    """200 honest rows: false failures have probability 200 * 2^-40. Scaled ones pass with probability below 2^-20."""
    rows = rows_of(study, answers, 200)
    Z = row_check.directions(study, b"z" * 32)
    assert all(row_check.judge(study, [row_check.open_component(rows, Z)]))
    inside = device_frame(study).apply(device_frame(study).unapply(rows.astype(float)))
    for factor in (8.0, 1 / 16, 0.0, 1e6):
        changed = np.rint(inside + factor * (rows - inside)).astype(np.int64)
        assert not any(row_check.judge(study, [row_check.open_component(changed, Z)])), factor


def test_answers_do_not_show_in_what_is_opened(study: Study, answers: dict[str, Any]) -> None:
    """A row's answers enter by rounding of the directions alone: 2^-30 of them."""
    Z = row_check.directions(study, b"z" * 32)
    x = np.ones((1, study.attributes)) * 1e3
    inside = study.rows.grid.round(device_frame(study).apply(x))
    words = row_check.open_component(inside, Z)
    opened = np.ldexp(words[..., 1].view(np.int64).astype(float), 64) + words[..., 0]
    assert np.abs(opened).max() / math.ldexp(np.linalg.norm(inside.astype(float)), 30) < 1e-7


def test_nothing_is_left_along_what_was_opened(study: Study, answers: dict[str, Any]) -> None:
    rows = study.rows.grid.to_float(rows_of(study, answers, 20))
    Z = row_check.directions(study, b"z" * 32)
    left = row_check.take_out(rows, Z)
    assert np.abs(left @ Z.T).max() < 1e-9 * np.abs(rows @ Z.T).max()
    assert np.abs(device_frame(study).unapply(left) - device_frame(study).unapply(rows)).max() < 1e-9


@pytest.mark.parametrize(("degrees", "bits"), [(32, 41.0), (32, 5.0), (96, 20.0)])
def test_chernoff_is_a_bound(degrees: int, bits: float) -> None:
    """2^-5 of chi-squares, drawn: 20,000 draws, never above the bound by more than six deviations (p < 1e-8)."""
    upper = row_check.chi_square_factor(degrees, bits, upper=True)
    lower = row_check.chi_square_factor(degrees, bits, upper=False)
    assert lower < 1 < upper
    for a in (lower, upper):
        assert a - 1 - math.log(a) == pytest.approx(2 * bits * math.log(2) / degrees, rel=1e-9)
    draws = np.random.default_rng(4).chisquare(degrees, 20_000) / degrees
    share = 2.0**-bits
    allowed = share + 6 * math.sqrt(share / 20_000)
    assert np.mean(draws > upper) <= allowed
    assert np.mean(draws < lower) <= allowed


def test_what_the_check_bounds(study: Study) -> None:
    """docs/theory/collection.md#row-check: heavier than 64 times, or lighter than a 256th, passes below 2^-20.

    By F = (chi2_m / m) / (chi2_d / d) for the part that is left and the part that is opened, m >= 96 columns left.
    """
    d, m = CHECK_DIRECTIONS, 96
    least, most = (bound / d for bound in row_check.ACCEPTED)

    def beyond(a: float, degrees: int) -> float:
        return degrees / 2 * (a - 1 - math.log(a)) / math.log(2)

    # Too heavy: opened at most `most` and left more than 64 needs the opened part small, or the left one large.
    u = 0.18
    assert 2 ** -beyond(u, d) + 2 ** -beyond(64 / most * u, m) <= 2.0**-20
    # Too light: the opened part at least `least` and left less than 1/256.
    v = 0.41
    assert 2 ** -beyond(v, m) + 2 ** -beyond(v * 256 * least, d) <= 2.0**-20


def test_coins() -> None:
    """Fixed for a check, another for another; a coin that was not committed to is refused."""
    key = SigningKey(bytes(32))
    check = RowCheck(study_id=b"s" * 32, check_id=b"c" * 16, submission_ids=b"i" * 16)
    other = RowCheck(study_id=b"s" * 32, check_id=b"d" * 16, submission_ids=b"i" * 16)
    assert coin_of(key, check) == coin_of(key, check) != coin_of(key, other)
    coin = coin_of(key, check)
    check.commitments.add(held=b"\1", coin_hash=hashlib.sha256(coin).digest())
    before = commitments_hash(check)
    with pytest.raises(Refused):
        seed_of(check)
    check.coins.append(b"x" * 32)
    with pytest.raises(VerificationError):
        seed_of(check)
    check.coins[0] = coin
    assert len(seed_of(check)) == 32
    assert commitments_hash(check) == before
