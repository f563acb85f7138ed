"""A report: made by a device and shared, and checked by each right provider on its own share.

It is bits, products and the proof that they belong together, in additive shares
(docs/theory/verified-moments.md#report); the order of the elements is in `layout`. rho and f(0) are fresh and uniform for
every report: the two numbers the check opens, s and phi, are uniform because of them and nothing else. A report must
therefore never be checked under two challenges, nor rho or f(0) be used twice.

R_1..R_(K1-1) get a 32-byte seed each, R_K1 the vector that makes up the difference: any K1 - 1 shares are uniform and
independent of the report. A payload, as it is sealed, is one byte for its kind and the seed or the vector, 8 bytes an
element.

The check is five linear forms over its elements, applied by each provider to its own share. Statement and proof:
docs/theory/verified-moments.md#check and docs/theory/verified-moments.md#sound.

    s      = sum_j u_j z_j + u_rho rho
    Q      = sum_j u_j^2 T_jj + 2 sum_(j<l) u_j u_l T_jl + 2 u_rho sum_j u_j (rho z_j) + u_rho^2 rho^2
    phi    = f(r)
    eta    = h(r); the values of h at 1..m are zero and are nobody's elements
    lambda = sum_i g_i (linear check i)

A report is accepted iff Q = s^2, eta = phi^2 - phi and lambda = 0. With u_rho != 0 and L_0(r) != 0, s and phi are uniform
whatever the answers are, and the other three follow from them. A report that is not valid passes with probability at
most 2/(P-1) if its products are wrong, 2m/(P-2m-1) if a bit is not one, 1/P if a linear check fails.

What a provider computes is a share of these values. Only the other right providers may see it, because s is linear in u.

A report is checked under one secret challenge, one for every first byte of a submission id, for ever. The key is made of
one contribution of 32 secret bytes from each right provider, and their hashes are part of what the providers approve and
devices seal to; so a study has one key, and a report one challenge. A second challenge on a report would give two
equations for one rho, and leave one possible row. A device must not know a challenge either: the check is sound in 61
bits because nobody can try forgeries against it alone.

A right provider's own secret for the suite is one file beside its other keys, outside the store and its backups.
Everything that must never be drawn a second time is derived from it and from what it is for: the contribution to a study's
challenge key, the exchange key between right providers, and the noise of a release. So a node restored from a backup
sends the same bytes again, and nothing else: docs/theory/verified-moments.md#one-challenge and
docs/theory/verified-moments.md#noise-once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from pathlib import Path

from trimask_core.basics.errors import ConfigError, ParameterError, VerificationError
from trimask_core.basics.randomness import SEED_BYTES, RandomSource, Stream, derive_key
from trimask_core.basics.refusals import Alarm
from trimask_core.crypto.keys import SEED, VECTOR, PayloadForm, Sealing, SealingKey
from trimask_core.moments.field import ELEMENT_BYTES, P, bases_at, draw, expand_elements, extend, pack, unpack
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


FILE_NAME = "moments.key"


class MomentsSecret:
    """32 bytes, and what is derived from them for one study."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SEED_BYTES:
            raise ConfigError(f"{FILE_NAME} must hold {SEED_BYTES} bytes, as 64 hexadecimal digits")
        self._secret = secret

    def __repr__(self) -> str:
        return "MomentsSecret(<secret>)"

    @classmethod
    def load(cls, keys: Path) -> MomentsSecret:
        """From a node's folder of keys."""
        path = keys / FILE_NAME
        try:
            secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            raise ConfigError(
                f"{path} is missing: a right provider needs it for studies of the moments suite; "
                "restore it with the other keys, or make new keys for a new node"
            ) from None
        except ValueError:
            secret = b""
        if len(secret) != SEED_BYTES:
            raise ConfigError(f"{path} must hold 64 hexadecimal digits")
        return cls(secret)

    def contribution(self, study_id: bytes) -> bytes:
        """This provider's part of a study's challenge key."""
        return derive_key(self._secret, b"moments contribution" + study_id)

    def commitment(self, study_id: bytes) -> bytes:
        """What its approval of the study commits to."""
        return contribution_hash(self.contribution(study_id))

    def exchange_key(self, study_id: bytes, kind: Sealing = "classical") -> SealingKey:
        """What the other right providers of a study seal to, and share secrets for blinding by; of the study's kind."""
        return SealingKey(derive_key(self._secret, b"moments exchange" + study_id), kind)

    def noise(self, study_id: bytes, what: bytes) -> Stream:
        """The noise of `what` (a hash naming it), the same at every repeat."""
        return Stream(derive_key(self._secret, b"moments noise" + study_id), b"moments noise" + what)

    def salt(self, study_id: bytes, what: bytes) -> bytes:
        """The salt of the commitment to `what`."""
        return derive_key(self._secret, b"moments salt" + study_id + what)


CONTRIBUTION_BYTES = 32
BUCKETS = 256
_CONTRIBUTION = b"trimask/v1/moments contribution"
_KEY = b"trimask/v1/moments challenge key"
_CHALLENGE = b"moments challenge"


@dataclass(frozen=True)
class Challenge:
    """u for the columns, u_rho for rho, the point r, and g for the linear checks. Secret from devices and the collector."""

    u: tuple[int, ...] = field(repr=False)
    u_rho: int = field(repr=False)
    r: int = field(repr=False)
    g: tuple[int, ...] = field(repr=False)


def contribution_hash(contribution: bytes) -> bytes:
    """What a provider signs with its approval, in the place of its contribution."""
    return hashlib.sha256(_CONTRIBUTION + _checked(contribution)).digest()


def challenge_key(study_id: bytes, contributions: Sequence[bytes]) -> bytes:
    """The study's challenge key, from the contributions of R_1..R_K1 in order."""
    if not 2 <= len(contributions) < BUCKETS:
        raise ParameterError("contributions", "one from each of 2 to 255 right providers", len(contributions))
    whole = b"".join(_checked(contribution) for contribution in contributions)
    return hashlib.sha256(_KEY + _prefixed(study_id) + bytes([len(contributions)]) + whole).digest()


def bucket_of(submission_id: bytes) -> int:
    """Which of the study's 256 challenges a submission is checked under."""
    if not submission_id:
        raise ParameterError("submission_id", "not empty")
    return submission_id[0]


def derive_challenge(key: bytes, study_id: bytes, bucket: int, layout: MomentsLayout) -> Challenge:
    """The challenge of a bucket: u_1..u_q, u_rho (not 0), r (not in 0..2m), then g, each drawn in turn from one stream."""
    if len(key) != SEED_BYTES:
        raise ParameterError("key", f"{SEED_BYTES} bytes", len(key))
    if not 0 <= bucket < BUCKETS:
        raise ParameterError("bucket", f"from 0 to {BUCKETS - 1}", bucket)
    stream = Stream(key, _CHALLENGE + _prefixed(study_id) + bytes([bucket]))
    return Challenge(
        u=tuple(draw(stream) for _ in layout.proved),
        u_rho=_at_least(1, stream),
        r=_at_least(2 * layout.bits + 1, stream),
        g=tuple(draw(stream) for _ in layout.linear_checks),
    )


def _at_least(least: int, stream: Stream) -> int:
    while (value := draw(stream)) < least:
        pass
    return value


def _checked(contribution: bytes) -> bytes:
    if len(contribution) != CONTRIBUTION_BYTES:
        raise ParameterError("contribution", f"{CONTRIBUTION_BYTES} bytes", len(contribution))
    return contribution


def _prefixed(study_id: bytes) -> bytes:
    """The id with its length before it, in two bytes, so that no two inputs of a hash run into each other."""
    return len(study_id).to_bytes(2, "little") + study_id


FORMS = ("s", "Q", "phi", "eta", "lambda")


@dataclass(frozen=True)
class Forms:
    """For each of `FORMS`, coefficients over a report's elements and a constant, which is R_1's. Secret as the challenge."""

    coefficients: tuple[tuple[int, ...], ...] = field(repr=False)
    constants: tuple[int, ...] = field(repr=False)
    prime: int = P

    def apply(self, share: Sequence[int], first: bool) -> tuple[int, ...]:
        """A provider's share of the five values; `first` is True for R_1 alone, which adds the constants."""
        if len(share) != len(self.coefficients[0]):
            raise ParameterError("share", f"{len(self.coefficients[0])} field elements", len(share))
        return tuple(
            (sum(map(mul, row, share)) + (constant if first else 0)) % self.prime
            for row, constant in zip(self.coefficients, self.constants, strict=True)
        )


def forms(layout: MomentsLayout, challenge: Challenge) -> Forms:
    """The five forms of a layout under a challenge."""
    return _forms(layout, challenge, P)


def verdict(sums: Sequence[int]) -> str | None:
    """From the five values, added up over all right providers: None if the report is valid, else the reason."""
    return _verdict(sums, P)


def _forms(layout: MomentsLayout, challenge: Challenge, p: int) -> Forms:
    u, u_rho, m = challenge.u, challenge.u_rho, layout.bits
    if len(u) != layout.size or len(challenge.g) != len(layout.linear_checks):
        raise ParameterError("challenge", "of this layout")
    if u_rho % p == 0 or not 2 * m < challenge.r < p:
        raise ParameterError(
            "challenge", "with u_rho other than 0 and r above 2m: else it would open answers"
        )
    s, quadratic, phi, eta, linear = ([0] * layout.elements for _ in FORMS)
    s_constant = linear_constant = 0
    for weight, column, terms in zip(u, layout.proved, layout.terms, strict=True):
        s_constant -= weight * column.offset
        for index, coefficient in terms:
            s[index] = (s[index] + weight * coefficient) % p
    s[layout.rho] = u_rho % p
    place = layout.products.start
    for j, weight in enumerate(u):
        quadratic[place] = weight * weight % p
        quadratic[place + 1 : place + layout.size - j] = [2 * weight * other % p for other in u[j + 1 :]]
        place += layout.size - j
    for index, weight in zip(layout.rho_products, u, strict=True):
        quadratic[index] = 2 * u_rho * weight % p
    quadratic[layout.rho_squared] = u_rho * u_rho % p
    (phi[layout.f_zero], *phi[:m]), at_r = bases_at(m, challenge.r, p)
    eta[layout.h_values.start :] = [at_r[0], *at_r[m + 1 :]]
    for weight, check in zip(challenge.g, layout.linear_checks, strict=True):
        linear_constant -= weight * check.total
        for index, coefficient in check.terms:
            linear[index] = (linear[index] + weight * coefficient) % p
    constants = (s_constant % p, 0, 0, 0, linear_constant % p)
    return Forms((tuple(s), tuple(quadratic), tuple(phi), tuple(eta), tuple(linear)), constants, p)


def supports(layout: MomentsLayout) -> tuple[tuple[int, ...], ...]:
    """For each form, the elements it is over: under every challenge the others' coefficients are zero."""
    linear = {index for check in layout.linear_checks for index, _ in check.terms}
    return (
        tuple(sorted({layout.rho, *(index for terms in layout.terms for index, _ in terms)})),
        (*layout.products, *layout.rho_products, layout.rho_squared),
        (*range(layout.bits), layout.f_zero),
        tuple(layout.h_values),
        tuple(sorted(linear)),
    )


def _verdict(sums: Sequence[int], p: int) -> str | None:
    if len(sums) != len(FORMS):
        raise ParameterError("sums", f"{len(FORMS)} values", len(sums))
    s, quadratic, phi, eta, linear = sums
    if (quadratic - s * s) % p:
        return Alarm.BAD_PRODUCTS
    if (eta - phi * phi + phi) % p:
        return Alarm.BAD_BITS
    if linear % p:
        return Alarm.BAD_LINEAR
    return None
