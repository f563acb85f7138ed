"""The field against Python's own whole numbers, and polynomials against their definition."""

from __future__ import annotations

import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom, Stream
from trimask_core.moments.field import (
    P,
    basis_at,
    batch_inverse,
    draw,
    expand_elements,
    extend,
    inverse,
    pack,
    signed,
    unpack,
)

ELEMENT = st.integers(0, P - 1)
PRIMES = (7, 11, 13, 101, P)


class Bytes:
    """Hands out what it is given."""

    def __init__(self, *words: int) -> None:
        self.left = b"".join(word.to_bytes(8, "little") for word in words)

    def read(self, count: int) -> bytes:
        head, self.left = self.left[:count], self.left[count:]
        return head


def test_p_is_prime() -> None:
    """Lucas-Lehmer, which decides it for 2^61 - 1."""
    s = 4
    for _ in range(61 - 2):
        s = (s * s - 2) % P
    assert s == 0
    assert P == 2305843009213693951


@given(st.integers(1, P - 1))
def test_inverse(value: int) -> None:
    assert inverse(value) * value % P == 1
    assert inverse(value - P) == inverse(value)


@given(st.lists(st.integers(1, P - 1), max_size=20))
def test_batch_inverse(values: list[int]) -> None:
    assert batch_inverse(values) == [inverse(value) for value in values]


@pytest.mark.parametrize("zero", [0, P, -P])
def test_zero_has_no_inverse(zero: int) -> None:
    with pytest.raises(ParameterError, match="other than 0"):
        inverse(zero)
    with pytest.raises(ParameterError, match="other than 0"):
        batch_inverse([1, zero, 2])


def test_draw_keeps_61_bits_and_rejects_p() -> None:
    assert draw(Bytes(5 << 61 | 17)) == 17
    assert draw(Bytes(P, 2**64 - 1, P | 1 << 61, 9)) == 9
    assert draw(Bytes(P - 1)) == P - 1


def test_expand_is_one_draw_after_another() -> None:
    seed = bytes(range(32))
    stream = Stream(seed, b"moments share")
    assert expand_elements(seed, 300) == [draw(stream) for _ in range(300)]
    assert expand_elements(seed, 7) == expand_elements(seed, 300)[:7]
    assert expand_elements(seed, 0) == []
    with pytest.raises(ParameterError, match="32 bytes"):
        expand_elements(seed[1:], 1)


def test_expand_rejects_p(monkeypatch: pytest.MonkeyPatch) -> None:
    """No seed is known that gives P, so the stream is replaced: 2^-61 a word otherwise."""
    words = Bytes(1, P, 2, 2**64 - 1, 3, 4)
    monkeypatch.setattr("trimask_core.moments.field.Stream", lambda _seed, _label: words)
    assert expand_elements(bytes(32), 4) == [1, 2, 3, 4]


def test_expanded_elements_are_uniform() -> None:
    """Each of 61 bits over 20,000 elements within 6 deviations of one half: false failure below 61 * 2e-9."""
    elements = expand_elements(bytes(32), 20_000)
    for bit in range(61):
        ones = sum(element >> bit & 1 for element in elements)
        assert abs(ones - 10_000) < 6 * 70.72


@given(st.lists(ELEMENT, max_size=20))
def test_pack_and_unpack(elements: list[int]) -> None:
    data = pack(elements)
    assert data == b"".join(element.to_bytes(8, "little") for element in elements)
    assert unpack(data) == elements


@pytest.mark.parametrize("value", [-1, P, P + 1, 2**64])
def test_pack_refuses_what_is_no_element(value: int) -> None:
    with pytest.raises(ParameterError, match="from 0 to P - 1") as caught:
        pack([3, value])
    assert str(value) not in str(caught.value)


@pytest.mark.parametrize("value", [P, P + 1, 2**63, 2**64 - 1])
def test_unpack_refuses_values_of_p_and_above(value: int) -> None:
    with pytest.raises(VerificationError, match="below P") as caught:
        unpack(struct.pack("<3Q", 1, value, 2))
    assert str(value) not in str(caught.value)


@pytest.mark.parametrize("length", [1, 7, 9, 23])
def test_unpack_refuses_a_broken_length(length: int) -> None:
    with pytest.raises(VerificationError, match="8 bytes each"):
        unpack(bytes(length))


@given(st.integers(-(P // 2), P // 2))
def test_signed(value: int) -> None:
    assert signed(value) == signed(value % P) == signed(value + 5 * P) == value


def lagrange(values: list[int], x: int) -> Fraction:
    """By the definition, over the rationals."""
    total = Fraction()
    for k, value in enumerate(values):
        term = Fraction(value)
        for i in range(len(values)):
            if i != k:
                term *= Fraction(x - i, k - i)
        total += term
    return total


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_extend_and_basis_against_rationals(degree: int, p: int) -> None:
    if p <= 2 * degree:
        with pytest.raises(ParameterError, match="nodes"):
            extend([1] * (degree + 1), p)
        return
    values = [(7 * k * k + 3 * k + 5) % p for k in range(degree + 1)]
    further = extend(values, p)
    assert len(further) == degree
    for x, value in enumerate(further, degree + 1):
        exact = lagrange(values, x)
        assert exact.denominator == 1
        assert value == int(exact) % p
        basis = basis_at(degree, x, p)
        assert sum(b * v for b, v in zip(basis, values, strict=True)) % p == value


@given(st.lists(ELEMENT, min_size=1, max_size=12), st.integers(100, P - 1))
def test_polynomials_by_their_coefficients(coefficients: list[int], x: int) -> None:
    degree = len(coefficients) - 1

    def at(point: int) -> int:
        return sum(c * pow(point, i, P) for i, c in enumerate(coefficients)) % P

    values = [at(k) for k in range(degree + 1)]
    assert extend(values) == [at(k) for k in range(degree + 1, 2 * degree + 1)]
    assert sum(b * v for b, v in zip(basis_at(degree, x), values, strict=True)) % P == at(x)


@pytest.mark.parametrize("node", [0, 1, 4, P, P + 4, -P])
def test_no_basis_at_a_node(node: int) -> None:
    with pytest.raises(ParameterError, match="outside the nodes"):
        basis_at(4, node)


def test_draws_are_fresh(source: DeterministicRandom) -> None:
    assert len({draw(source) for _ in range(1000)}) == 1000
