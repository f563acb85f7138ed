"""The sizes of other protocols' messages, as their specifications add them up."""

from __future__ import annotations

import pytest

from bench.other_protocols import (
    prio3_moments_bytes,
    prio3_proof_elements,
    prio3_sum_vec_bytes,
    secagg_plus_bytes,
)

pytestmark = pytest.mark.slow  # of figures for a page, not of the product: `make test-all`


def test_a_proof_of_prio3() -> None:
    # 10 values of 8 bits in chunks of 9: 9 calls, P = 16, arity 18: 18 + 2 * 15 + 1.
    assert prio3_proof_elements(10, 8, 9) == 49
    # 7 calls need P = 8 exactly.
    assert prio3_proof_elements(7, 1, 1) == 2 + 2 * 7 + 1


def test_uploads() -> None:
    least = min(prio3_proof_elements(20, 22, chunk) for chunk in range(1, 441))
    assert prio3_sum_vec_bytes(20, 22, 2) == (440 + least) * 16 + 32 + 64 + 128
    assert prio3_sum_vec_bytes(20, 22, 3) - prio3_sum_vec_bytes(20, 22, 2) == 64 + 5 * 32
    assert secagg_plus_bytes(20, 0) == 64 + 80
    assert secagg_plus_bytes(20, 100) - secagg_plus_bytes(20, 99) == 2 * 33 + 16 + 28 + 33


def test_products_cost_prio3_an_element_each_and_one_multiplication() -> None:
    # 440 bits and the quadratic form are 441 multiplications; the 210 products are elements as they are.
    least = min(prio3_proof_elements(441, 1, chunk) for chunk in range(1, 442))
    assert prio3_moments_bytes(20, 22, 2) == (440 + 210 + least) * 16 + 32 + 64 + 128
    assert prio3_moments_bytes(20, 22, 2, field64=True) == (440 + 210 + 3 * least) * 8 + 32 + 64 + 128
    # With bits for every product, as if products were values to be kept in range, it would be seven times as much.
    assert prio3_sum_vec_bytes(230, 22, 3) > 6 * prio3_moments_bytes(20, 22, 3)
    assert prio3_moments_bytes(20, 22, 3) == 12_304
    assert prio3_moments_bytes(20, 22, 3, field64=True) == 7_832
