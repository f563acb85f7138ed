"""Many shares at a time, held to the plain-Python core."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from moments_cases import random_effects, random_layout, random_schema
from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.moments import field
from trimask_core.moments.arrays import (
    bases_at,
    column_sums,
    expand_seeds,
    inverses,
    limbs,
    product,
    read_vectors,
    sums_of_products,
)
from trimask_core.moments.field import P, expand_elements
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import (
    bucket_of,
    build_report,
    challenge_key,
    derive_challenge,
    forms,
    share_payloads,
    split,
    supports,
)
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.weight import Weight
from trimask_server.suites.moments.batch_check import (
    BatchChecker,
    HeldForms,
    forms_of,
    pack_values,
    read_shares,
    sum_accepted,
    unpack_values,
    verdicts,
)

STUDY = b"s" * 32
SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80),
        Attribute("bmi", "continuous", 15.0, 45.0),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    )
)
WEIGHTS = (Weight("age", (), 100), Weight("region", (1.0, 2.5, 4.0), 100))
PEOPLE = [
    {"age": 20 + i, "bmi": 20.5 + i / 8, "smoker": i % 2, "region": ("north", "south", "west")[i % 3]}
    for i in range(24)
]


def random_elements(shape: tuple[int, int], seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, P, size=shape, dtype=np.uint64)
    values[0, :1] = P - 1
    return values


@pytest.mark.parametrize("terms", [1, 7, 640, 2048, 5000])
def test_product_is_exact(terms: int) -> None:
    values, columns = random_elements((5, terms), 1), random_elements((terms, 3), 2)
    values[1], columns[:, 1] = P - 1, P - 1  # the largest sums there are
    expected = [
        [sum(int(a) * int(b) for a, b in zip(row, column, strict=True)) % P for column in columns.T]
        for row in values
    ]
    assert product(values, limbs(columns)).tolist() == expected


@pytest.mark.parametrize("terms", [1, 2048, 5000])
def test_sums_of_products_are_exact(terms: int) -> None:
    one, other = random_elements((4, terms + 3), 1), random_elements((4, terms + 3), 2)
    one[1] = other[1] = P - 1  # the largest sums there are
    found = sums_of_products(one, other, [slice(0, 3), slice(3, terms + 3), slice(1, 1)])
    for row, left, right in zip(found.tolist(), one.tolist(), other.tolist(), strict=True):
        each = [a * b for a, b in zip(left, right, strict=True)]
        assert row == [sum(each[:3]) % P, sum(each[3:]) % P, 0]


def test_forms_are_held_up_to_a_number_of_bytes() -> None:
    held, forms_of = (
        HeldForms(3000),
        [np.full(125, bucket, dtype=np.uint64) for bucket in range(5)],
    )  # 1,000 bytes each
    for bucket in (0, 1, 2):
        held.put((STUDY, b"", bucket), forms_of[bucket])
    held.get((STUDY, b"", 0))
    held.put((STUDY, b"", 3), forms_of[3])
    held.put((STUDY, b"", 3), forms_of[3].copy())  # another thread made them, too
    there = [bucket for bucket in range(5) if held.get((STUDY, b"", bucket)) is not None]
    assert (there, held.bytes) == ([0, 2, 3], 3000)
    held.put((STUDY, b"", 4), np.zeros(1000, dtype=np.uint64))  # more than there is room for
    assert held.get((STUDY, b"", 4)) is not None
    assert held.bytes == 8000


def test_sums_are_exact() -> None:
    values = random_elements((300, 4), 3)
    values[:, 3] = P - 1
    assert column_sums(values) == [sum(map(int, column)) % P for column in values.T]


def test_seeds_expand_as_in_the_core() -> None:
    seeds = [bytes([i]) * 32 for i in range(4)]
    assert expand_seeds(seeds, 33).tolist() == [expand_elements(seed, 33) for seed in seeds]


@pytest.mark.parametrize("body", [b"\xff" * 8, P.to_bytes(8, "little"), b"\0" * 7, b"\0" * 16])
def test_vectors_that_are_no_elements(body: bytes) -> None:
    with pytest.raises(VerificationError):
        read_vectors([body], 1)


@pytest.mark.parametrize("providers", [2, 3])
def test_a_batch_is_checked_as_the_core_checks_reports(providers: int) -> None:
    layout = MomentsLayout.of(SCHEMA)
    source = DeterministicRandom(f"checking {providers}")
    key = challenge_key(STUDY, [bytes([k]) * 32 for k in range(providers)])
    ids = [source.read(16) for _ in PEOPLE]
    reports = [build_report(layout, person, source) for person in PEOPLE]
    bad = {3: layout.products.start, 5: 0, 8: layout.rho_squared}
    for place, element in bad.items():
        reports[place][element] = (reports[place][element] + 1) % P
    parcels = [share_payloads(*split(report, providers, source)) for report in reports]
    shares = {
        k: read_shares([parcel[k - 1] for parcel in parcels], k, providers, layout)
        for k in range(1, providers + 1)
    }
    said = {k: BatchChecker(STUDY, layout, k, key).form_values(ids, rows) for k, rows in shares.items()}
    for k, rows in shares.items():
        for place, submission_id in enumerate(ids):
            challenge = derive_challenge(key, STUDY, bucket_of(submission_id), layout)
            assert said[k][place] == forms(layout, challenge).apply(rows[place].tolist(), k == 1)
        assert unpack_values(pack_values(said[k]), len(ids)) == said[k]
    found = verdicts(said)
    assert {place for place, reason in enumerate(found) if reason} == set(bad)
    accepted = [reason is None for reason in found]
    totals = [sum_accepted(rows, accepted, layout) for rows in shares.values()]
    summed = [sum(parts) % P for parts in zip(*totals, strict=True)]
    kept = [report for report, good in zip(reports, accepted, strict=True) if good]
    assert summed == [sum(column) % P for column in zip(*kept, strict=True)][: layout.products.stop]


def test_forms_of_another_number_of_reports_are_refused() -> None:
    with pytest.raises(VerificationError, match="forms of 2 reports"):
        unpack_values(bytes(40), 2)


def test_a_checker_shows_no_key() -> None:
    checker = BatchChecker(STUDY, MomentsLayout.of(SCHEMA), 1, b"k" * 32)
    assert "kkkk" not in repr(checker)


@pytest.mark.parametrize("count", [1, 2, 3, 17])
def test_inverses_and_bases_are_those_of_the_core(count: int) -> None:
    values = random_elements((count, 5), count) % (P - 1) + 1
    assert inverses(values).tolist() == [field.batch_inverse(row) for row in values.tolist()]
    points = values[:, 0] + 40
    for degree in (1, 2, 7, 20):
        low, whole = bases_at(degree, points % P)
        expected = [field.bases_at(degree, int(point)) for point in points % P]
        assert list(zip(low.tolist(), whole.tolist(), strict=True)) == expected


@pytest.mark.parametrize("kind", ["plain", "ball", "effects", "effects in a ball", "weighted"])
def test_forms_under_many_challenges_are_those_of_the_core(kind: str) -> None:
    random = Random(f"forms {kind}")
    for _ in range(4):
        schema = random_effects(random) if "effects" in kind else random_schema(random)
        if kind == "weighted":
            layout = MomentsLayout.of(SCHEMA, weight=random.choice(WEIGHTS))
        else:
            layout = random_layout(random, schema, "ball" in kind) or MomentsLayout.of(SCHEMA)
        drawn = [derive_challenge(bytes(32), STUDY, bucket, layout) for bucket in (0, 1, 128, 255)]
        expected = []
        for challenge in drawn:
            one = forms(layout, challenge)
            over = zip(one.coefficients, supports(layout), strict=True)
            expected.append([*one.constants, *(row[index] for row, part in over for index in part)])
        assert forms_of(layout, drawn).tolist() == expected
        assert forms_of(layout, drawn[:1]).tolist() == expected[:1]
