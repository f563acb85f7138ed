"""The moments suite a second time, as docs/theory/moments-vdaf.md#parameters has it; it imports nothing of the product.

Plain and slow: whole numbers and lists. AES is from `cryptography`, which the standard library lacks. `Instance` takes the
parameters as JSON has them (the `layout` of tests/vectors/moments-reports.json); its methods have the document's names.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

P = (1 << 61) - 1
Elements = list[int]


class Rejected(Exception):
    """A payload, a delivery or a report that does not have the right form."""


# Section 2: the field and the expansion of seeds


def stream(seed: bytes, label: bytes) -> Iterator[int]:
    """64-bit words of AES-256-CTR under HKDF-SHA256 of the seed; the counter starts at 0."""
    extracted = hmac.digest(bytes(32), seed, "sha256")
    key = hmac.digest(extracted, b"trimask/v1/" + label + b"\x01", "sha256")
    aes = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    while True:
        yield int.from_bytes(aes.update(bytes(8)), "little")


def elements_of(words: Iterator[int]) -> Iterator[int]:
    """The low 61 bits of each word; P itself is passed over."""
    return (word & P for word in words if word & P != P)


def take(source: Iterator[int], count: int) -> Elements:
    return [next(source) for _ in range(count)]


def encode_vector(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def decode_vector(data: bytes, count: int) -> Elements:
    if len(data) != 8 * count:
        raise Rejected(f"{count} elements have {8 * count} bytes")
    values = list(struct.unpack(f"<{count}Q", data))
    if any(value >= P for value in values):
        raise Rejected("an element is not below P")
    return values


def lagrange(degree: int, x: int) -> Elements:
    """L_0(x)..L_d(x) over the nodes 0..d."""
    found = []
    for k in range(degree + 1):
        above = below = 1
        for i in range(degree + 1):
            if i != k:
                above = above * (x - i) % P
                below = below * (k - i) % P
        found.append(above * pow(below, -1, P) % P)
    return found


def bits_for(number: int, weights: Sequence[int]) -> list[int]:
    """Of the weights 1, 2, 4, ... and a last one; that is used only where the others are not enough."""
    powers = len(weights) - 1
    last = int(number >= 1 << powers)
    rest = number - last * weights[-1]
    return [*(rest >> i & 1 for i in range(powers)), last]


class Instance:
    """One study's parameters: columns, choices, comparisons, ball, root."""

    def __init__(self, layout: Mapping[str, Any]) -> None:
        self.m: int = layout["bits"]
        self.columns: list[dict[str, Any]] = layout["columns"]
        self.root: dict[str, Any] | None = layout["root"]
        self.choices: list[list[int]] = layout["choices"]
        self.comparisons: list[dict[str, Any]] = layout["comparisons"]
        ball = layout["ball"]
        self.ball: dict[str, Any] | None = None
        if ball is not None:
            self.ball = {
                "coefficients": [int(value) for value in ball["coefficients"]],
                "capacity": int(ball["capacity"]),
                "first_bit": ball["first_bit"],
                "weights": [int(value) for value in ball["weights"]],
            }
        self.q = len(self.columns)
        self.size = self.q if self.root is None else 2 * self.q + 1
        self.products = self.size * (self.size + 1) // 2
        self.length = 2 * self.m + self.products + self.size + 4
        self.rho = self.m + self.products
        self.f_zero = self.rho + self.size + 2

    # Section 3: parameters

    def place(self, j: int, k: int) -> int:
        """Where the product of columns j and k is."""
        low, high = min(j, k), max(j, k)
        return self.m + sum(self.size - i for i in range(low)) + high - low

    def linear_forms(self) -> list[tuple[dict[int, int], int]]:
        """Each proved column as coefficients over the elements, and its constant."""
        found = []
        for column in self.columns:
            if column["factors"] is not None:
                found.append(({self.place(*column["factors"]): 1}, 0))
                continue
            each = 2 if column["kind"] in ("bounded", "log") else 1
            first = column["first_bit"]
            bits = {first + i: each * weight for i, weight in enumerate(column["weights"])}
            found.append((bits, -column["offset"]))
        if self.root is not None:
            first = self.root["first_bit"]
            held = {first + i: weight for i, weight in enumerate(self.root["weights"])}
            found.append((held, -self.root["offset"]))
            found += [({self.place(j, self.q): 1}, 0) for j in range(self.q)]
        return found

    def checks(self) -> list[tuple[dict[int, int], int]]:
        """The linear checks: coefficients and what they must add up to."""
        found = [(dict.fromkeys(bits, 1), 1) for bits in self.choices]
        for one in self.comparisons:
            number = next(column for column in self.columns if column["name"] == one["number"])
            for sign, ends, start in ((1, one["first"], one["above"]), (-1, one["last"], one["below"])):
                terms = {number["first_bit"] + i: sign * w for i, w in enumerate(number["weights"])}
                terms |= {bit: -sign * end for bit, end in zip(one["bits"], ends, strict=True) if end}
                terms |= {start + i: -w for i, w in enumerate(one["weights"])}
                found.append((terms, 0))
        if self.ball is not None:
            terms = {self.place(j, j): c for j, c in enumerate(self.ball["coefficients"])}
            terms |= {self.ball["first_bit"] + i: w for i, w in enumerate(self.ball["weights"])}
            found.append((terms, self.ball["capacity"]))
        return found

    # Section 4: sharding

    def encode(self, z: Sequence[int], root: int = 1) -> list[int]:
        """The bits of a measurement: of each column's number, of each interval's remainders, of what is left of the ball."""
        bits = [0] * self.m

        def put(first: int, number: int, weights: Sequence[int]) -> None:
            if weights:
                bits[first : first + len(weights)] = bits_for(number, weights)

        by_name = {column["name"]: place for place, column in enumerate(self.columns)}
        for column, value in zip(self.columns, z, strict=True):
            if column["kind"] in ("bounded", "log"):
                put(column["first_bit"], (value + column["offset"]) // 2, column["weights"])
            elif column["factors"] is None:
                bits[column["first_bit"]] = value
        for reference, *others in self.choices:
            bits[reference] = 1 - sum(bits[other] for other in others)
        for one in self.comparisons:
            place = by_name[one["number"]]
            number = (z[place] + self.columns[place]["offset"]) // 2
            chosen = next(k for k, bit in enumerate(one["bits"]) if bits[bit])
            put(one["above"], number - one["first"][chosen], one["weights"])
            put(one["below"], one["last"][chosen] - number, one["weights"])
        # The root of a table of weights is held by the bits of its choice; that of an answered weight has its own.
        if self.root is not None and all(self.root["first_bit"] not in bits_ for bits_ in self.choices):
            put(self.root["first_bit"], root + self.root["offset"], self.root["weights"])
        if self.ball is not None:
            squares = zip(self.ball["coefficients"], z, strict=True)
            left = self.ball["capacity"] - sum(c * value * value for c, value in squares)
            put(self.ball["first_bit"], left, self.ball["weights"])
        return bits

    def prove(self, bits: Sequence[int], z: Sequence[int], root: int, rho: int, f_zero: int) -> Elements:
        """The report: bits, products, proof."""
        proved = list(z) if self.root is None else [*z, root, *(root * value for value in z)]
        report = list(bits)
        report += [proved[j] * proved[k] for j in range(self.size) for k in range(j, self.size)]
        report += [rho, *(rho * value for value in proved), rho * rho, f_zero]
        values = [f_zero, *bits]
        bases = [lagrange(self.m, x) for x in range(self.m + 1, 2 * self.m + 1)]
        f = [f_zero, *(sum(L * value for L, value in zip(basis, values, strict=True)) for basis in bases)]
        report += [value * value - value for value in f]
        return [value % P for value in report]

    def shard(self, report: Sequence[int], seeds: Sequence[bytes]) -> list[bytes]:
        """A payload for each aggregator: a seed, and for the last one what is left."""
        rest = list(report)
        for seed in seeds:
            share = take(elements_of(stream(seed, b"moments share")), self.length)
            rest = [(a - b) % P for a, b in zip(rest, share, strict=True)]
        return [*(b"\x01" + seed for seed in seeds), b"\x02" + encode_vector(rest)]

    def read_share(self, payload: bytes, k: int, aggregators: int) -> Elements:
        """The share in a payload for aggregator k of 1..K."""
        kind, body = payload[:1], payload[1:]
        if k == aggregators:
            if kind != b"\x02":
                raise Rejected("the last aggregator gets a vector")
            return decode_vector(body, self.length)
        if kind != b"\x01" or len(body) != 32:
            raise Rejected("all but the last aggregator get a seed")
        return take(elements_of(stream(body, b"moments share")), self.length)

    # Section 5: verification

    def challenge(self, key: bytes, study: bytes, bucket: int) -> tuple[Elements, int, int, Elements]:
        """u, u_rho, r, g."""
        label = b"moments challenge" + struct.pack("<H", len(study)) + study + bytes([bucket])
        source = elements_of(stream(key, label))
        u = take(source, self.size)
        u_rho = next(value for value in source if value >= 1)
        r = next(value for value in source if value >= 2 * self.m + 1)
        return u, u_rho, r, take(source, len(self.checks()))

    def verifier(
        self, challenge: tuple[Elements, int, int, Elements], share: Elements, first: bool
    ) -> Elements:
        """An aggregator's share of s, Q, phi, eta, lambda; the first one adds the constants."""
        u, u_rho, r, g = challenge
        s, linear = u_rho * share[self.rho], 0
        for weight, (terms, constant) in zip(u, self.linear_forms(), strict=True):
            s += weight * (sum(c * share[i] for i, c in terms.items()) + (constant if first else 0))
        wide = [*u, u_rho]
        quadratic = 0
        for j in range(self.size + 1):
            for k in range(j, self.size + 1):
                at = self.place(j, k) if k < self.size else self.rho + 1 + j
                quadratic += (1 if j == k else 2) * wide[j] * wide[k] * share[at]
        f = [share[self.f_zero], *share[: self.m]]
        phi = sum(L * value for L, value in zip(lagrange(self.m, r), f, strict=True))
        h = [share[self.f_zero + 1], *[0] * self.m, *share[self.f_zero + 2 :]]
        eta = sum(L * value for L, value in zip(lagrange(2 * self.m, r), h, strict=True))
        for weight, (terms, total) in zip(g, self.checks(), strict=True):
            linear += weight * (sum(c * share[i] for i, c in terms.items()) - (total if first else 0))
        return [value % P for value in (s, quadratic, phi, eta, linear)]

    # Sections 6 and 7: aggregation and unsharding

    def aggregate(self, shares: Sequence[Elements], first: bool) -> Elements:
        """An aggregator's share of the totals of accepted reports: x_0's row, then the products."""
        summed = [sum(values) % P for values in zip(*shares, strict=True)] if shares else [0] * self.length
        if self.root is not None:
            chosen = range(self.q, self.size)
            return [summed[self.place(j, k)] for j in chosen for k in chosen if k >= j]
        reports = len(shares) if first else 0
        row = [
            (sum(c * summed[i] for i, c in terms.items()) + reports * constant) % P
            for terms, constant in self.linear_forms()
        ]
        return row + summed[self.m : self.rho]

    def noise(self, sigma: float, honest: int) -> list[tuple[int, int]]:
        """For each total the whole deviation of an aggregator's noise, and by how many bits the total is shifted."""
        widths = [column["width"] for column in self.columns]
        pairs = [(1, width, False) for width in widths]
        if self.root is not None:
            scale = self.root["width"]
            widths = [scale, *(scale * width for width in widths)]
            pairs = []
        pairs += [(a, b, j == k) for j, a in enumerate(widths) for k, b in enumerate(widths[j:], j)]
        found = []
        for a, b, diagonal in pairs:
            asked = sigma * a * b / math.sqrt(honest * (1 if diagonal else 2)) * (1 + 2.0**-48)
            shift = max(0, math.ceil(math.log2(256 / asked)))
            found.append((max(4, math.ceil(math.ldexp(asked, shift))), shift))
        return found


def contribution_hash(contribution: bytes) -> bytes:
    return hashlib.sha256(b"trimask/v1/moments contribution" + contribution).digest()


def challenge_key(study: bytes, contributions: Sequence[bytes]) -> bytes:
    head = b"trimask/v1/moments challenge key" + struct.pack("<H", len(study)) + study
    return hashlib.sha256(head + bytes([len(contributions)]) + b"".join(contributions)).digest()


def decide(verifiers: Sequence[Elements]) -> str | None:
    """None if a report is valid, else why not, from all aggregators' shares of the five numbers."""
    s, quadratic, phi, eta, linear = (sum(values) % P for values in zip(*verifiers, strict=True))
    if (quadratic - s * s) % P:
        return "bad_products"
    if (eta - phi * phi + phi) % P:
        return "bad_bits"
    return "bad_linear" if linear else None


def deliver(totals: Sequence[int], noise: Sequence[int], shifts: Sequence[int]) -> Elements:
    """An aggregator's totals, shifted, with its noise."""
    return [((t << shift) + extra) % P for t, extra, shift in zip(totals, noise, shifts, strict=True)]


def unshard(deliveries: Sequence[Elements]) -> list[int]:
    """The published totals, as signed numbers."""
    sums = [sum(values) % P for values in zip(*deliveries, strict=True)]
    return [value - P if value > P // 2 else value for value in sums]
