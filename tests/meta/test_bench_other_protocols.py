"""The sizes of other protocols' messages, as their specifications add them up."""

from __future__ import annotations

from bench.other_protocols import prio3_proof_elements, prio3_sum_vec_bytes, secagg_plus_bytes


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
