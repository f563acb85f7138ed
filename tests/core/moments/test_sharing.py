"""Shares add up, read back, and refuse what is not one."""

from __future__ import annotations

import pytest

from moments_cases import SMALL, SMALL_ANSWERS, SMALL_NORM, a_challenge
from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.moments.field import P, expand_elements, unpack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import (
    build_report,
    check_share_form,
    forms,
    read_share,
    share_payloads,
    split,
    verdict,
)

LAYOUT = MomentsLayout.of(SMALL, SMALL_NORM)


@pytest.mark.parametrize("providers", [2, 3, 5])
def test_shares_add_up_and_are_checked_apart(providers: int, source: DeterministicRandom) -> None:
    elements = build_report(LAYOUT, SMALL_ANSWERS, source)
    seeds, vector = split(elements, providers, source)
    assert (len(seeds), len(vector)) == (providers - 1, 8 * LAYOUT.elements)
    assert len(set(seeds)) == providers - 1
    sent = share_payloads(seeds, vector)
    shares = [read_share(payload, k, providers, LAYOUT.elements) for k, payload in enumerate(sent, 1)]
    assert [sum(values) % P for values in zip(*shares, strict=True)] == elements
    assert shares[0] == expand_elements(seeds[0], LAYOUT.elements)
    assert shares[-1] == unpack(vector)

    form = forms(LAYOUT, a_challenge(LAYOUT))
    said = [form.apply(share, first=k == 0) for k, share in enumerate(shares)]
    opened = [sum(values) % P for values in zip(*said, strict=True)]
    assert tuple(opened) == form.apply(elements, first=True)
    assert verdict(opened) is None
    assert verdict([sum(values) for values in zip(*said, strict=True)]) is None
    # Without the constants, or with them twice, an honest report would fail.
    for count in (0, 2):
        wrong = [form.apply(share, first=k < count) for k, share in enumerate(shares)]
        assert verdict([sum(values) for values in zip(*wrong, strict=True)]) == "bad_products"


def test_totals_are_added_in_shares(source: DeterministicRandom) -> None:
    shares = []
    for hours in (1, 2.5, 6):
        elements = build_report(LAYOUT, {**SMALL_ANSWERS, "hours": hours}, source)
        sent = share_payloads(*split(elements, 2, source))
        shares.append([read_share(payload, k, 2, LAYOUT.elements) for k, payload in enumerate(sent, 1)])
    kept = [[sum(values) % P for values in zip(*own, strict=True)] for own in zip(*shares, strict=True)]
    parts = [LAYOUT.totals_of(total, reports=3 if k == 0 else 0) for k, total in enumerate(kept)]
    rows = [LAYOUT.encode({**SMALL_ANSWERS, "hours": hours}).z for hours in (1, 2.5, 6)]
    first = [sum(values) % P for values in zip(*(part[0] for part in parts), strict=True)]
    products = [sum(values) % P for values in zip(*(part[1] for part in parts), strict=True)]
    assert first == [sum(values) % P for values in zip(*rows, strict=True)]
    q = LAYOUT.q
    assert products == [sum(z[j] * z[k] for z in rows) % P for j in range(q) for k in range(j, q)]


def test_a_vector_alone_is_uniform(source: DeterministicRandom) -> None:
    """The share of a bit over 4,000 splits, by its upper four bits: 16 cells, chi-squared below 80 (chance 2e-10)."""
    cells = [0] * 16
    for _ in range(4000):
        _, vector = split([1], 2, source)
        cells[unpack(vector)[0] >> 57] += 1
    assert sum((count - 250) ** 2 / 250 for count in cells) < 80


@pytest.mark.parametrize("providers", [-1, 0, 1])
def test_one_provider_would_hold_the_answers(providers: int, source: DeterministicRandom) -> None:
    with pytest.raises(ParameterError, match="providers must be at least 2"):
        split([1, 2], providers, source)


SEED, VECTOR = b"\x01" + bytes(32), b"\x02" + bytes(24)


@pytest.mark.parametrize(
    ("payload", "provider"),
    [
        (b"", 1), (b"\x01", 1), (SEED[:-1], 1), (SEED + b"\0", 1), (VECTOR, 1), (b"\x02" + bytes(32), 1),
        (b"\x00" + bytes(32), 1), (b"", 2), (b"\x02", 2), (VECTOR[:-1], 2), (VECTOR[:-8], 2),
        (VECTOR + bytes(8), 2), (SEED, 2), (b"\x01" + bytes(24), 2), (b"\x03" + bytes(24), 2),
        (b"\x02" + bytes(16) + P.to_bytes(8, "little"), 2), (b"\x02" + bytes(16) + b"\xff" * 8, 2),
    ],
)  # fmt: skip
def test_payloads_that_are_no_share(payload: bytes, provider: int) -> None:
    for refuse in (check_share_form, read_share):
        with pytest.raises(VerificationError):
            refuse(payload, provider, 2, 3)


def test_payloads_that_are_shares() -> None:
    check_share_form(SEED, 1, 2, 3)
    check_share_form(VECTOR, 2, 2, 3)
    assert read_share(VECTOR, 2, 2, 3) == [0, 0, 0]
    largest = b"\x02" + (P - 1).to_bytes(8, "little") * 3
    assert read_share(largest, 2, 2, 3) == [P - 1] * 3


@pytest.mark.parametrize("provider", [0, 3, -1])
def test_a_provider_there_is_not(provider: int) -> None:
    with pytest.raises(ParameterError, match="provider must be from 1 to 2"):
        read_share(SEED, provider, 2, 3)
