"""The planner's numbers for the moments suite: against simulation, and against what a device really sends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimask_core.basics.errors import ParameterError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SEAL_OVERHEAD_BYTES, SEALINGS
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import build_report, share_payloads, split
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments import moments_noise
from trimask_theory.planning.planner import Target, make_moments_plan, moments_standard_error, standard_error


@pytest.mark.parametrize(("total", "releases"), [(0.0, 1), (30.0, 1), (20.0, 4)])
def test_standard_error_is_the_spread_of_simulated_fits(total: float, releases: int) -> None:
    target = Target(1.0, 1e-6, 5, 3000)
    n, q, fits = target.rows, target.predictors, 400
    rng = np.random.default_rng(21)
    beta = np.full(q, target.coefficient)
    estimates = np.empty((fits, q))
    for fit in range(fits):
        x = rng.uniform(-1, 1, (n, q))  # second moment 1/3, as in the reference model
        error = rng.normal(0, math.sqrt((1 - target.r_squared) / 3), n)
        rows = np.column_stack([x, x @ beta + error])
        G = rows.T @ rows
        for _ in range(releases):
            noise = rng.normal(0, total / math.sqrt(2), G.shape)
            G += np.triu(noise, 1) + np.triu(noise, 1).T + math.sqrt(2) * np.diag(np.diag(noise))
        estimates[fit] = np.linalg.solve(G[:q, :q], G[:q, q])
    spread = float(np.sqrt(np.mean((estimates - beta) ** 2)))
    # 1,600 nearly independent deviations: their root mean square has a relative deviation of 1.8 %. 8 % is 4.5 of
    # them (false failure below 1e-5 each), with a percent to spare for the terms of higher order.
    assert moments_standard_error(target, total, releases) == pytest.approx(spread, rel=0.08)


def test_without_noise_both_suites_have_the_sampling_error() -> None:
    target = Target(1.0, 1e-6, 9, 2048)
    assert moments_standard_error(target, 0.0) == pytest.approx(standard_error(target, 0.0), rel=1e-12)


def test_noise_is_the_calibrated_one() -> None:
    plan = make_moments_plan(Target(1.0, 1e-6, 9, 2048, right=3), [512, 2048], honest=2)
    found = moments_noise.calibrate(1.0, 1e-6, 9.0, 3, 2)
    assert (plan.sigma, plan.total_sigma) == (found.sigma, found.total_sigma)
    assert [release.release_rows for release in plan.releases] == [512, 2048]
    four, one = plan.releases
    assert four.standard_error > one.standard_error  # four releases have noise of their own each
    assert plan.largest_safe == 2


@pytest.mark.parametrize("row_norm", [None, 1.5])
def test_upload_is_what_a_device_sends(row_norm: float | None) -> None:
    plan = make_moments_plan(Target(1.0, 1e-6, 4, 64, right=3, row_norm=row_norm))
    source = DeterministicRandom("upload")
    layout = MomentsLayout.of(
        Schema(tuple(Attribute(f"a{j}", "continuous", 0.0, 10.0) for j in range(3))), row_norm
    )
    sent = share_payloads(*split(build_report(layout, {"a0": 1.0, "a1": 4.0, "a2": 9.0}, source), 3, source))
    ids = 32 + 16  # of the study and of the submission, beside each
    assert plan.upload_bytes == sum(len(payload) + SEAL_OVERHEAD_BYTES[SEALINGS[0]] + ids for payload in sent)
    assert (plan.elements, plan.bits) == (layout.elements, layout.bits)


def test_only_whole_records_are_protected() -> None:
    with pytest.raises(ParameterError, match="protect"):
        make_moments_plan(Target(1.0, 1e-6, 4, 64, protect="unit"))
