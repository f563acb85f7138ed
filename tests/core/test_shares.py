"""Components: they add up exactly, leave no gaps, have the stated scale, and refuse what does not fit."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom, Stream
from trimask_core.rows.arrays import expand_component, normals_from_words
from trimask_core.rows.payloads import LOW_BITS, check_headroom, split_row
from trimask_core.rows.study import EXACT_INTEGERS

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "core-component.json").read_text())
SCALE = 2.0**48 / 3


def test_known_answers() -> None:
    for case in VECTORS["cases"]:
        got = expand_component(
            bytes.fromhex(case["seed"]), case["columns"], float.fromhex(case["scale_steps"])
        )
        assert got.tolist() == case["component"]


@pytest.mark.parametrize("providers", [2, 3, 5])
@pytest.mark.parametrize("columns", [1, 2, 7, 100])
def test_components_add_up_to_the_row(providers: int, columns: int, source: DeterministicRandom) -> None:
    row = np.random.default_rng(columns).integers(-(2**40), 2**40, columns).tolist()
    kept = row.copy()
    seeds, (*_, vector) = split_row(row, providers, SCALE, source)
    assert len(seeds) == providers - 1
    components = [expand_component(seed, columns, SCALE) for seed in seeds]
    assert sum([*components, np.array(vector)]).tolist() == row == kept


def test_seeds_are_fresh(source: DeterministicRandom) -> None:
    seeds = [seed for _ in range(10) for seed in split_row([0] * 4, 3, SCALE, source)[0]]
    assert len(set(seeds)) == 20


def test_the_law_of_a_component() -> None:
    """N(0, s^2) up to 2^-28 of s: KS and variance at 100,000 values, set for 1e-6 each."""
    z = expand_component(bytes(32), 100_000, SCALE) / SCALE
    assert stats.kstest(z, "norm").pvalue > 1e-6
    assert abs((z**2).mean() - 1) < 4.9 * math.sqrt(2 / z.size)


def test_no_gaps() -> None:
    """Low bits uniform in the body and in the tails, where a floating-point normal alone would skip integers.

    The low 20 bits by their upper and lower bytes, and the whole by KS; set for 1e-7 each.
    """
    values = expand_component(bytes(31) + b"\x01", 400_000, SCALE)
    tails = values[np.abs(values) > 3 * SCALE]
    assert tails.size > 500
    for part in (values, tails):
        low = (part + (1 << (LOW_BITS - 1))) & ((1 << LOW_BITS) - 1)
        assert stats.kstest((low + 0.5) / (1 << LOW_BITS), "uniform").pvalue > 1e-7
        assert stats.chisquare(np.bincount(low & 0x1F, minlength=32)).pvalue > 1e-7
        assert stats.chisquare(np.bincount(low >> (LOW_BITS - 5), minlength=32)).pvalue > 1e-7


def test_an_inverse_cdf_normal_does_have_gaps() -> None:
    """What the low bits are for: two neighbouring 53-bit uniforms in the tail give normals millions of steps apart."""
    near, next_to_it = special.ndtri(np.array([1000.0, 1001.0]) * 2.0**-53)
    assert (next_to_it - near) * SCALE > 1e6


def test_the_remainder_has_the_scale_of_a_sum(source: DeterministicRandom) -> None:
    """The last of five components has variance 4 s^2; at 100,000 values, set for 1e-6."""
    z = np.array(split_row([0] * 100_000, 5, SCALE, source)[1][-1]) / SCALE
    assert abs((z**2).mean() / 4 - 1) < 4.9 * math.sqrt(2 / z.size)


def test_a_missing_component_hides_the_row() -> None:
    """All but one component of two rows 2R apart: a likelihood-ratio guess is right no more than mu allows.

    mu = 2R/s = 2^-10 here, for a test that sees something at all: the best guess is right with probability
    Phi(mu/2) = 0.5002, and 2,000 guesses stay below 0.556 but for 1e-6.
    """
    source = DeterministicRandom("hide")
    distance = round(SCALE * 2.0**-10)
    right = 0
    for trial in range(2_000):
        truth = trial & 1
        seen = split_row([truth * distance], 2, SCALE, source)[1][-1][0]
        right += int((seen > distance / 2) == bool(truth))
    assert 0.444 < right / 2_000 < 0.556


def test_refusals(source: DeterministicRandom) -> None:
    row = [0] * 3
    with pytest.raises(ParameterError, match="right_providers"):
        split_row(row, 1, SCALE, source)
    for scale in (2.0 ** (LOW_BITS + 8) * 0.999, 0.0, math.nan):
        with pytest.raises(ParameterError, match="low bits"):
            split_row(row, 2, scale, source)


def test_too_little_headroom_raises(source: DeterministicRandom) -> None:
    with pytest.raises(VerificationError, match="53 bits"):
        split_row([0] * 1_000, 2, 2.0**53, source)


@pytest.mark.parametrize("value", [EXACT_INTEGERS, -EXACT_INTEGERS, 2**63 - 1, -(2**63)])
def test_headroom_refuses_the_ends_of_int64(value: int) -> None:
    check_headroom(np.array([EXACT_INTEGERS - 1, 1 - EXACT_INTEGERS], dtype=np.int64))
    check_headroom(np.array([], dtype=np.int64))
    with pytest.raises(VerificationError):
        check_headroom(np.array([0, value], dtype=np.int64))


def test_a_component_is_its_streams_words() -> None:
    """By hand: the coarse normals first, then four bytes a column of which 20 bits count."""
    seed, columns = bytes(range(32)), 5
    stream = Stream(seed, b"component")
    normals = normals_from_words(stream.words(6))[:columns].tolist()
    raw = stream.read(4 * columns)
    low = [int.from_bytes(raw[4 * i : 4 * i + 4], "little") % 2**20 for i in range(columns)]
    by_hand = [
        round(z * (SCALE * 2.0**-20)) * 2**20 + bits - 2**19 for z, bits in zip(normals, low, strict=True)
    ]
    assert expand_component(seed, columns, SCALE).tolist() == by_hand
