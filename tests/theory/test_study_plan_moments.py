"""Studies of the moments suite from TOML: what is refused and why, and that what is signed holds."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from trimask_core.basics.errors import ImpossibleStudy, ParameterError, StudyError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Protection
from trimask_core.study.party import Party
from trimask_golden import Golden
from trimask_theory.moments import moments_noise
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.moments import radius
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study, verify_guarantees

TOML = """
title = "Sleep"
purpose = "How sleep goes with age and coffee."
contact = "owner@example.org"

[privacy]
epsilon = 2.0
delta = 1e-6

[collection]
suite = "moments"
release_rows = 256

[[attributes]]
name = "sleep"
kind = "continuous"
minimum = 2
maximum = 12

[[attributes]]
name = "age"
kind = "integer"
minimum = 18
maximum = 90

[[attributes]]
name = "shift"
kind = "categorical"
levels = ["day", "night", "both"]

[[derived]]
name = "age_squared"
kind = "square"
of = ["age"]
"""


def party(name: str) -> Party:
    key = hashlib.sha256(name.encode()).digest()
    sealing = hashlib.sha256(key).digest() if name.startswith("R") else b""
    return Party(
        name,
        "Institute",
        "127.0.0.1:1",
        "127.0.0.1:2",
        f"{name.lower()}.test",
        key,
        sealing,
        "",
        sealing * 38,
    )


def make(definition: StudyDefinition | str, right: int = 2, left: int = 0, **changes: object) -> Study:
    if isinstance(definition, str):
        definition = load_definition(definition)
    return create_study(
        definition.changed(**changes),
        party("collector"),
        [party(f"R{k}") for k in range(1, right + 1)],
        [party(f"L{j}") for j in range(1, left + 1)],
        "roots",
        1_700_000_000_000,
        DeterministicRandom("study plan"),
        bytes(32),
    )


def edited(old: str, new: str) -> str:
    assert TOML.count(old) == 1
    return TOML.replace(old, new)


def test_study_has_the_noise_that_gives_the_guarantee() -> None:
    study = make(TOML, right=3, honest_providers=2)
    protection = study.protection
    assert study.suite.name == "moments"
    assert study.left == ()
    assert protection.row_norm == math.sqrt(5)  # the constant, two questions, one choice, one square
    wanted = moments_noise.calibrate(2.0, 1e-6, protection.row_norm**2, 3, 2)
    assert (protection.sigma, protection.method) == (wanted.sigma, "analytic")
    assert protection.public == wanted.guarantee
    assert protection.collector is None  # the collector sees the release and nothing else
    assert study.moments.honest_providers == 2
    assert study.moments.ball_norm is None
    verify_guarantees(study)
    assert Study.from_dict(study.to_dict()) == study


def test_a_ball_means_less_noise_and_a_grid_is_read() -> None:
    box = make(TOML)
    text = edited("delta = 1e-6", "delta = 1e-6\nrow_norm = 1.8").replace(
        "minimum = 2\n", "minimum = 2\nstep = 0.5\ncentre = 7\nscale = 1.5\n"
    )
    ball = make(text)
    sleep = ball.schema.attributes[0]
    assert (sleep.step, sleep.centre, sleep.scale) == (0.5, 7, 1.5)
    assert ball.moments.ball_norm == 1.8
    assert ball.protection.row_norm == pytest.approx(1.8, rel=1e-15)
    assert ball.protection.sigma == pytest.approx(box.protection.sigma * 1.8**2 / 5, rel=1e-9)
    verify_guarantees(ball)


@pytest.mark.parametrize(
    "square", [Fraction(5), Fraction(1.8) ** 2, Fraction(10, 3), Fraction(math.pi) ** 2 + 1]
)
def test_radius_is_rounded_up(square: Fraction) -> None:
    found = radius(square)
    assert Fraction(found * found) >= square
    assert math.sqrt(found * found) == found
    below = math.nextafter(math.nextafter(found, 0), 0)
    assert Fraction(below) ** 2 < square


def test_exact_and_budget_have_no_noise_and_no_guarantee() -> None:
    exact = make(edited("epsilon = 2.0\ndelta = 1e-6", "exact = true"))
    assert (exact.protection.sigma, exact.protection.method, exact.protection.public) == (0.0, "exact", None)
    verify_guarantees(exact)
    text = edited("epsilon = 2.0\ndelta = 1e-6", "[privacy.budget]\nmu = 0.5")
    asked = make(text)
    assert asked.protection.budget == Budget(mu=0.5)
    assert asked.protection.sigma == 0.0
    verify_guarantees(asked)
    assert make(TOML, exact=True).protection.sigma == 0.0  # as the demo's --exact has it


OF_THE_OTHER_SUITE = [
    ("release_rows", "block_rows = 64\nrelease_rows", "collection.block_rows"),
    ("release_rows", "noise_columns = 9\nrelease_rows", "collection.noise_columns"),
    ("release_rows", "share_leakage = 1e-6\nrelease_rows", "collection.share_leakage"),
    ("release_rows", "obfuscation_failure = 1e-9\nrelease_rows", "obfuscation_failure"),
    ("release_rows", 'unmasking = ["R1", "R2"]\nrelease_rows', "collection.unmasking"),
    ("epsilon", 'protect = "unit"\nepsilon', "privacy.protect"),
    ("epsilon", 'method = "sharp"\nepsilon', "privacy.method"),
    ("epsilon", "exact = true\nepsilon", "exact"),
    ("epsilon = 2.0", "", "epsilon and delta"),
    ("[collection]", "[privacy.budget]\nmu = 1\n[collection]", "privacy.epsilon"),
    ("release_rows = 256", "", "needs release_rows"),
    ('title = "Sleep"', 'title = "Sleep"\nones = false', "ones"),
    ("epsilon", "honest_providers = 1.0\nepsilon", "honest_providers"),
]


def test_settings_of_the_other_suite_are_refused(golden: Golden) -> None:
    def read(old: str, new: str) -> None:
        load_definition(edited(old, new))

    cases = {f"{old} -> {new}": (key, partial(read, old, new)) for old, new, key in OF_THE_OTHER_SUITE}
    golden("study-file-moments", StudyError, cases)


def test_budget_with_exact_is_refused() -> None:
    text = edited("epsilon = 2.0\ndelta = 1e-6", "exact = true\n[privacy.budget]\nmu = 0.5")
    with pytest.raises(StudyError, match=r"take privacy\.exact out"):
        load_definition(text)


@pytest.mark.parametrize("key", ["step", "centre", "scale"])
def test_the_grid_is_refused_by_the_rows_suite(key: str) -> None:
    rows = edited('suite = "moments"', "block_rows = 64")
    with pytest.raises(
        StudyError, match=f'attributes.sleep.{key} is for the moments suite.*suite = "moments"'
    ):
        load_definition(rows.replace("minimum = 2\n", f"minimum = 2\n{key} = 2.5\n"))


def test_honest_providers_is_refused_by_the_rows_suite() -> None:
    rows = edited('suite = "moments"', "block_rows = 64").replace("delta", "honest_providers = 1\ndelta")
    with pytest.raises(StudyError, match=r"privacy\.honest_providers is for the moments suite"):
        load_definition(rows)


def test_unknown_suite_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"collection\.suite"):
        load_definition(edited('"moments"', '"columns"'))


@pytest.mark.parametrize("changes", [{"block_rows": 64}, {"method": "theorem"}, {"protect": "unit"}])
def test_definitions_made_in_code_are_held_to_the_same(changes: dict[str, object]) -> None:
    with pytest.raises(StudyError, match="rows suite"):
        make(TOML, **changes)


@pytest.mark.parametrize(
    ("right", "left", "changes", "reason"),
    [
        (1, 0, {}, "too_few_providers"),
        (2, 1, {}, "too_few_providers"),
        (2, 0, {"honest_providers": 2}, "honest_providers"),
        (3, 0, {"honest_providers": 0}, "honest_providers"),
        (2, 0, {"row_norm": 1.0}, "row_norm"),
        (2, 0, {"row_norm": 2.5}, "row_norm"),
        (2, 0, {"release_rows": 0}, "release_too_small"),
        (2, 0, {"release_rows": 10**15}, "moments_overflow"),
        (2, 0, {"epsilon": 1e-12, "delta": 1e-14}, "overflow"),
    ],
)
def test_impossible_studies_are_refused(
    right: int, left: int, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        make(TOML, right, left, **changes)
    assert caught.value.reason == reason


def altered(study: Study, **changes: object) -> Study:
    return replace(study, protection=replace(study.protection, **changes))  # type: ignore[arg-type]


def test_a_study_that_claims_more_is_refused() -> None:
    study = make(TOML)
    protection: Protection = study.protection
    public = protection.public
    assert public is not None
    for changes, words in (
        ({"sigma": protection.sigma * 0.99}, "claims delta"),
        ({"public": replace(public, epsilon=1.9)}, "claims delta"),
        ({"public": replace(public, delta=5e-7)}, "claims delta"),
        ({"public": replace(public, mu=(public.mu or 0) / 2)}, "claims mu"),
        ({"public": None}, "states no"),
        ({"public": replace(public, epsilon=None, delta=None)}, "states no"),
        ({"collector": public}, "towards the collector"),
        ({"public": replace(public, neighbours=replace(public.neighbours, row_norm=1.0))}, "norm"),
        ({"public": replace(public, neighbours=replace(public.neighbours, relation="unit"))}, "norm"),
        ({"sigma": 0.0}, "without noise"),
    ):
        with pytest.raises(StudyError, match=words):
            verify_guarantees(altered(study, **changes))
    low = math.nextafter(protection.row_norm * (1 - 4e-13), 0)
    near = replace(public.neighbours, row_norm=low)
    with pytest.raises(StudyError, match="lets"):
        verify_guarantees(altered(study, row_norm=low, public=replace(public, neighbours=near)))
