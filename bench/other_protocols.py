"""What a client of two other protocols uploads for the same values, worked out from their specifications.

Nothing here is measured: the numbers are the sizes of the messages that the specifications define, without the framing,
transport and (for Prio3) sealing that a deployment adds. Trimask's own numbers beside them have all of that in.

Prio3SumVec: draft-irtf-cfrg-vdaf-13 (Barnes, Cook, Patton, Schoppmann). Field128 elements have 16 bytes and seeds 32. A
vector of `length` values of `bits` bits is encoded as length * bits elements; one gadget, ParallelSum(Mul, chunk), is
called ceil(length * bits / chunk) times, and a gadget of arity a and degree d that is called m times puts
a + d (P - 1) + 1 elements into the proof, with P the next power of two from 1 + m. The leader gets the encoded vector,
the proof and a blind; every helper a seed and a blind; each of them the public share, a seed an aggregator.

Products of the values need no bits of their own. The client shares the values' bits and the products T_jl as they are, and
with u from the joint randomness one random quadratic form checks all products at once: sum u_j u_l T_jl = (u . x)^2, a
single multiplication beside those of the bits. Over Field64, whose elements have 8 bytes, a proof is made three times
(Prio3SumVecWithMultiproof has as many) for the same soundness. No specification has this circuit: it is what Prio3 would
need for it, as the paper of 2017 had for least squares.

SecAgg+: Bell, Bonawitz, Gascon, Lepoint, Raykova, "Secure single-server aggregation with (poly)logarithmic overhead", CCS
2020 (semi-honest), which Flower's SecAggPlusWorkflow implements. With k neighbours a client sends two public keys; to
each neighbour, through the server, an encrypted pair of secret shares; the masked vector; and a share for each neighbour.
Flower's defaults: 32 bits a value (modulus_range 2^32), quantised to 22 bits. Assumed: 32-byte keys, shares of 32 bytes and
an index, 28 bytes of nonce and tag and two 8-byte ids around each pair, k = 100.
"""

from __future__ import annotations

__all__ = ["prio3_moments_bytes", "prio3_proof_elements", "prio3_sum_vec_bytes", "secagg_plus_bytes"]

_FIELD128, _FIELD64, _PRIO3_SEED = 16, 8, 32
_KEY, _SHARE, _CIPHER, _ID = 32, 33, 28, 8


def prio3_proof_elements(length: int, bits: int, chunk: int) -> int:
    """The proof's length in field elements."""
    calls = -(-length * bits // chunk)
    power = 1 << calls.bit_length()  # the least power of two that is at least 1 + calls
    return 2 * chunk + 2 * (power - 1) + 1


def prio3_sum_vec_bytes(length: int, bits: int, aggregators: int) -> int:
    """Everything a client uploads, with the chunk length that makes it least."""
    encoded = length * bits
    proof = min(prio3_proof_elements(length, bits, chunk) for chunk in range(1, encoded + 1))
    return _prio3_bytes((encoded + proof) * _FIELD128, aggregators)


def prio3_moments_bytes(length: int, bits: int, aggregators: int, *, field64: bool = False) -> int:
    """The same with the values' squares and products, checked by one random quadratic form."""
    encoded = length * bits
    # One multiplication more than the bits have.
    proof = min(prio3_proof_elements(encoded + 1, 1, chunk) for chunk in range(1, encoded + 2))
    proofs, element = (3, _FIELD64) if field64 else (1, _FIELD128)
    products = length * (length + 1) // 2
    return _prio3_bytes((encoded + products + proofs * proof) * element, aggregators)


def _prio3_bytes(share: int, aggregators: int) -> int:
    leader = share + _PRIO3_SEED
    helpers = (aggregators - 1) * 2 * _PRIO3_SEED
    public = aggregators * (aggregators * _PRIO3_SEED)
    return leader + helpers + public


def secagg_plus_bytes(values: int, neighbours: int, value_bits: int = 32) -> int:
    """Everything a client uploads in the protocol's four rounds, if it stays to the end and nobody drops out."""
    keys = 2 * _KEY
    shares = neighbours * (2 * _SHARE + 2 * _ID + _CIPHER)
    vector = -(-values * value_bits // 8)
    unmasking = neighbours * _SHARE
    return keys + shares + vector + unmasking
