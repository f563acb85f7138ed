"""Waves of a study, of different people: pooled by precision, and the next one drafted and corrected by a release."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import trimask
from tests.sdk.moments_release import moments_study, write_moments
from trimask import fit
from trimask.errors import ParameterError
from trimask.moments.moments import Moments, entry_variances
from trimask.moments.waves import ROOM, WORTH, expected_of, first_wave, pooled
from trimask.simulation import drafted
from trimask_cli.table.next_wave import next_wave
from trimask_core.basics.errors import ConfigError, ImpossibleStudy, StudyError
from trimask_core.study.definition import Study
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments.noise_law import EntriesLaw
from trimask_theory.planning.study_definition import load_definition

SCHEMA = Schema(
    (
        Attribute("y", "continuous", -10, 10),
        Attribute("a", "continuous", -10, 10),
        Attribute("b", "continuous", -10, 10),
    )
)
SIZES, NOISES = (600, 1800), (60.0, 20.0)


def _wave(rng: np.random.Generator, place: int) -> Moments:
    """People with y = a + b / 2 + error, and noise on every entry but the number of people."""
    n = SIZES[place]
    a = rng.normal(1, 2, n)
    b = 0.5 * a + rng.normal(0, 1.5, n)
    rows = np.column_stack([np.ones(n), np.column_stack([a + b / 2 + rng.normal(0, 1, n), a, b]) / 10])
    variances = np.full((4, 4), (NOISES[place] / 100) ** 2)
    variances[0, 0] = 0.0
    law = EntriesLaw(variances)
    return Moments(
        SCHEMA, rows.T @ rows + law.draw(rng), n, float(place + 1), None, f"wave {place}", law, "moments"
    )


def test_waves_are_pooled_by_precision_and_intervals_hold() -> None:
    """400 pairs: the slope of b is nearer than in either wave, and in 95 % of intervals. With coverage 0.95 the share is
    outside 0.91 to 0.985 with probability below 1e-3; the order of errors differs by far more than chance."""
    rng = np.random.default_rng(3)
    errors, held = [], []
    for _ in range(400):
        waves = [_wave(rng, 0), _wave(rng, 1)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits = [fit.ols(source, "y ~ a + b") for source in (waves[0], waves[1], waves)]
        errors.append([one.params["b"] - 0.5 for one in fits])
        low, high = fits[2].conf_int().loc["b"]
        held.append(low <= 0.5 <= high)
    first, second, both = np.sqrt(np.mean(np.square(errors), axis=0))
    assert both < second < first
    assert both == pytest.approx(1 / np.hypot(1 / first, 1 / second), rel=0.1)
    assert 0.91 < np.mean(held) < 0.985
    assert "waves of different people" in fits[2].label
    people = int(re.findall(r"worth ([\d,]+) of 2,400", fits[2].label)[0].replace(",", ""))
    assert people == fits[2].nobs <= 2400


def test_without_noise_waves_are_everybody_together() -> None:
    rng = np.random.default_rng(4)
    waves = [_wave(rng, 0), _wave(rng, 1)]
    exact = [replace(wave, law=EntriesLaw(np.zeros((4, 4)))) for wave in waves]
    both = pooled(exact)
    assert both.rows == 2400
    np.testing.assert_allclose(both.gram, waves[0].gram + waves[1].gram, rtol=1e-12)


def test_what_asks_for_something_else_is_no_wave() -> None:
    rng = np.random.default_rng(5)
    first, second = _wave(rng, 0), _wave(rng, 1)
    other = Schema((*SCHEMA.attributes[:2], Attribute("b", "continuous", -10, 11)))
    with pytest.raises(ParameterError, match="releases of one study"):
        pooled([first, replace(second, schema=other)])
    with pytest.raises(ParameterError, match="given twice"):
        pooled([first, second, first])


DEFINITION = """
title = "Rents"
purpose = "p"
contact = "c@example.org"

[privacy]
epsilon = 6.0
delta = 1e-6

[collection]
suite = "moments"
release_rows = 1500

[[attributes]]
name = "rent"
kind = "continuous"
minimum = 0
maximum = 5000
step = 50

[[attributes]]
name = "rooms"
kind = "integer"
minimum = 0
maximum = 40

[[attributes]]
name = "town"
kind = "categorical"
levels = ["large", "small", "none"]
"""


def _people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rooms = rng.poisson(3, n).clip(0, 40)
    town = rng.choice(["large", "small", "none"], n, p=[0.5, 0.3, 0.2])
    rent = (150 + 90 * rooms + 60 * (town == "large") + rng.gamma(2, 40, n)).clip(0, 5000).round(0)
    return pd.DataFrame({"rent": rent, "rooms": rooms, "town": town})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("waves") / "rents.toml"
    path.write_text(DEFINITION)
    return path


def test_the_next_wave_is_drafted_by_a_release_and_corrected_by_it(file: Path) -> None:
    """The release says what fills little of the bounds; slopes of both waves are within 5 errors of the raw ones, which
    fails by chance below 1e-5, and a third as wide as the first wave's."""
    first = trimask.simulate(_people(1500, 1), file, seed=1)
    text, found = next_wave(file, first.moments, 1500, "rent ~ rooms + C(town)", "a-1 (manifest 0)")
    definition = load_definition(text)
    rent, rooms, _ = definition.schema.attributes
    assert definition.privacy.row_norm is not None
    assert found.clips
    assert rent.centre is not None
    assert 300 < rent.centre < 800
    assert rooms.scale is not None
    assert rooms.scale < 20
    assert load_definition(file).schema.columns == definition.schema.columns
    assert rent.step is not None
    assert rent.step < 50  # a rent varies by some 190
    second = trimask.simulate(_people(1500, 2), text, pilot=first, seed=2)
    assert second.study.pilot is not None
    assert (second.study.pilot.people, len(second.study.pilot.release)) == (WORTH, 64)
    formula = "rent ~ rooms + C(town)"
    alone, late, both = (fit.ols(source, formula) for source in (first, second, [first, second]))
    raw = fit.ols_from_rows(pd.concat([_people(1500, 1), _people(1500, 2)]), definition.schema, formula)
    assert float(both.bse["rooms"]) < float(alone.bse["rooms"]) / 3
    assert float(both.bse["rooms"]) < 1.02 * float(late.bse["rooms"])
    assert np.all(np.abs(both.params - raw.params) < 5 * both.bse)
    assert not np.any(both.tables["coefficients"].ranges[1:])
    assert "an earlier release" in both.label
    bare = trimask.simulate(_people(300, 2), text, seed=2)
    assert np.all(
        fit.ols([first, bare], formula).tables["coefficients"].ranges
    )  # nothing corrects the second


def test_a_release_of_a_far_tail_is_no_license_to_shrink(file: Path) -> None:
    """Where people are few and drawn by a guess, the correction is as uncertain as a pilot of ten."""
    first = trimask.simulate(_people(1500, 1), file, seed=1)
    text, _ = next_wave(file, first.moments, None, None, "a-1 (manifest 0)")
    tight = re.sub(r"row_norm = .*", "row_norm = 1.5", text)
    second = trimask.simulate(_people(1500, 2), tight, pilot=first, seed=2)
    assert np.any(fit.ols(second, "rent ~ rooms + C(town)").tables["coefficients"].ranges)


def test_expectations_are_of_the_release_with_room() -> None:
    rng = np.random.default_rng(6)
    said = {one.name: one for one in expected_of(_wave(rng, 1)).columns}
    assert said["a"].mean == pytest.approx(1, abs=0.4)
    assert said["a"].deviation is not None
    assert 1.9 < said["a"].deviation < 3


def test_what_has_no_next_wave_is_told(file: Path, tmp_path: Path) -> None:
    first = trimask.simulate(_people(300, 1), file, seed=1)
    other = tmp_path / "other.toml"
    other.write_text(DEFINITION.replace("maximum = 40", "maximum = 41"))
    with pytest.raises(ConfigError, match="asks something else"):
        next_wave(other, first.moments, None, None, "")
    with pytest.raises(ConfigError, match="give the definition"):
        next_wave(tmp_path / "study.json", first.moments, None, None, "")
    odd = tmp_path / "odd.toml"
    odd.write_text(DEFINITION.replace('name = "rooms"\nkind = "integer"', 'kind = "integer"\nname = "rooms"'))
    assert next_wave(odd, first.moments, None, None, "")[0]  # keys in another order are found
    inline = DEFINITION.replace("minimum = 0\nmaximum = 40\n", "maximum = 40\nminimum = 0\n")
    odd.write_text(
        inline.replace(
            'name = "rooms"\nkind = "integer"\nmaximum = 40', 'maximum = 40\nname = "rooms"\nkind = "integer"'
        )
    )
    with pytest.raises(ConfigError, match="write these into it yourself"):
        next_wave(odd, first.moments, None, None, "")


def test_a_correction_names_a_release_by_its_hash(file: Path) -> None:
    first = trimask.simulate(_people(300, 1), file, seed=1)
    bare = drafted(load_definition(DEFINITION.replace("delta = 1e-6", "delta = 1e-6\nrow_norm = 1.6")))
    from trimask.moments.waves import corrected_by

    with pytest.raises(StudyError, match="SHA-256"):
        corrected_by(bare, first.moments, "not a hash")
    made = corrected_by(bare, first.moments, "0" * 64)
    assert type(made).from_dict(made.to_dict()) == made
    with pytest.raises((ParameterError, ImpossibleStudy), match="asks the same"):
        corrected_by(bare, replace(first.moments, schema=SCHEMA), "0" * 64)


def test_the_command_drafts_and_the_study_signs_what_the_release_says(
    file: Path, tmp_path: Path, capsys: Any
) -> None:
    from trimask_server.local.keys import make_keys, node_places
    from trimask_terminal.program import main

    definition = load_definition(file)
    signed = moments_study(definition.schema, sigma=20.0, release_rows=400)
    folder = write_moments(tmp_path / "first", signed, _people(400, 1).to_dict("records"))
    out = tmp_path / "wave2.toml"
    assert main(["study", "next", str(file), "--from", str(folder), "--out", str(out), "--rows", "1500"]) == 0
    said = capsys.readouterr().out
    assert f"trimask study new {out} --keys KEYS --pilot {folder}" in said
    make_keys(tmp_path / "keys", node_places(2, 0, "127.0.0.1", 7400))
    study = tmp_path / "wave2.json"
    new = [
        "study",
        "new",
        str(out),
        "--keys",
        str(tmp_path / "keys"),
        "--out",
        str(study),
        "--pilot",
        str(folder),
    ]
    assert main(new) == 0
    assert "an earlier release of others" in " ".join(capsys.readouterr().out.split())


def _in_bounds(suite: str, people: int, epsilon: float) -> Study:
    return drafted(
        load_definition(f"""
title = "t"
purpose = "p"
contact = "c"
privacy = {{epsilon = {epsilon}, delta = 1e-6}}
collection = {{suite = "{suite}", release_rows = {people}{", block_rows = 128" * (suite == "rows")}}}
attributes = [
  {{name = "a", kind = "continuous", minimum = 0, maximum = 10}},
  {{name = "b", kind = "continuous", minimum = 0, maximum = 10}},
]
""")
    )


@pytest.mark.parametrize("suite", ["moments", "rows"])
def test_the_first_wave_is_smaller_the_less_noise_there_is_and_a_quarter_at_most(suite: str) -> None:
    sizes = [first_wave(_in_bounds(suite, 25_600, epsilon)) / 25_600 for epsilon in (0.02, 0.5, 2, 10)]
    assert sizes[0] == 0.25
    assert sizes == sorted(sizes, reverse=True)
    assert 0.01 < sizes[-1] < 0.1
    assert sizes[2] < first_wave(_in_bounds(suite, 6400, 2)) / 6400


def test_the_first_wave_s_share_is_of_least_error_by_its_rule() -> None:
    study = _in_bounds("moments", 20_000, 2)
    noise = np.sqrt(entry_variances(study)[1, 1]) / 20_000
    shares = np.linspace(0.01, 0.5, 5000)
    errors = (1 + ROOM * noise / 0.2**2 / shares) / (1 - shares)
    assert first_wave(study) / 20_000 == pytest.approx(shares[np.argmin(errors)], abs=2e-4)
