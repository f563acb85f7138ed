"""The same attacks on what the parties of a real run held: real servers, sockets and TLS, recorded where each party works.

The recorder wraps the functions in which a party touches a matrix, so every view is exactly what that party had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_attacks import (
    LeftView,
    RightMask,
    RightView,
    UnmaskingView,
    Views,
    attempts,
    beyond_chance,
    recover,
)
from trimask_cli import owner
from trimask_client import Client
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.rows.arrays import HaarFrame, device_frame
from trimask_core.rows.collusion import minimal_coalitions
from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key, read_secret
from trimask_core.study.signed import SignedStudy, approve
from trimask_server.local.cluster import ThreadCluster, free_base_port
from trimask_server.local.keys import make_keys, node_places
from trimask_server.suites.rows import masking_attempt, provider_masking, unmasking
from trimask_server.suites.rows.math import RightMask as SentMask
from trimask_server.suites.rows.math import sum_deliveries
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

PEOPLE = 64
DEFINITION = f"""
title = "Attacked"
purpose = "What would a coalition learn?"
contact = "nobody@example.org"
[privacy]
exact = true
[collection]
block_rows = {PEOPLE}
release_rows = {PEOPLE}
noise_columns = 640
""" + "".join(
    f'[[attributes]]\nname = "v{i}"\nkind = "continuous"\nminimum = -1\nmaximum = 1\n' for i in range(5)
)


@dataclass
class Record:
    """What was seen in one block."""

    study: Study
    answers: np.ndarray
    components: dict[int, np.ndarray] = field(default_factory=dict)
    right: dict[int, tuple[np.ndarray, SentMask]] = field(default_factory=dict)
    left: list[LeftView] = field(default_factory=list)
    unmasked: list[tuple[np.ndarray, SentMask, np.ndarray]] = field(default_factory=list)
    collector: np.ndarray | None = None

    def _mask(self, mask: SentMask) -> RightMask:
        n, p = mask.basis.shape
        return RightMask(frame=HaarFrame(mask.frame_seed, n, p).matrix(), basis=mask.basis)

    def views(self) -> Views:
        assert self.collector is not None
        numbers = {mask.frame_seed: k for k, (_, mask) in self.right.items()}
        return Views(
            topology=self.study.rows.topology,
            right={k: RightView(x, self._mask(mask)) for k, (x, mask) in sorted(self.right.items())},
            left=dict(enumerate(self.left, 1)),
            unmasking={
                numbers[mask.frame_seed]: UnmaskingView(self._mask(mask), returned, values)
                for returned, mask, values in self.unmasked
            },
            collector=self.collector,
            device_frame=device_frame(self.study).matrix(),
        )


def _record(monkeypatch: pytest.MonkeyPatch, record: Record) -> None:
    original_read = provider_masking.RightMaskingServicer._read
    original_right = provider_masking.apply_right_mask
    original_left = provider_masking.apply_left_mask
    original_unmask = unmasking.unmask_component
    original_sum = masking_attempt.masked_answers
    numbers: dict[int, int] = {}

    def read(self: Any, study: Study, *more: Any) -> Any:
        made, held = original_read(self, study, *more)
        k = numbers[id(made)] = int(self._node.role_in(study)[1:])
        record.components[k] = made
        return made, held

    def right(made: np.ndarray, source: Any) -> Any:
        masked, mask = original_right(made, source)
        record.right[numbers[id(made)]] = (made.copy(), mask)
        return masked, mask

    def left(seed: bytes, stacked: np.ndarray) -> np.ndarray:
        before = stacked.copy()
        after = original_left(seed, stacked)
        count = len(record.study.right)
        n = before.shape[0]
        record.left.append(
            LeftView(
                tuple(np.hsplit(before, count)),
                tuple(np.hsplit(after.copy(), count)),
                HaarFrame(seed, n, n).rotate(np.eye(n)),
            )
        )
        return after

    def unmask(study: Study, masked: np.ndarray, mask: SentMask, seed: bytes) -> np.ndarray:
        values = original_unmask(study, masked, mask, seed)
        record.unmasked.append((masked.copy(), mask, study.rows.grid.to_float(values)))
        return values

    def total(study: Study, deliveries: list[np.ndarray]) -> np.ndarray:
        record.collector = study.rows.grid.to_float(sum_deliveries(deliveries))
        return original_sum(study, deliveries)

    monkeypatch.setattr(provider_masking.RightMaskingServicer, "_read", read)
    monkeypatch.setattr(provider_masking, "apply_right_mask", right)
    monkeypatch.setattr(provider_masking, "apply_left_mask", left)
    monkeypatch.setattr(unmasking, "unmask_component", unmask)
    monkeypatch.setattr(masking_attempt, "masked_answers", total)


def _run(
    folder: Path,
    right: int,
    seed: int,
    unmasking_nodes: tuple[str, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> Record:
    """One block of 64 people through a real cluster, recorded."""
    parties = make_keys(folder, node_places(right, 2, "127.0.0.1", free_base_port(2 * (right + 3))))
    study = create_study(
        load_definition(DEFINITION).changed(unmasking=unmasking_nodes),
        parties["collector"],
        [parties[f"R{k}"] for k in range(1, right + 1)],
        [parties["L1"], parties["L2"]],
        (folder / "authority" / "ca.pem").read_text(),
        int(time.time() * 1000),
        SystemRandom(),
        admission_key(folder / "owner").public,
    )
    signed = SignedStudy(study)
    for name in parties:
        signed = signed.with_approval(
            approve(study, SigningKey(read_secret(folder / name / "identity.key")), 1)
        )
    rng = np.random.default_rng(seed)
    people = [{f"v{i}": float(rng.uniform(-1, 1)) for i in range(5)} for _ in range(PEOPLE)]
    answers = {}
    with ThreadCluster(folder):
        owner.open_study(signed, folder / "owner")
        with Client(signed) as client:
            for person in people:
                answers[client.submit(person).submission_id] = study.schema.encode(person)
        ordered = np.array([answers[key] for key in sorted(answers)])
        record = Record(study, ordered)
        _record(monkeypatch, record)
        owner.close_study(study, folder / "owner")
        pause = __import__("threading").Event()
        while owner.study_status(study).state != "closed":
            pause.wait(0.05)
    return record


@pytest.fixture(scope="module")
def module_patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


Runs = Callable[[int], Record]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    made: dict[int, Record] = {}

    def get(right: int) -> Record:
        if right not in made:
            with pytest.MonkeyPatch.context() as patch:
                made[right] = _run(tmp_path_factory.mktemp("attacked"), right, right, None, patch)
        return made[right]

    return get


@pytest.mark.parametrize(
    "right", [2, pytest.param(3, marks=pytest.mark.slow), 4, pytest.param(5, marks=pytest.mark.slow)]
)
def test_every_listed_coalition_recovers_rows_of_a_real_run(runs: Runs, right: int) -> None:
    """Exact chains to 1e-6; estimates 4.5 standard deviations beyond chance, a power of 0.9998 each."""
    record = runs(right)
    views = record.views()
    coalitions = minimal_coalitions(record.study.rows.topology)
    assert any(coalition.exact for coalition in coalitions)
    for coalition in coalitions:
        found = recover(views, coalition)
        if coalition.exact:
            np.testing.assert_allclose(found, record.answers, atol=1e-6, err_msg=str(coalition.parties))
        else:
            assert beyond_chance(found, record.answers) > 4.5, coalition.parties


def test_every_pair_fails_on_a_real_run_of_five_and_two(runs: Runs) -> None:
    """28 pairs, some 340 attempts; each is beyond 5.5 by chance with probability 4e-8: false failure 1.4e-5."""
    record = runs(5)
    views = record.views()
    breaking = {frozenset(coalition.parties) for coalition in minimal_coalitions(record.study.rows.topology)}
    pairs = list(combinations(record.study.rows.topology.parties, 2))
    assert len(pairs) == 28
    assert not any(frozenset(pair) in breaking for pair in pairs)
    for pair in pairs:
        for name, estimate in attempts(views, pair).items():
            assert abs(beyond_chance(estimate, record.answers)) < 5.5, (pair, name)


def test_what_parties_hold_is_what_the_protocol_says(runs: Runs) -> None:
    """The record itself: components add up to the rows, and the collector's matrix is A times them."""
    record = runs(3)
    views = record.views()
    rows = sum(view.component for view in views.right.values())
    np.testing.assert_allclose(rows @ views.device_frame.T, record.answers, atol=1e-6)
    A = views.left[2].mask @ views.left[1].mask
    np.testing.assert_allclose(A @ rows, views.collector, atol=1e-6)
