"""A right provider that alters one person's component, to read that person in what is published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from trimask_client import Client
from trimask_core.rows import payloads
from trimask_core.rows.arrays import device_frame
from trimask_core.study.signed import SignedStudy
from trimask_lab import Lab, exact_gram, some_people
from trimask_server.suites.rows import masking_attempt, provider_masking, unmasking
from trimask_server.suites.rows.provider_masking import RightMaskingServicer

PEOPLE = some_people(32, seed=12)


@pytest.fixture(scope="module")
def wide_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Four right providers and two left ones, which these attacks share."""
    lab = Lab(tmp_path_factory.mktemp("altered"), right=4, left=2)
    with lab.in_thread(request):
        yield lab


class Alteration:
    """R1 adds c v F to the component of the first person of a block, with v along the column of ones."""

    size = 1000.0

    def __init__(self, patch: pytest.MonkeyPatch, signed: SignedStudy) -> None:
        self.people: list[bytes] = []
        """Whose component was altered, a name for every time."""
        frame = device_frame(signed.study).matrix()
        honest = RightMaskingServicer._read

        def read(servicer: RightMaskingServicer, study: Any, rows: Any, *more: Any) -> Any:
            made, held = honest(servicer, study, rows, *more)
            if servicer._node.role_in(study) == "R1":
                made[0] += self.size * frame[0]
                self.people.append(rows[0][0])
            return made, held

        patch.setattr(RightMaskingServicer, "_read", read)


def collect(lab: Lab, signed: SignedStudy) -> list[bytes]:
    """Everybody answers; the names of their submissions, in order."""
    names = []
    with Client(signed) as client:
        for person in PEOPLE:
            prepared = client.prepare(person)
            client.send(prepared)
            names.append(prepared.submission_id)
    return names


def open_study(lab: Lab) -> SignedStudy:
    return lab.open_study(block_rows=16, release_rows=32)


def refused(lab: Lab) -> int:
    return lab.refusals("L1")["not_as_sent"]


def check_stopped(lab: Lab, signed: SignedStudy) -> None:
    """Everybody answers, the first left provider refuses, and nothing comes further than there."""
    before = refused(lab)
    collect(lab, signed)
    status = lab.wait(signed.study, lambda status: status.failed_attempts > 0 and refused(lab) > before)
    assert status.pooled_rows == status.published_rows == 0
    assert lab.datasets(signed.study) == []


def test_without_the_check_the_gram_matrix_shows_the_person(
    wide_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the attack is worth: the column of products with `one` gains c times the person's row."""
    signed = open_study(wide_lab)
    alteration = Alteration(monkeypatch, signed)
    monkeypatch.setattr(provider_masking, "check_tags", lambda *_: None)
    monkeypatch.setattr(
        masking_attempt, "refuse_heavy", lambda *_: None
    )  # or the block would weigh too much to be pooled
    names = collect(wide_lab, signed)
    wide_lab.close(signed.study)
    (dataset,) = wide_lab.datasets(signed.study)
    gained = dataset.gram(units="scaled").to_numpy() - exact_gram(signed.study, PEOPLE)
    victims = [PEOPLE[names.index(name)] for name in alteration.people]
    rows = np.sum([signed.study.schema.encode(person) for person in victims], axis=0)
    np.testing.assert_allclose(gained[0, 1:] / alteration.size, rows[1:], atol=1e-3)


def test_an_altered_component_is_refused_before_anything_is_masked(
    wide_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = open_study(wide_lab)
    Alteration(monkeypatch, signed)
    check_stopped(wide_lab, signed)
    entries = wide_lab.on_loop(wide_lab.nodes("L1")[0].context.audit.read(0, 10**6))
    named = [json.loads(entry.details) for entry in entries if entry.kind == "row_not_as_sent"]
    assert {(one["study"], one["component"], one["row"]) for one in named} == {(signed.study.id.hex(), 1, 1)}


class AddedFrame:
    """R1 adds s W with W orthonormal and orthogonal to F; the collector, who knows W, keeps the sum that is delivered."""

    size = 1e5

    def __init__(self, patch: pytest.MonkeyPatch, signed: SignedStudy) -> None:
        self.study = signed.study
        self.W = device_frame(signed.study).beside(np.eye(64, signed.study.rows.noise_columns))
        self.sums: list[Any] = []
        honest, added = RightMaskingServicer._read, masking_attempt.masked_answers

        def read(servicer: RightMaskingServicer, study: Any, rows: Any, *more: Any) -> Any:
            made, held = honest(servicer, study, rows, *more)
            mine = study.id == self.study.id and servicer._node.role_in(study) == "R1"
            return (made + self.size * self.W[: len(made)] if mine else made), held

        def keep(study: Any, parts: Any) -> Any:
            if study.id == self.study.id:  # blocks of other tests are still tried
                total = np.sum(np.stack(parts), axis=0, dtype=np.uint64).view(np.int64)
                self.sums.append(np.ldexp(total.astype(float), study.rows.grid_exponent))
            return added(study, parts)

        patch.setattr(RightMaskingServicer, "_read", read)
        patch.setattr(masking_attempt, "masked_answers", keep)

    def rows(self) -> Any:
        """The people of the first block: A is what became of W, up to the noise columns over s."""
        total = self.sums[0]
        A = total @ self.W[: len(total)].T / self.size
        return A.T @ device_frame(self.study).unapply(total)


def test_without_the_check_the_collector_and_one_right_provider_read_a_block_in_one_try(
    wide_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = open_study(wide_lab)
    attack = AddedFrame(monkeypatch, signed)
    monkeypatch.setattr(provider_masking, "check_tags", lambda *_: None)
    collect(wide_lab, signed)
    wide_lab.until(lambda: attack.sums)
    people = np.array([signed.study.schema.encode(person) for person in PEOPLE])
    for row in attack.rows():
        assert np.abs(people - row).max(axis=1).min() < 0.01  # of one of them


def test_the_collector_and_one_right_provider_read_nothing_in_one_try(
    wide_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = open_study(wide_lab)
    attack = AddedFrame(monkeypatch, signed)
    check_stopped(wide_lab, signed)
    assert not attack.sums


def test_a_hundredth_of_a_row_is_an_alteration(wide_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes with a probability below 1e-6 (docs/theory/collection.md#tags)."""
    signed = open_study(wide_lab)
    alteration = Alteration(monkeypatch, signed)
    alteration.size = 0.01 * signed.study.protection.row_norm
    check_stopped(wide_lab, signed)


@pytest.mark.parametrize("component", [1, 4])
def test_a_device_with_wrong_tags_is_refused_alone(
    wide_lab: Lab, monkeypatch: pytest.MonkeyPatch, component: int
) -> None:
    """It would have stopped its block for ever: the row is left out before it is planned, and the others are counted."""
    signed = open_study(wide_lab)
    honest, calls = payloads.tag_component, count(1)

    def wrong(*args: Any) -> Any:
        tagged = honest(*args)
        if next(calls) != component:
            return tagged
        return replace(tagged, tags=[[tag + 1 for tag in held] for held in tagged.tags])

    collect(wide_lab, signed)
    with Client(signed) as client, monkeypatch.context() as patch:
        patch.setattr(payloads, "tag_component", wrong)
        bad = client.prepare({"x": 1.0, "y": 1.0})
        client.send(bad)
    status = wide_lab.close(signed.study)
    assert status.failed_attempts == 0
    assert status.refused_reports == {"wrong_tags": 1}
    (dataset,) = wide_lab.datasets(signed.study)
    exact = exact_gram(signed.study, PEOPLE)
    assert np.abs(dataset.gram(units="scaled").to_numpy() - exact).max() <= 1e-6 * np.abs(exact).max()


def test_an_unmasking_node_that_alters_keys_stops_the_try(
    wide_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = open_study(wide_lab)
    honest = unmasking.mask_keys

    def altered(*args: Any) -> Any:
        keys, offsets = honest(*args)
        keys[0] *= 2
        return keys, offsets

    monkeypatch.setattr(unmasking, "mask_keys", altered)
    check_stopped(wide_lab, signed)
