"""The same people in a study of the moments suite: who is in a release can be told from its totals.

z of x is twice a power of four, so the product of a box and x, summed, has the people of the box as base-4 digits. The
first box is the reference and has no column: its people are what the others leave of the sum of x.
"""

from __future__ import annotations

import contextlib
import functools
import math
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from unittest import mock

from trimask_core.basics.randomness import DeterministicRandom, RandomSource
from trimask_core.crypto.keys import SealingKey, SigningKey
from trimask_core.moments import report as report_module
from trimask_core.moments.field import P
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import MomentsSecret, build_report
from trimask_core.moments.study import MomentsSettings
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Protection
from trimask_core.study.party import Party
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import SignedStudy, approve
from trimask_simulation.people import DIGITS, GROUPS, Keys, answers_of, party_card, person_of

__all__ = [
    "MOMENTS_SCHEMA",
    "RELEASE_REPORTS",
    "exact_totals",
    "false_devices",
    "honest",
    "make_moments_study",
    "moments_study",
    "people_in",
]

MOMENTS_SCHEMA = Schema(
    (
        Attribute("group", "categorical", levels=tuple(f"g{g}" for g in range(GROUPS))),
        Attribute("x", "continuous", -1, 1, step=1 / 4 ** (DIGITS - 1)),
    )
)
RELEASE_REPORTS = 12


def moments_study(
    collector: Party,
    right: Sequence[Party],
    tls_roots: str,
    created_ms: int,
    owner_key: bytes,
    *,
    several: bool = True,
) -> Study:
    """An exact study of these parties, with `several` releases or one."""
    layout = MomentsLayout.of(MOMENTS_SCHEMA)
    norm = math.nextafter(math.sqrt(layout.radius_squared), math.inf)
    return Study(
        title="Told apart", purpose="every report can be told", contact="nobody", created_ms=created_ms,
        schema=MOMENTS_SCHEMA, protection=Protection(norm, 0.0, "exact"), suite=MomentsSettings(several_releases=several),
        release_rows=RELEASE_REPORTS, collector=collector, right=tuple(party.sealing_as("classical") for party in right),
        left=(), tls_roots=tls_roots, owner_key=owner_key.hex(),
    )  # fmt: skip


@functools.cache
def make_moments_study(right: int, *, several: bool = True) -> tuple[SignedStudy, dict[str, Keys]]:
    """The study with so many right providers, approved by everybody, and the keys."""
    source = DeterministicRandom(f"simulated moments study {right}")
    rights = [f"R{k}" for k in range(1, right + 1)]
    keys = {
        role: Keys(SigningKey.generate(source), SealingKey.generate(source), MomentsSecret(source.seed()))
        for role in rights
    } | {role: Keys(SigningKey.generate(source), None) for role in ("collector", "owner")}
    study = moments_study(
        party_card("collector", keys["collector"]),
        [party_card(role, keys[role]) for role in rights],
        "",
        1,
        keys["owner"].identity.public,
        several=several,
    )
    signed = SignedStudy(study)
    for role in study.parties:
        secret = keys[role].moments
        commitment = b"" if secret is None else secret.commitment(study.id)
        signed = signed.with_approval(approve(study, keys[role].identity, 2, commitment))
    return signed, keys


@functools.cache
def _row(person: int) -> tuple[int, ...]:
    return MomentsLayout.of(MOMENTS_SCHEMA).encode(answers_of(person)).z


def exact_totals(people: Iterable[int]) -> tuple[list[int], list[int]]:
    """Sums of z, and of products of z, of these people's encoded rows."""
    rows = [_row(person) for person in people]
    q = MomentsLayout.of(MOMENTS_SCHEMA).q
    first = [sum(row[j] for row in rows) for j in range(q)]
    products = [sum(row[j] * row[k] for row in rows) for j in range(q) for k in range(j, q)]
    return first, products


def people_in(first: Sequence[int], products: Sequence[int]) -> list[int]:
    """How often each person is in these totals; `AssertionError` if they are of no such rows."""
    layout = MomentsLayout.of(MOMENTS_SCHEMA)
    names = [column.name for column in layout.columns]
    x, start = names.index("x"), layout.products.start
    boxes = {name: products[layout.product(j, x) - start] for j, name in enumerate(names) if j != x}
    sums = [
        first[x] - sum(boxes.values()),
        *(boxes[f"group_g{group}"] for group in range(1, GROUPS)),
    ]
    found: list[int] = []
    for total in sums:
        number, odd = divmod(total, 2)
        assert not odd, "the totals are not of these people"
        for _ in range(DIGITS):
            number, digit = divmod(number, 4)
            found.append(digit)
        assert number == 0, "more rows than there are people, or a false one"
    return found


def honest(people: Mapping[bytes, int], ids: Iterable[bytes], false: Collection[int]) -> list[int]:
    """The people of these reports who did not send a false one."""
    return [people[submission_id] for submission_id in ids if people[submission_id] not in false]


@contextlib.contextmanager
def false_devices(false: Collection[int], chance: random.Random) -> Iterator[None]:
    """Devices of these people send an honest report with one element altered."""

    def report(layout: MomentsLayout, answers: Mapping[str, object], source: RandomSource) -> list[int]:
        elements = build_report(layout, answers, source)
        if person_of(answers) in false:
            place = chance.randrange(len(elements))
            elements[place] = (elements[place] + chance.randrange(1, P)) % P
        return elements

    with mock.patch.object(report_module, "build_report", report):
        yield
