"""Devices that send what the study does not allow: refused one by one, and the release is exact for the others."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

from moments_cases import forged
from trimask import fit
from trimask_client import Client
from trimask_core.basics.errors import TrimaskError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SEED, VECTOR
from trimask_core.moments.field import P
from trimask_core.moments.field import signed as signed_value
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import MomentsSecret, build_report, share_payloads, split
from trimask_core.moments.totals import asked_hash, release_noise
from trimask_core.study.definition import Study
from trimask_core.study.weight import Weight
from trimask_core.submit.submission import Receipt, SealedSubmission, seal_payloads, seal_under
from trimask_lab import Lab
from trimask_moments import exact_totals, moments_people, open_moments
from trimask_server.suites.moments.batch_store import add_noise

MakeLab = Callable[[int], Lab]
BALL = 2.2


def shared(study: Study, elements: Sequence[int]) -> SealedSubmission:
    """A report of these elements, in shares that are well formed."""
    source = SystemRandom()
    return seal_payloads(study, share_payloads(*split(elements, len(study.right), source)), source)


def _column(layout: MomentsLayout, name: str) -> Any:
    (column,) = (column for column in layout.columns if column.name == name)
    return column


def forgeries(study: Study) -> Iterator[tuple[str, str, list[int]]]:
    """(what, the reason it is refused for, elements): the best proofs there are for rows that are not allowed."""
    layout = study.moments.layout
    person = moments_people(1)[0]
    honest = build_report(layout, person, SystemRandom())
    encoded = layout.encode(person)
    bits, z = list(encoded.bits), list(encoded.z)
    age = _column(layout, "age")

    yield "age of 1,000 with consistent products", "bad_bits", forged(layout, _with(bits, age.first_bit, 937))
    yield "a bit of 2", "bad_bits", forged(layout, _with(bits, _column(layout, "smoker").first_bit, 2))
    yield "half a bit", "bad_bits", forged(layout, _with(bits, age.first_bit, pow(2, -1, P)))
    yield "minus one", "bad_bits", forged(layout, _with(bits, age.first_bit, P - 1))
    for name in ("age", "age2"):
        column = layout.columns.index(_column(layout, name))
        for other in (column, 0):
            at = layout.product(column, other)
            yield f"T of {name} larger by one", "bad_products", _with(honest, at, honest[at] + 1)
    wrong = list(z)
    wrong[layout.columns.index(_column(layout, "age2"))] += 2
    yield "age2 that is not age squared", "bad_products", forged(layout, bits, wrong)
    two = list(bits)
    for bit in layout.choices[0]:
        two[bit] = 1
    yield "every region at once", "bad_linear", forged(layout, two)
    none = list(bits)
    for bit in layout.choices[0]:
        none[bit] = 0
    yield "no region at all", "bad_linear", forged(layout, none)
    if layout.ball is not None:
        box = MomentsLayout.of(study.schema)
        far = {"age": 80, "bmi": 45.0, "smoker": 1, "region": "west"}
        row = [*box.encode(far).bits, 0]
        yield "outside the ball", "bad_linear", forged(layout, row + [0] * (layout.bits - len(row)))
        yield (
            "outside, with other bits left",
            "bad_linear",
            forged(layout, row + [1] * (layout.bits - len(row))),
        )
    for at in (layout.rho, layout.rho_products[0], layout.rho_squared):
        yield f"element {at} of the proof", "bad_products", _with(honest, at, honest[at] + 1)
    for at in (layout.f_zero, layout.h_values[0], layout.h_values[-1]):
        yield f"element {at} of the proof", "bad_bits", _with(honest, at, honest[at] + 1)
    yield "nothing but zeros", "bad_products", [0] * layout.elements


def _with(elements: Sequence[int], at: int, value: int) -> list[int]:
    return [*elements[:at], value % P, *elements[at + 1 :]]


def published(lab: Lab, study: Study) -> dict[str, Any]:
    """The only release."""
    folder = lab.folder / "collector" / "data" / "datasets"
    (path,) = folder.glob(f"{study.id.hex()[:12]}-*/moments.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize(("right", "ball"), [(2, None), (3, BALL)])
def test_rows_that_are_not_allowed_are_refused_one_by_one(
    make_lab: MakeLab, right: int, ball: float | None
) -> None:
    """What is not allowed does not pass, is erased and counted by its reason, and stops nobody else
    (docs/theory/verified-moments.md#sound). Every forgery once, among honest people. One passes with probability
    below 2m/P: 1e-15 each.
    """
    lab = make_lab(right)
    signed = open_moments(lab, release_rows=20, ball_norm=ball)
    study, people = signed.study, moments_people(20)
    expected: dict[str, int] = {}
    before = {role: lab.refusals(role) for role in ("R1", "R2")}
    true: list[Receipt] = []
    false: list[Receipt] = []
    with Client(signed) as client:
        honest = iter(people)
        for _, reason, elements in forgeries(study):
            false.append(client.send(shared(study, elements)))
            expected[reason] = expected.get(reason, 0) + 1
            true += [client.submit(person) for person in islice(honest, 1)]
        true += [client.submit(person) for person in honest]
    lab.close(study)
    release = published(lab, study)
    assert release["accepted"] == len(people)
    assert (release["first"], release["products"]) == exact_totals(study, people)
    for role, counted in before.items():
        now = lab.refusals(role) - counted
        assert {reason: now[reason] for reason in expected} == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of clipped rows, where the study has a ball
        (dataset,) = lab.datasets(study)
    assert {dataset.standing(receipt) for receipt in true} == {"counted"}
    assert {dataset.standing(receipt) for receipt in false} == {"refused"}


def test_nobody_counts_otherwise_than_the_study_says(make_lab: MakeLab) -> None:
    """A weighted study (docs/theory/verified-moments.md#weights): whoever takes a larger root than that of their level, or
    one for some columns alone, is refused; the release is the weighted sum of the others, exactly, and so are fits.
    """
    lab = make_lab(2)
    weight = Weight("region", (1.0, 2.5, 4.0), 256)
    signed = open_moments(lab, release_rows=20, weight=weight)
    study, people = signed.study, moments_people(20)
    layout, before = study.moments.layout, lab.refusals("R1")
    encoded = layout.encode(people[0])
    bits, z, s = list(encoded.bits), list(encoded.z), encoded.root
    false = [
        forged(layout, bits, [*z, 256, *(256 * value for value in z)]),
        forged(layout, bits, [*z, 1024, *(1024 * value for value in z)]),
        forged(layout, bits, [*z, s, *(s * value for value in z[1:]), 256 * z[0]]),
    ]
    with Client(signed) as client:
        for elements in false:
            client.send(shared(study, elements))
        for person in people:
            client.submit(person)
    lab.close(study)
    release = published(lab, study)
    assert release["accepted"] == 20
    assert (release["first"], release["products"]) == exact_totals(study, people)
    assert (lab.refusals("R1") - before)["bad_products"] == len(false)
    (dataset,) = lab.datasets(study)
    used = weight.table(study.schema)
    w = np.sqrt([used[person["region"]] for person in people])
    design = np.column_stack([np.ones(20), [person["age"] for person in people]]) * w[:, None]
    theirs = np.linalg.lstsq(design, np.array([person["smoker"] for person in people]) * w, rcond=None)[0]
    np.testing.assert_allclose(fit.ols(dataset, "smoker ~ age").params, theirs, rtol=1e-9)


def test_what_is_not_a_share_is_refused_at_intake(make_lab: MakeLab) -> None:
    """An element that is none is refused, and the first parcel of an id counts
    (docs/theory/verified-moments.md#agreement). Vectors of another length or with elements that are none, seeds
    where vectors belong, replays and second reports under an id: none is taken in, and none stops the others.
    """
    lab = make_lab(2)
    signed = open_moments(lab, release_rows=6)
    study, people = signed.study, moments_people(6)
    source = SystemRandom()
    report = build_report(study.moments.layout, people[0], source)
    seeds, vector = split(report, 2, source)
    seed, good = share_payloads(seeds, vector)
    bad = {
        "an element of P": (seed, VECTOR + P.to_bytes(8, "little") + vector[8:]),
        "an element of 2^64 - 1": (seed, VECTOR + b"\xff" * 8 + vector[8:]),
        "one element short": (seed, good[:-8]),
        "one byte short": (seed, good[:-1]),
        "one element more": (seed, good + bytes(8)),
        "a seed for the last": (seed, SEED + source.seed()),
        "a vector for the first": (good, good),
        "a short seed": (seed[:-1], good),
        "of no kind": (b"\x07" + seed[1:], good),
        "nothing": (b"", b""),
    }
    with Client(signed, attempts=1) as client:
        for what, pair in bad.items():
            with pytest.raises(TrimaskError, match=r"share for R|field element"):
                client.send(seal_payloads(study, pair, source))
            assert client.refusals["tampered_component"], what
            client.refusals.clear()
        sent = [client.prepare(person) for person in people]
        for submission in sent:
            client.send(submission)
            client.send(submission)  # a replay is the same report
        again = shared(study, report)
        for taken in sent[:2]:  # another report under an id that is taken: the first write stays
            other = seal_under(study, share_payloads(*split(report, 2, source)), taken.withdrawal_key)
            assert other.submission_id == taken.submission_id
            with pytest.raises(TrimaskError):
                client.send(other)
        # One device's parcels under another's id open nowhere.
        stolen = SealedSubmission(study.id, sent[0].submission_id, again.sealed, b"", again.key_ids)
        with pytest.raises(TrimaskError):
            client.send(stolen)
    lab.close(study)
    release = published(lab, study)
    assert release["accepted"] == len(people)
    assert (release["first"], release["products"]) == exact_totals(study, people)


@pytest.mark.parametrize("fleet", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_fleet_of_false_devices_changes_neither_noise_nor_guarantee(make_lab: MakeLab, fleet: int) -> None:
    """Other participants do not matter: false devices cannot thin the noise out
    (docs/theory/verified-moments.md#noise).

    100 honest people beside a fleet, half of it with forged reports (all refused) and half with allowed ones whose answers
    it knows. Take the fleet's rows off the release: what is left is the 100 people's moments and, number for number, the
    noise that each provider draws from its own secret with the deviations that follow from the study alone.
    """
    lab = make_lab(2)
    sigma = 40.0
    signed = open_moments(lab, release_rows=fleet // 2 + 100, sigma=sigma)
    study, layout = signed.study, signed.study.moments.layout
    people, known = moments_people(100), [moments_people(1)[0]] * (fleet // 2)
    bad = forged(layout, _with(layout.encode(people[0]).bits, 0, 5))
    with Client(signed) as client:
        client.refresh_keys()
        for person in (*people, *known):
            client.send(client.prepare(person))
        for _ in range(fleet // 2):
            client.send(shared(study, bad))
    lab.close(study)
    release = published(lab, study)
    assert release["accepted"] == 100 + fleet // 2
    assert lab.refusals("R1")["bad_bits"] == lab.refusals("R2")["bad_bits"] == fleet // 2
    ids = lab.query("collector", "SELECT block_id FROM blocks WHERE release_number = 1 ORDER BY sequence")
    asked = asked_hash(study.id, 1, b"".join(bytes(batch) for (batch,) in ids), b"")
    what = hashlib.sha256(asked + bytes.fromhex(release["accepted_hash"])).digest()
    law = release_noise([column.width for column in layout.columns], sigma, 1)
    drawn = [
        add_noise([0] * len(law), law, MomentsSecret.load(lab.folder / role).noise(study.id, what))
        for role in ("R1", "R2")
    ]
    assert min(noise.deviation for noise in law) >= sigma / 2**0.5
    the_fleets = [value for part in exact_totals(study, known) for value in part]
    the_peoples = [value for part in exact_totals(study, people) for value in part]
    for found, more, true, noise, *own in zip(
        release["first"] + release["products"], the_fleets, the_peoples, law, *drawn, strict=True
    ):
        assert found - (more << noise.shift) == (true << noise.shift) + sum(
            signed_value(value) for value in own
        )
    ((manifest,),) = lab.query("collector", "SELECT manifest FROM datasets")
    stated = json.loads(manifest)
    assert study.protection.public is not None
    assert (stated["sigma"], stated["guarantee"]["public"]) == (sigma, study.protection.public.to_dict())
