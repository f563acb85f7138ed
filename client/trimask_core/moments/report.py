"""A device's report: bits, products and the proof that they belong together, in additive shares.

docs/theory/verified-moments.md#report; the order of the elements is in `layout`. rho and f(0) are fresh and uniform for
every report: the two numbers the check opens, s and phi, are uniform because of them and nothing else. A report must
therefore never be checked under two challenges, nor rho or f(0) be used twice.

R_1..R_(K1-1) get a 32-byte seed each, R_K1 the vector that makes up the difference: any K1 - 1 shares are uniform and
independent of the report. A payload, as it is sealed, is one byte for its kind and the seed or the vector, 8 bytes an
element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import SEED_BYTES, RandomSource
from trimask_core.crypto.keys import SEED, VECTOR, PayloadForm
from trimask_core.moments.field import ELEMENT_BYTES, P, draw, expand_elements, extend, pack, unpack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.definition import Study


def build_report(layout: MomentsLayout, answers: Mapping[str, object], source: RandomSource) -> list[int]:
    """The elements of a report of these answers; rho is drawn from `source` first, then f(0)."""
    encoded = layout.encode(answers)
    return _elements(encoded.bits, encoded.proved, draw(source), draw(source))


def _elements(bits: Sequence[int], z: Sequence[int], rho: int, f_zero: int, p: int = P) -> list[int]:
    """The proof over any bits and z, in the field of p elements."""
    products = [z[j] * value % p for j in range(len(z)) for value in z[j:]]
    hidden = [rho * value % p for value in z]
    further = extend([f_zero, *bits], p)  # f at m+1..2m
    h = [(value * value - value) % p for value in (f_zero, *further)]
    return [*(bit % p for bit in bits), *products, rho, *hidden, rho * rho % p, f_zero, *h]


def split(elements: Sequence[int], providers: int, source: RandomSource) -> tuple[tuple[bytes, ...], bytes]:
    """Fresh seeds for the first right providers, and for the last the bytes of its vector."""
    if providers < 2:
        raise ParameterError("providers", "at least 2: one alone would hold the answers", providers)
    seeds = tuple(source.seed() for _ in range(providers - 1))
    shares = [expand_elements(seed, len(elements)) for seed in seeds]
    vector = [(element - sum(parts)) % P for element, *parts in zip(elements, *shares, strict=True)]
    return seeds, pack(vector)


def share_payloads(seeds: Sequence[bytes], vector: bytes) -> tuple[bytes, ...]:
    """What is sealed to R_1..R_K1, in order."""
    return (*(SEED + seed for seed in seeds), VECTOR + vector)


def check_share_form(payload: bytes, provider: int, providers: int, count: int) -> None:
    """Refuse a payload that is not a share of `count` elements for R_`provider` of `providers`, without expanding it."""
    body = _body_of(payload, provider, providers, count)
    if provider == providers:
        import numpy as np  # only nodes and gateways need it, devices do not

        if (np.frombuffer(body, dtype="<u8") >= P).any():
            raise VerificationError("a field element must be below P = 2^61 - 1")


def read_share(payload: bytes, provider: int, providers: int, count: int) -> list[int]:
    """The share in an opened payload for R_`provider`, 1..K1; its form is checked."""
    body = _body_of(payload, provider, providers, count)
    return unpack(body) if provider == providers else expand_elements(body, count)


def _body_of(payload: bytes, provider: int, providers: int, count: int) -> bytes:
    """The seed, or the bytes of a vector: what stands behind the kind, of the right size."""
    if not 1 <= provider <= providers:
        raise ParameterError("provider", f"from 1 to {providers}", provider)
    kind, body = payload[:1], payload[1:]
    if provider < providers:
        if kind != SEED or len(body) != SEED_BYTES:
            raise VerificationError(f"a share for R{provider} must be a {SEED_BYTES}-byte seed")
        return body
    if kind != VECTOR or len(body) != ELEMENT_BYTES * count:
        raise VerificationError(f"a share for R{provider} must be a vector of {count} elements")
    return body


def payloads(study: Study, answers: Mapping[str, object], source: RandomSource) -> list[bytes]:
    """One payload a right provider, from what a person answered: the report's bits, products and proof, in shares."""
    report = build_report(study.moments.layout, answers, source)
    return list(share_payloads(*split(report, len(study.right), source)))


def form_of(study: Study, provider: int) -> PayloadForm:
    """The form of payloads for right provider `provider` (1..K1)."""
    return PayloadForm("moments", provider, len(study.right), study.moments.layout.elements)


def check_payload(form: PayloadForm, payload: bytes) -> None:
    """Refuse an opened payload of another form, without expanding it."""
    check_share_form(payload, form.provider, form.providers, form.values)
