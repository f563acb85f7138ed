"""A report in additive shares: a 32-byte seed for R_1..R_(K1-1), and for R_K1 the vector that makes up the difference.

Any K1 - 1 shares are uniform and independent of the report. A payload, as it is sealed, is one byte for its kind and
the seed or the vector, 8 bytes an element.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimask_core.errors import ParameterError, VerificationError
from trimask_core.moments.field import ELEMENT_BYTES, P, expand_elements, pack, unpack
from trimask_core.payload import SEED, VECTOR
from trimask_core.randomness import SEED_BYTES, RandomSource

__all__ = ["check_share_form", "payloads", "read_share", "split"]


def split(elements: Sequence[int], providers: int, source: RandomSource) -> tuple[tuple[bytes, ...], bytes]:
    """Fresh seeds for the first right providers, and for the last the bytes of its vector."""
    if providers < 2:
        raise ParameterError("providers", "at least 2: one alone would hold the answers", providers)
    seeds = tuple(source.seed() for _ in range(providers - 1))
    shares = [expand_elements(seed, len(elements)) for seed in seeds]
    vector = [(element - sum(parts)) % P for element, *parts in zip(elements, *shares, strict=True)]
    return seeds, pack(vector)


def payloads(seeds: Sequence[bytes], vector: bytes) -> tuple[bytes, ...]:
    """What is sealed to R_1..R_K1, in order."""
    return (*(SEED + seed for seed in seeds), VECTOR + vector)


def check_share_form(payload: bytes, provider: int, providers: int, count: int) -> None:
    """Refuse a payload that is not a share of `count` elements for R_`provider` of `providers`, without expanding it."""
    _vector_of(payload, provider, providers, count)


def read_share(payload: bytes, provider: int, providers: int, count: int) -> list[int]:
    """The share in an opened payload for R_`provider`, 1..K1; its form is checked."""
    vector = _vector_of(payload, provider, providers, count)
    return expand_elements(payload[1:], count) if vector is None else vector


def _vector_of(payload: bytes, provider: int, providers: int, count: int) -> list[int] | None:
    """The checked elements of a vector; None for a seed."""
    if not 1 <= provider <= providers:
        raise ParameterError("provider", f"from 1 to {providers}", provider)
    kind, body = payload[:1], payload[1:]
    if provider < providers:
        if kind != SEED or len(body) != SEED_BYTES:
            raise VerificationError(f"a share for R{provider} must be a {SEED_BYTES}-byte seed")
        return None
    if kind != VECTOR or len(body) != ELEMENT_BYTES * count:
        raise VerificationError(f"a share for R{provider} must be a vector of {count} elements")
    return unpack(body)
