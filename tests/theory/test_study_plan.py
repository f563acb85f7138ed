"""From TOML to a study: what is refused, and that what is signed holds."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from trimask_core.basics.errors import ImpossibleStudy, ParameterError, StudyError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import PUBLIC_KEY_BYTES
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS, default_noise_columns, least_tau
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Neighbours
from trimask_core.study.party import Party
from trimask_core.study.signed import SignedStudy
from trimask_golden import Golden
from trimask_theory.accounting.studies import rounding
from trimask_theory.gaussian import gdp
from trimask_theory.masking import masked_noise
from trimask_theory.planning.definition import StudyDefinition
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
block_rows = 64
release_rows = 256

[[attributes]]
name = "sleep"
kind = "continuous"
minimum = 2
maximum = 12
unit = "hours"

[[attributes]]
name = "age"
kind = "integer"
minimum = 18
maximum = 90

[[attributes]]
name = "coffee"
kind = "binary"

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


def make(definition: StudyDefinition | str, right: int = 3, left: int = 2, **changes: object) -> Study:
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


def test_definition_is_read_with_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "sleep.toml"
    file.write_text(TOML)
    definition = load_definition(file)
    assert definition == load_definition(TOML)
    assert definition.title == "Sleep"
    assert definition.schema.ones
    assert [column.name for column in definition.schema.columns] == [
        "one", "sleep", "age", "coffee", "shift_day", "shift_night", "shift_both", "age_squared",
    ]  # fmt: skip
    assert definition.privacy.method == "sharp"
    assert definition.privacy.protect == "record"
    assert definition.collection.share_leakage == 2.0**-20
    assert definition.collection.obfuscation_failure == 1e-9


def test_repro_a_definition_nested_without_end_is_refused_in_words() -> None:
    with pytest.raises(StudyError, match="the study definition is not TOML: "):
        load_definition("title = " + "[" * 2000)


def test_a_study_is_sealed_hybrid_unless_its_file_says_otherwise() -> None:
    study, classical = make(TOML), make(TOML, sealing="classical")
    assert study.to_dict()["sealing"] == study.sealing == "hybrid"
    assert {len(each.sealing) for each in study.right} == {PUBLIC_KEY_BYTES["hybrid"]}
    # What was signed before there were two ways says nothing of them, and goes on meaning what it meant.
    signed = classical.to_dict()
    assert "sealing" not in signed
    assert Study.from_dict(signed).sealing == "classical"
    old = [replace(party(f"R{k}"), sealing_hybrid=b"") for k in (1, 2, 3)]
    with pytest.raises(StudyError, match=r"R1: its card has no hybrid .*`trimask node rotate-sealing-key`"):
        create_study(
            load_definition(TOML),
            party("collector"),
            old,
            [party("L1")],
            "",
            0,
            DeterministicRandom("old cards"),
            bytes(32),
        )


def test_study_has_the_least_noise_that_gives_the_guarantee() -> None:
    study = make(TOML)
    public, collector = study.protection.public, study.protection.collector
    assert public is not None
    assert collector is not None
    assert study.attributes == 8
    assert study.protection.row_norm == math.sqrt(6)  # one, four questions, one derived column
    # Rounding to the grid may lengthen a row and move two apart.
    moved = study.rows.grid.step * math.sqrt(study.rows.columns)
    wanted = masked_noise.calibrate(2.0, 1e-6, 256, 8, row_norm=math.sqrt(6), rounding=moved).sigma
    assert wanted <= study.protection.sigma < wanted + study.rows.grid.step
    assert math.ldexp(study.protection.sigma, -study.rows.grid_exponent) % 1 == 0
    assert (public.epsilon, public.delta) == (2.0, 1e-6)
    assert collector.delta == 1e-6
    assert collector.epsilon is not None
    given = masked_noise.delta(collector.epsilon, study.protection.sigma, 64, 8, row_norm=math.sqrt(6))
    assert given == pytest.approx(1e-6, rel=1e-4)
    assert collector.epsilon > 2.0  # fewer rows are mixed in a block than in a release
    assert study.rows.noise_columns == default_noise_columns(64, 1e-9)
    assert study.rows.tau == least_tau(
        127, 8, study.rows.noise_columns, math.sqrt(6), study.protection.sigma, 1e-9, CHECK_DIRECTIONS
    )
    assert study.rows.unmasking == ("R1", "R2", "L2")


def test_study_reads_back_to_the_same_id() -> None:
    study = make(TOML)
    again = SignedStudy.from_json(SignedStudy(study).to_json()).study
    assert again == study
    assert again.id == study.id


def test_a_certified_study_states_the_interval_and_is_found_out_where_it_is_false() -> None:
    study = make(edited("delta = 1e-6", "delta = 1e-2\ncertified = true"))
    public, collector = study.protection.public, study.protection.collector
    assert public is not None
    assert collector is not None
    for guarantee, rows in ((public, 256), (collector, 64)):
        assert guarantee.enclosed is not None
        assert guarantee.epsilon is not None
        lower, upper = guarantee.enclosed
        found = masked_noise.delta(guarantee.epsilon, study.protection.sigma, rows, 8, row_norm=math.sqrt(6))
        assert 0 < lower <= found <= upper <= 1e-2
        assert f"certified to lie in [{lower:.5g}, {upper:.5g}]" in str(guarantee)
    again = SignedStudy.from_json(SignedStudy(study).to_json()).study
    assert (again, again.id) == (study, study.id)
    verify_guarantees(study)
    lower, upper = public.enclosed or (0.0, 0.0)
    for false in ((lower / 2, lower * 0.999), (0.0, lower / 3)):
        claimed = replace(study.protection, public=replace(public, enclosed=false))
        with pytest.raises(StudyError, match="certifies delta"):
            verify_guarantees(replace(study, protection=claimed))
    with pytest.raises(ParameterError, match="enclosed"):
        replace(public, enclosed=(lower, 2e-2))


def test_how_a_study_adds_up_with_others_is_stated_and_checked() -> None:
    study = make(TOML)
    public = study.protection.public
    assert public is not None
    assert public.adds_up is not None
    mu, slack = public.adds_up
    assert slack == pytest.approx(1e-9)
    for epsilon in (0.0, 1.0, 2.0, 3.0):
        at = max(epsilon, 1e-9)
        found = masked_noise.delta(at, study.protection.sigma, 256, 8, row_norm=math.sqrt(6))
        assert found <= gdp.delta(epsilon, mu) + slack
    # Twice the study is less than twice its epsilon.
    assert gdp.epsilon(2e-6 - 2 * slack, mu * math.sqrt(2)) < 3.0
    verify_guarantees(study)
    claimed = replace(study.protection, public=replace(public, adds_up=(0.9 * mu, slack)))
    with pytest.raises(StudyError, match="adds up"):
        verify_guarantees(replace(study, protection=claimed))
    unit = make(edited("delta = 1e-6", 'delta = 1e-6\nprotect = "unit"')).protection.public
    assert unit is not None
    assert unit.adds_up is None


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_certified_study_of_unit_neighbours_states_the_interval() -> None:
    study = make(edited("delta = 1e-6", 'delta = 1e-2\nprotect = "unit"\ncertified = true'))
    for guarantee, rows in ((study.protection.public, 256), (study.protection.collector, 64)):
        assert guarantee is not None
        assert guarantee.epsilon is not None
        lower, upper = guarantee.enclosed or (0.0, 0.0)
        found = masked_noise.delta(
            guarantee.epsilon, study.protection.sigma, rows, 8, "unit", math.sqrt(6), rounding=rounding(study)
        )
        assert 0 < lower <= found <= upper <= 1e-2
        assert upper - lower < 0.01 * upper
    verify_guarantees(study)


@pytest.mark.parametrize("with_it", ['method = "bound"', 'method = "theorem"'])
def test_certified_goes_with_a_sharp_calculation(with_it: str) -> None:
    with pytest.raises(StudyError, match="certified"):
        load_definition(edited("delta = 1e-6", f"delta = 1e-6\n{with_it}\ncertified = true"))


def test_the_rule_without_an_integral_is_available() -> None:
    study = make(edited("delta = 1e-6", 'delta = 1e-6\nmethod = "bound"'))
    sharp, theorem = make(TOML), make(edited("delta = 1e-6", 'delta = 1e-6\nmethod = "theorem"'))
    assert sharp.protection.sigma < study.protection.sigma < theorem.protection.sigma
    assert study.protection.method == "bound"
    verify_guarantees(study)
    with pytest.raises(StudyError, match="no method"):
        verify_guarantees(replace(study, protection=replace(study.protection, method="guess")))


def test_mask_seed_comes_from_the_source() -> None:
    assert make(TOML).rows.mask_seed == DeterministicRandom("study plan").seed()


def test_smaller_row_norm_means_less_noise_in_proportion() -> None:
    # sigma is homogeneous in R: the same pair of rows, scaled.
    study, clipped = make(TOML), make(TOML, row_norm=math.sqrt(6) / 2)
    assert clipped.protection.row_norm == math.sqrt(6) / 2
    assert clipped.protection.sigma == pytest.approx(study.protection.sigma / 2, rel=1e-6)


def test_theorem_is_available_and_needs_more_noise() -> None:
    sharp, theorem = make(TOML), make(edited("delta = 1e-6", 'delta = 1e-6\nmethod = "theorem"'))
    assert theorem.protection.method == "theorem"
    assert theorem.protection.public is not None
    assert theorem.protection.public.basis == "proved"
    assert theorem.protection.sigma > 2 * sharp.protection.sigma
    verify_guarantees(theorem)


def test_unit_protection_needs_less_noise_than_a_record() -> None:
    unit = make(edited("delta = 1e-6", 'delta = 1e-6\nprotect = "unit"'))
    assert unit.protection.public is not None
    assert unit.protection.public.neighbours.relation == "unit"
    assert unit.protection.sigma < make(TOML).protection.sigma
    verify_guarantees(unit)


def test_exact_study_claims_nothing() -> None:
    study = make(edited("epsilon = 2.0\ndelta = 1e-6", "exact = true"))
    assert study.protection.sigma == 0
    assert study.protection.public is None
    assert study.protection.collector is None
    verify_guarantees(study)


def test_changes_are_by_name_and_checked() -> None:
    definition = load_definition(TOML)
    changed = definition.changed(epsilon=3.0, block_rows=32, delta=None, exact=True)
    assert changed.privacy.epsilon == 3.0
    assert changed.privacy.delta == 1e-6
    assert changed.collection.block_rows == 32
    assert make(changed).protection.sigma == 0
    with pytest.raises(StudyError, match="did you mean 'epsilon'"):
        definition.changed(epsilom=3.0)


WRONG_KEYS = [
    ('title = "Sleep"', 'titel = "Sleep"', "title"),
    ("epsilon = 2.0", "epsilom = 2.0", "privacy"),
    ("block_rows = 64", "block_row = 64", "block_row"),
    ('unit = "hours"', 'units = "hours"', "attributes.sleep"),
    ('of = ["age"]', 'from = ["age"]', "derived.age_squared"),
    ("epsilon = 2.0", "", "epsilon"),
    ("epsilon = 2.0", "epsilon = 2.0\nexact = true", "epsilon"),
    ("epsilon = 2.0", 'epsilon = "2"', "privacy.epsilon"),
    ("epsilon = 2.0", "epsilon = true", "privacy.epsilon"),
    ("block_rows = 64", "block_rows = 64.0", "collection.block_rows"),
    ("block_rows = 64\n", "", "block_rows"),
    ("release_rows = 256", 'release_rows = 256\nunmasking = "R1"', "unmasking"),
    ('levels = ["day", "night", "both"]', "levels = [1, 2]", "attributes.shift.levels"),
    ('title = "Sleep"', 'title = " "', "title"),
    ('title = "Sleep"', 'title = "Sleep"\nones = 1', "ones"),
    ('name = "sleep"', "", "attributes.name"),
    ("[privacy]\nepsilon = 2.0\ndelta = 1e-6", "", "privacy"),
    ("[[derived]]", "[derived]", "derived"),
]


def test_definitions_are_refused_by_key(golden: Golden) -> None:
    def read(old: str, new: str) -> None:
        load_definition(edited(old, new))

    golden(
        "study-file",
        StudyError,
        {f"{old} -> {new}": (key, partial(read, old, new)) for old, new, key in WRONG_KEYS},
    )
    with pytest.raises(StudyError, match="not TOML: "):
        load_definition(edited("[privacy]", "[privacy"))


@pytest.mark.parametrize(
    ("old", "new", "parameter"),
    [
        ("epsilon = 2.0", "epsilon = -1.0", "epsilon"),
        ("epsilon = 2.0", "epsilon = nan", "epsilon"),
        ("delta = 1e-6", "delta = 1.0", "delta"),
        ("delta = 1e-6", 'delta = 1e-6\nmethod = "tight"', "privacy.method"),
        ("delta = 1e-6", 'delta = 1e-6\nprotect = "person"', "privacy.protect"),
    ],
)
def test_privacy_parameter_out_of_range(old: str, new: str, parameter: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make(edited(old, new))
    assert caught.value.parameter == parameter


_IMPOSSIBLE = [
    # p < n: Appendix A of the TM2 paper reveals answers.
    ("release_rows = 256", "release_rows = 256\nnoise_columns = 100", "too_few_columns"),
    # p >= n, but Davidson-Szarek leaves no room at this failure probability.
    ("release_rows = 256", "release_rows = 256\nnoise_columns = 200", "too_few_noise_columns"),
    ("release_rows = 256", "release_rows = 256\nnoise_columns = 0", "too_few_noise_columns"),
    # A denominator barely above zero makes tau so large that rows come near the components' scale.
    (
        "release_rows = 256",
        "release_rows = 256\nnoise_columns = 348\nshare_leakage = 0.0009765625",
        "grid_overflow",
    ),
    ("release_rows = 256", "release_rows = 256\nshare_leakage = 1e-12", "grid_too_coarse"),
    ("release_rows = 256", "release_rows = 256\nshare_leakage = 1e-320", "grid_too_coarse"),
    ("release_rows = 256", "release_rows = 256\nshare_leakage = 0.5", "share_leakage"),
    ("release_rows = 256", "release_rows = 256\nshare_leakage = 0", "share_leakage"),
    ("release_rows = 256", "release_rows = 256\nobfuscation_failure = 0.5", "obfuscation_failure"),
    ("release_rows = 256", "release_rows = 256\nobfuscation_failure = 0.0", "obfuscation_failure"),
    ("block_rows = 64", "block_rows = 8", "block_too_small"),
    ("block_rows = 64", "block_rows = 0", "block_too_small"),
    ("release_rows = 256", "release_rows = 63", "release_too_small"),
    ("delta = 1e-6", "delta = 1e-6\nrow_norm = 3.0", "row_norm"),
    ("delta = 1e-6", "delta = 1e-6\nrow_norm = 0", "row_norm"),
    ("delta = 1e-6", "delta = 1e-6\nrow_norm = inf", "row_norm"),
    ("epsilon = 2.0", "epsilon = 1e12", "epsilon_too_large"),
    ("minimum = 2\n", "", "bounds_missing"),
    ("maximum = 12", "maximum = inf", "bounds_missing"),
    ("minimum = 2\nmaximum = 12", "minimum = 12\nmaximum = 2", "bounds_reversed"),
    ('kind = "binary"', 'kind = "binary"\nminimum = 5', "bounds_unused"),
    ('kind = "integer"', 'kind = "integer"\nlevels = ["a", "b"]', "bounds_unused"),
    ('kind = "binary"', 'kind = "binary"\nscale = 2', "grid_unused"),
    ('kind = "integer"', 'kind = "integer"\nstep = 1', "grid_unused"),
    ("minimum = 2\n", "minimum = 2\nstep = 0\n", "bad_grid"),
    ("minimum = 2\n", "minimum = 2\ncentre = 13\n", "bad_grid"),
    ('kind = "binary"', 'kind = "boolean"', "bad_kind"),
    ('kind = "square"', 'kind = "cube"', "bad_kind"),
    ('levels = ["day", "night", "both"]', 'levels = ["day"]', "bad_levels"),
    ('name = "coffee"', 'name = "age"', "bad_name"),
    ('name = "coffee"', 'name = "one"', "bad_name"),
    ('of = ["age"]', 'of = ["shift"]', "bad_derived"),
    ('kind = "square"', 'kind = "product"', "bad_derived"),
    ('kind = "square"\nof = ["age"]', 'kind = "log"\nof = ["coffee"]', "bad_derived"),
    ("release_rows = 256", 'release_rows = 256\nunmasking = ["R1", "R2"]', "bad_unmasking"),
    ("release_rows = 256", 'release_rows = 256\nunmasking = ["R1", "R2", "R9"]', "bad_unmasking"),
]


@pytest.mark.parametrize(
    ("old", "new", "reason"), _IMPOSSIBLE, ids=[f"{item[2]}-{i}" for i, item in enumerate(_IMPOSSIBLE)]
)
def test_impossible_study_is_refused_with_its_own_reason(old: str, new: str, reason: str) -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        make(edited(old, new))
    assert caught.value.reason == reason


def test_no_attributes_is_refused() -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        load_definition(TOML.split("[[attributes]]", maxsplit=1)[0])
    assert caught.value.reason == "no_attributes"


def test_topology_one_party_breaks_is_refused() -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        make(edited("release_rows = 256", 'release_rows = 256\nunmasking = ["R2", "R1"]'), right=2)
    assert caught.value.reason == "single_breaker"


@pytest.mark.parametrize(("right", "left"), [(1, 2), (0, 1), (3, 0)])
def test_too_few_providers_is_refused(right: int, left: int) -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        make(TOML, right, left)
    assert caught.value.reason == "too_few_providers"


def test_wanting_noise_is_found_by_whoever_approves() -> None:
    study = make(TOML)
    verify_guarantees(study)
    half = math.ldexp(
        math.floor(math.ldexp(study.protection.sigma / 2, -study.rows.grid_exponent)),
        study.rows.grid_exponent,
    )
    with pytest.raises(StudyError, match="towards the public the study claims delta = 1e-06"):
        verify_guarantees(replace(study, protection=replace(study.protection, sigma=half)))


def test_false_claims_are_found_by_whoever_approves() -> None:
    study = make(TOML)
    given = study.protection
    assert given.public is not None
    assert given.collector is not None
    assert given.collector.epsilon is not None
    seen = given.right_providers
    assert seen is not None
    assert seen.mu is not None
    modest = replace(given.collector, epsilon=given.collector.epsilon * 0.99)
    other = replace(given.public, neighbours=Neighbours("record", row_norm=1.0, distance=2.0))
    closer = replace(given.public, neighbours=Neighbours("record", row_norm=given.row_norm, distance=1.0))
    adding = replace(given.public, neighbours=Neighbours("add-remove", row_norm=given.row_norm))
    for protection, message in (
        (replace(given, collector=modest), "towards the collector the study claims"),
        (replace(given, collector=None), "states no .* towards the collector"),
        (replace(given, public=other), "not about rows of this study's norm"),
        (replace(given, public=closer), "not about rows of this study's norm"),
        (replace(given, public=adding), "not about rows of this study's norm"),
        (replace(given, right_providers=None), "all right providers together could tell"),
        (replace(given, right_providers=replace(seen, mu=0.99 * seen.mu)), "states mu"),
        (replace(given, right_providers=replace(seen, neighbours=other.neighbours)), "states mu"),
        (replace(given, public=replace(given.public, discrete_epsilon=None)), "noise on its grid"),
        (replace(given, collector=replace(given.collector, discrete_epsilon=1e-40)), "noise on its grid"),
    ):
        with pytest.raises(StudyError, match=message):
            verify_guarantees(replace(study, protection=protection))
    with pytest.raises(StudyError, match="without noise"):
        verify_guarantees(
            replace(
                study,
                protection=replace(given, sigma=0.0),
                suite=replace(study.suite, publishing_steps=0, noise_columns_mu=1.0),
            )
        )
