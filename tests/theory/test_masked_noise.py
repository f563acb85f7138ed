"""Masked noise: the paper's table, the sharp values, and how both move with their parameters."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ncx2

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise, simple_rules

PUBLISHED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "published-values.json").read_text()
)


def test_every_cell_of_the_masked_noise_table() -> None:
    rows = PUBLISHED["masked_noise_table_1"]["rows"]
    assert len(rows) == 36
    for row in rows:
        asked = (row["epsilon"], row["delta"])
        found = (
            local_noise.calibrate(*asked, method="necessary").sigma,
            local_noise.calibrate(*asked, method="sufficient").sigma,
            masked_noise.calibrate(*asked, row["n"], row["p"], protect="unit", method="theorem").sigma,
        )
        assert tuple(round(sigma, 1) for sigma in found) == (
            row["a_necessary"],
            row["a_sufficient"],
            row["b_sufficient"],
        ), row


def test_sharp_values_to_three_figures() -> None:
    for row in PUBLISHED["sharp_masked_unit"]["rows"]:
        found = masked_noise.calibrate(row["epsilon"], row["delta"], row["n"], row["p"], protect="unit")
        assert found.sigma == pytest.approx(row["sigma"], abs=0.5001e-3), row


@pytest.mark.parametrize("protect", ["record", "unit"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "attributes"), [(0.1, 1e-3, 30, 4), (2.0, 1e-9, 5000, 7)]
)
def test_theorem_sigma_is_the_root_of_g(
    protect: Any, epsilon: float, delta: float, rows: int, attributes: int
) -> None:
    norm = math.sqrt(attributes)
    d = 2 * norm if protect == "record" else 1.0
    df = 2 * (rows - attributes)
    s = masked_noise.calibrate(epsilon, delta, rows, attributes, protect=protect, method="theorem").sigma
    quantile = ncx2.isf(delta, df, norm**2 / s**2)
    g = (2 * norm * d + d * d) / df * quantile + norm * d - s * s * epsilon
    assert abs(g) < 1e-8 * s * s * epsilon
    back = masked_noise.delta(epsilon, s, rows, attributes, protect=protect, method="theorem")
    assert delta * (1 - 1e-8) < back <= delta


@pytest.mark.parametrize("rows", [30, 1000, 10**6])
def test_corollary_is_above_the_theorem(rows: int) -> None:
    for epsilon in (0.01, 0.9):
        for delta in (1e-2, 1e-12):
            theorem = masked_noise.calibrate(epsilon, delta, rows, 5, protect="unit", method="theorem").sigma
            corollary = masked_noise.corollary_sigma(epsilon, delta, rows, 5)
            assert corollary > theorem
            printed = (2 * rows - 5 + math.log(1 / delta)) / (2 * (rows - 5)) * 9 * math.sqrt(5) / epsilon
            assert corollary == pytest.approx(math.sqrt(printed), rel=1e-12)


CORNERS = [
    # With so little noise delta is flat along the curve of unit neighbours, and hundreds of cells are looked at.
    pytest.param(
        rows_above,
        attributes,
        protect,
        epsilon,
        delta,
        marks=[pytest.mark.slow] if protect == "unit" and epsilon == 20 and rows_above < 100 else [],
    )
    for rows_above in (2, 60, 10**7)
    for attributes in (1, 2, 6)
    for protect in ("record", "unit")
    for epsilon in (1e-3, 1.0, 20.0)
    for delta in (1e-2, 1e-12)
]


@pytest.mark.parametrize(("rows_above", "attributes", "protect", "epsilon", "delta"), CORNERS)
def test_sharp_holds_in_the_whole_range(
    rows_above: int, attributes: int, protect: Any, epsilon: float, delta: float
) -> None:
    rows = attributes + rows_above
    sharp = masked_noise.calibrate(epsilon, delta, rows, attributes, protect=protect)
    theorem = masked_noise.calibrate(epsilon, delta, rows, attributes, protect=protect, method="theorem")
    # Y^T Y is post-processing of the noisy row, so the unmasked mechanism is another proved ceiling.
    separation = math.sqrt(2 * attributes) if protect == "record" else 1.0
    local = local_noise.calibrate(epsilon, delta, separation)
    assert sharp.sigma <= min(theorem.sigma, local.sigma) * (1 + 2e-7)
    assert sharp.sigma < theorem.sigma
    back = masked_noise.delta(epsilon, sharp.sigma, rows, attributes, protect=protect)
    assert delta * (1 - 1e-4) < back <= delta


def test_many_rows_reach_the_central_gaussian_mechanism() -> None:
    # docs/theory/sharp-calibration.md#many-rows: sigma^2 ~ R^2 agm(epsilon, delta)/sqrt(m) for `record`.
    rows = 10**7
    agm = local_noise.calibrate(1.0, 1e-6).sigma
    limit = math.sqrt(4 * agm / math.sqrt(rows))
    assert masked_noise.calibrate(1.0, 1e-6, rows, 4).sigma == pytest.approx(limit, rel=5e-3)


@pytest.mark.parametrize("method", ["sharp", "theorem"])
@pytest.mark.parametrize(("protect", "attributes"), [("record", 1), ("record", 3), ("unit", 2), ("unit", 5)])
def test_monotone(method: Any, protect: Any, attributes: int) -> None:
    base: dict[str, Any] = {"attributes": attributes, "protect": protect, "method": method}
    sigma0 = masked_noise.calibrate(0.5, 1e-5, 100, **base).sigma

    def falls(values: list[float]) -> bool:
        return all(later < earlier for earlier, later in pairwise(values))

    assert falls([masked_noise.delta(0.5, sigma0 * (1 + k / 7), 100, **base) for k in range(8)])
    assert falls([masked_noise.delta(0.5 * (1 + k / 7), sigma0, 100, **base) for k in range(8)])
    assert falls([masked_noise.delta(0.5, sigma0, rows, **base) for rows in (8, 20, 51, 52, 53, 100, 10**4)])
    assert falls([masked_noise.calibrate(0.5, 1e-5, rows, **base).sigma for rows in (8, 50, 55, 10**4)])
    assert falls([masked_noise.calibrate(e, 1e-5, 100, **base).sigma for e in (0.01, 0.1, 1.0, 10.0)])
    assert falls([masked_noise.calibrate(0.5, d, 100, **base).sigma for d in (1e-12, 1e-8, 1e-4, 1e-2)])


@pytest.mark.parametrize("method", ["sharp", "theorem"])
@pytest.mark.parametrize("protect", ["record", "unit"])
@pytest.mark.parametrize("sigma", [0.3, 3.0])
def test_epsilon_inverts_delta(method: Any, protect: Any, sigma: float) -> None:
    for delta in (1e-3, 1e-10):
        epsilon = masked_noise.epsilon(delta, sigma, 400, 3, protect=protect, method=method)
        back = masked_noise.delta(epsilon, sigma, 400, 3, protect=protect, method=method)
        assert delta * (1 - 1e-4) < back <= delta


def test_extremes() -> None:
    for method in ("sharp", "theorem"):
        asked: dict[str, Any] = {"rows": 50, "attributes": 3, "method": method}
        assert masked_noise.delta(1.0, 0.0, **asked) == 1.0
        assert masked_noise.delta(1.0, 1e-7, **asked) == pytest.approx(1.0)
        assert masked_noise.delta(1.0, 1e6, **asked) == 0.0
        assert masked_noise.epsilon(1e-6, 0.0, **asked) == math.inf
    assert masked_noise.epsilon(0.01, 1e6, rows=50, attributes=3) == 0.0


def test_a_delta_that_underflows_on_part_of_the_curve() -> None:
    # Some pairs of the family are below every float there and others are not.
    values = [masked_noise.delta(20.0, sigma, 60, 6, protect="unit") for sigma in (1.0, 1.6, 2.5, 4.0, 7.0)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "attributes", "protect"),
    [
        (4.4e-7, 1.4e-25, 4, 2, "record"),
        (1e-12, 1e-25, 4, 2, "unit"),
        (1e-12, 1e-12, 1000, 10, "record"),
        (50.0, 1e-300, 1000, 10, "unit"),
    ],
)
def test_repro_epsilon_ends_where_it_is_tiny_or_delta_is(
    epsilon: float, delta: float, rows: int, attributes: int, protect: Any
) -> None:
    """It went on for ever: a root to 1e-10 of one is no root at 1e-7, and a cell's bound is above its pair's delta."""
    setting = (rows, attributes, protect, math.sqrt(attributes))
    sigma = masked_noise.calibrate(epsilon, delta, *setting).sigma
    found = masked_noise.epsilon(delta, sigma, *setting)
    assert found == pytest.approx(epsilon, rel=1e-5)
    assert masked_noise.delta(found, sigma, *setting) <= delta


def test_scaling_rows_and_noise_together_changes_nothing() -> None:
    one = masked_noise.calibrate(1.0, 1e-6, 300, 4, row_norm=1.0).sigma
    assert masked_noise.calibrate(1.0, 1e-6, 300, 4, row_norm=7.0).sigma == pytest.approx(7 * one, rel=1e-7)
    assert masked_noise.calibrate(1.0, 1e-6, 300, 4).sigma == pytest.approx(2 * one, rel=1e-7)


def test_unit_with_short_rows_is_record() -> None:
    # Every pair of rows of norm at most 1/2 is within distance 1.
    unit = masked_noise.calibrate(1.0, 1e-6, 300, 4, protect="unit", row_norm=0.5).sigma
    assert unit == masked_noise.calibrate(1.0, 1e-6, 300, 4, protect="record", row_norm=0.5).sigma


def test_guarantee_says_what_is_proved() -> None:
    theorem = masked_noise.calibrate(1.0, 1e-6, 300, 4, method="theorem").guarantee
    sharp = masked_noise.calibrate(1.0, 1e-6, 300, 4).guarantee
    single = masked_noise.calibrate(1.0, 1e-6, 300, 1).guarantee
    assert {theorem.basis, sharp.basis, single.basis} == {"proved"}
    assert "theorem" in sharp.because
    assert "one integral" in sharp.because
    assert (sharp.epsilon, sharp.delta) == (1.0, 1e-6)
    assert (sharp.neighbours.relation, sharp.neighbours.row_norm, sharp.neighbours.distance) == (
        "record",
        2.0,
        4.0,
    )
    unit = masked_noise.calibrate(1.0, 1e-6, 300, 4, protect="unit").guarantee
    assert (unit.neighbours.relation, unit.neighbours.distance) == ("unit", 1.0)
    assert "cells" in unit.because


BAD: list[tuple[str, dict[str, Any]]] = [
    ("epsilon", {"epsilon": 0.0}),
    ("epsilon", {"epsilon": -1.0}),
    ("epsilon", {"epsilon": math.nan}),
    ("epsilon", {"epsilon": math.inf}),
    ("delta", {"delta": 0.0}),
    ("delta", {"delta": 1.0}),
    ("delta", {"delta": math.nan}),
    ("rows", {"rows": 3}),
    ("rows", {"rows": 10.5}),
    ("attributes", {"attributes": 0}),
    ("row_norm", {"row_norm": 0.0}),
    ("row_norm", {"row_norm": math.inf}),
    ("protect", {"protect": "household"}),
    ("method", {"method": "guess"}),
]


@pytest.mark.parametrize(("name", "change"), BAD)
def test_calibrate_refuses(name: str, change: dict[str, Any]) -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "rows": 30, "attributes": 3} | change
    with pytest.raises(ParameterError) as refusal:
        masked_noise.calibrate(**asked)
    assert refusal.value.parameter == name
    assert name in str(refusal.value)
    assert refusal.value.allowed


@pytest.mark.parametrize("sigma", [-1.0, math.nan, math.inf])
def test_delta_and_epsilon_refuse_a_bad_sigma(sigma: float) -> None:
    with pytest.raises(ParameterError, match="sigma"):
        masked_noise.delta(1.0, sigma, 30, 3)
    with pytest.raises(ParameterError, match="sigma"):
        masked_noise.epsilon(1e-6, sigma, 30, 3)


def test_corollary_refuses_epsilon_of_one() -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        simple_rules.corollary_sigma(1.0, 1e-6, 30, 3)
