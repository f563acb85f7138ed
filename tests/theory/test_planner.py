"""The planner's numbers: against simulation, against what a device really sends, against the theory."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from trimask_core.basics.errors import ParameterError
from trimask_core.crypto.mlkem import CIPHERTEXT_BYTES
from trimask_theory.masking import masked_noise
from trimask_theory.planning.planner import METHODS, Target, make_plan, sigma_by, standard_error

TARGET = Target(1.0, 1e-6, 5, 4096)


@pytest.mark.parametrize("sigma", [0.0, 0.3, 0.8])
def test_standard_error_is_the_spread_of_simulated_fits(sigma: float) -> None:
    target = Target(1.0, 1e-6, 5, 3000)
    n, q, fits = target.rows, target.predictors, 400
    rng = np.random.default_rng(20)
    beta = np.full(q, target.coefficient)
    estimates = np.empty((fits, q))
    for fit in range(fits):
        x = rng.uniform(-1, 1, (n, q))  # second moment 1/3, as in the reference model
        error = rng.normal(0, math.sqrt((1 - target.r_squared) / 3), n)
        noisy = np.column_stack([x, x @ beta + error]) + sigma * rng.standard_normal((n, q + 1))
        G = noisy.T @ noisy - n * sigma**2 * np.eye(q + 1)
        estimates[fit] = np.linalg.solve(G[:q, :q], G[:q, q])
    spread = float(np.sqrt(np.mean((estimates - beta) ** 2)))
    # 1,600 nearly independent deviations: their root mean square has a relative deviation of 1.8 %. 8 % is 4.5 of
    # them (false failure below 1e-5 each), with a percent to spare for the terms of higher order.
    assert standard_error(target, sigma) == pytest.approx(spread, rel=0.08)


def test_upload_is_what_a_device_sends(make_submission: Callable[[int, int], tuple[int, int]]) -> None:
    for block_rows, right in ((16, 2), (32, 3)):
        attributes, sent = make_submission(block_rows, right)
        plan = make_plan(Target(4.0, 1e-6, attributes, 64, right=right), [64], [block_rows])
        assert plan.blocks[0].upload_bytes == sent


@pytest.fixture
def make_submission() -> Callable[[int, int], tuple[int, int]]:
    """A real device's bytes for one submission, with the ids that go beside each component."""
    from trimask_core.basics.randomness import SystemRandom
    from trimask_core.crypto.keys import SealingKey
    from trimask_core.study.party import Party
    from trimask_core.submit.submission import build_submission
    from trimask_theory.planning.study_definition import load_definition
    from trimask_theory.planning.study_plan import create_study

    def build(block_rows: int, right: int) -> tuple[int, int]:
        definition = load_definition(
            f"""
            title = "T"
            purpose = "P"
            contact = "C"
            [privacy]
            exact = true
            [collection]
            block_rows = {block_rows}
            release_rows = 64
            [[attributes]]
            name = "smoker"
            kind = "binary"
            """
        )

        def party(name: str) -> Party:
            sealing, hybrid = (
                (SealingKey.generate(kind=kind).public if name.startswith("R") else b"")
                for kind in ("classical", "hybrid")
            )
            return Party(name, "", "a:1", "a:2", name, name.encode().ljust(32), sealing, "", hybrid)

        study = create_study(
            definition, party("collector"), [party(f"R{k}") for k in range(right)], [party("L")], "", 0, SystemRandom(),
            bytes(32),
        )  # fmt: skip
        submission = build_submission(study, {"smoker": "yes"}, SystemRandom())
        ids = len(submission.study_id) + len(submission.submission_id)
        return study.attributes, sum(len(sealed) + ids for sealed in submission.sealed)

    return build


def test_sigma_by_method_is_the_theory_s() -> None:
    sigma = sigma_by(TARGET, 512)
    assert set(sigma) == set(METHODS)
    assert sigma["sharp"] == masked_noise.calibrate(1.0, 1e-6, 512, 5).sigma
    assert sigma["theorem"] == masked_noise.calibrate(1.0, 1e-6, 512, 5, method="theorem").sigma
    assert sigma["corollary"] is None  # stated for the paper's neighbours alone
    # A record is 2 R away at most; the analytic Gaussian scale at (1, 1e-6) is 4.2247
    # (docs/theory/gaussian-pairs.md#equal-covariance).
    assert sigma["local"] == pytest.approx(4.2247 * 2 * math.sqrt(5), rel=1e-4)


def test_corollary_is_given_where_it_is_stated() -> None:
    unit = Target(0.5, 1e-6, 5, 4096, protect="unit")
    assert sigma_by(unit, 512)["corollary"] == masked_noise.corollary_sigma(0.5, 1e-6, 512, 5)
    for other in (
        Target(1.0, 1e-6, 5, 4096, protect="unit"),
        Target(0.5, 1e-6, 5, 4096),
        Target(0.5, 1e-6, 5, 4096, protect="unit", row_norm=2.0),
    ):
        assert sigma_by(other, 512)["corollary"] is None


def test_larger_releases_and_blocks_are_better_where_they_should_be() -> None:
    plan = make_plan(TARGET, [512, 4096], [64, 512])
    small, large = plan.releases
    assert large.sigma["sharp"] < small.sigma["sharp"] < small.sigma["theorem"]  # type: ignore[operator]
    assert plan.sampling_error < large.standard_error["sharp"]  # type: ignore[operator]
    assert large.standard_error["sharp"] < small.standard_error["sharp"]  # type: ignore[operator]
    narrow, wide = plan.blocks
    assert narrow.upload_bytes < wide.upload_bytes
    assert narrow.left_flops < wide.left_flops
    assert narrow.collector_epsilon[512] > 1.0
    # A block as large as the release: the collector's view is the public's, but for sigma rounded up.
    assert wide.collector_epsilon[512] == pytest.approx(1.0, rel=1e-5)
    assert narrow.collector_epsilon[4096] > wide.collector_epsilon[4096] > 1.0


def test_example_of_the_architecture() -> None:
    # n = 256, K1 = 3: 8.4 kB, two seeds and three ciphertexts of ML-KEM, 2.1 MB a block, 0.4 GFLOP a left provider at
    # p = 4 n + 20; more columns are for the largest block and for the directions that are opened.
    block = make_plan(Target(1.0, 1e-6, 20, 1024, right=3), [1024], [256]).blocks[0]
    assert 8_400 < block.upload_bytes - 3 * CIPHERTEXT_BYTES < 10_000
    assert block.right_bytes == pytest.approx(8 * 256 * block.columns, rel=0.01)
    assert block.left_flops == pytest.approx(2 * 256**2 * 3 * block.columns, rel=0.01)


def test_ladders_stay_within_the_study() -> None:
    plan = make_plan(Target(1.0, 1e-6, 5, 100))
    assert [release.release_rows for release in plan.releases] == [6, 25, 100]
    assert [block.block_rows for block in plan.blocks] == [64]
    assert list(plan.blocks[0].collector_epsilon) == [100]  # no release is smaller than a block


def test_plan_is_json_ready() -> None:
    import json

    data = json.loads(json.dumps(make_plan(TARGET, [512], [64]).to_dict(), allow_nan=False))
    assert data["target"]["row_norm"] == math.sqrt(5)
    assert data["releases"][0]["release_rows"] == 512


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"attributes": 1}, "attributes"),
        ({"rows": 5}, "rows"),
        ({"right": 1}, "right"),
        ({"left": 0}, "left"),
        ({"r_squared": 1.0}, "r_squared"),
        ({"second_moment": 1.5}, "second_moment"),
        ({"row_norm": -1.0}, "row_norm"),
    ],
)
def test_target_out_of_range(change: dict[str, float], parameter: str) -> None:
    given = {"epsilon": 1.0, "delta": 1e-6, "attributes": 5, "rows": 100} | change
    with pytest.raises(ParameterError) as caught:
        Target(**given)  # type: ignore[arg-type]
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("name", "sizes"), [("release_sizes", [5]), ("release_sizes", [101]), ("block_sizes", [0])]
)
def test_size_out_of_range(name: str, sizes: list[int]) -> None:
    with pytest.raises(ParameterError) as caught:
        make_plan(Target(1.0, 1e-6, 5, 100), **{name: sizes})
    assert caught.value.parameter == name
