"""`trimask.simulate`: the suites' own arithmetic, without nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import trimask
from trimask.simulation import drafted
from trimask_cli.demo.devices import blood_pressure_population
from trimask_cli.study_file import bundled_definition
from trimask_core.basics.errors import ParameterError
from trimask_core.study.definition import SuiteName
from trimask_theory.planning.study_definition import load_definition

FORMULA = "systolic ~ age + bmi + salt + smoker + C(activity)"
PEOPLE = pd.DataFrame(blood_pressure_population(600, 5))


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_without_noise_it_is_the_raw_fit_to_the_grid(suite: SuiteName) -> None:
    definition = load_definition(bundled_definition(suite)).changed(exact=True)
    tried = trimask.simulate(PEOPLE, definition)
    found, raw = (trimask.fit.ols(source, FORMULA).params for source in (tried, tried.raw))
    # The bundled moments study holds rows to a ball, which moves coefficients by percents.
    np.testing.assert_allclose(found, raw, rtol=2e-3 if suite == "rows" else 3e-2)
    assert tried.guarantee is None


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_its_noise_is_that_of_its_law(suite: SuiteName) -> None:
    """Each coefficient within 5 privacy errors of the same people's raw one: below 1e-5 over both suites' seven."""
    tried = trimask.simulate(PEOPLE, bundled_definition(suite), epsilon=20.0, seed=1)
    found, raw = (trimask.fit.ols(source, FORMULA) for source in (tried, tried.raw))
    off = np.abs((found.params - raw.params) / found.bse_privacy)
    assert 0.05 < off.max() < 5
    assert "not collected" in repr(tried)
    assert "SIMULATED" in found.label
    again = trimask.simulate(PEOPLE, bundled_definition(suite), epsilon=20.0, seed=1)
    assert np.array_equal(again.moments.gram, tried.moments.gram)


def test_what_cannot_be_tried_is_said() -> None:
    study = drafted(load_definition(bundled_definition("moments")))
    with pytest.raises(ParameterError, match="calibrated already"):
        trimask.simulate(PEOPLE, study, epsilon=1.0)
    assert trimask.simulate(PEOPLE, study, seed=2).rows == 600
    with pytest.raises(ParameterError, match="systolic is missing"):
        trimask.simulate(PEOPLE.drop(columns="systolic"), study)
    with pytest.raises(ParameterError, match="at least one person"):
        trimask.simulate(PEOPLE[:0], study)


def test_a_tables_file_is_read_as_the_demo_reads_it(tmp_path: Path) -> None:
    """The same people and the same noise as from the frame, whatever the file's marks for yes and no."""
    words = PEOPLE.assign(smoker=["yes" if one in (True, "yes", 1) else "no" for one in PEOPLE["smoker"]])
    words.to_csv(tmp_path / "people.csv", index=False)
    study = bundled_definition("moments")
    read, given = (trimask.simulate(rows, study, seed=3) for rows in (tmp_path / "people.csv", PEOPLE))
    assert np.array_equal(read.moments.gram, given.moments.gram)


def test_repro_a_pilots_file_is_read_as_the_peoples(tmp_path: Path) -> None:
    """Its path was taken for people, letter by letter: `s: is not asked by this study`."""
    others = pd.DataFrame(blood_pressure_population(200, 6))
    others.to_csv(tmp_path / "others.csv", index=False)
    study = bundled_definition("moments")
    read = trimask.simulate(PEOPLE, study, pilot=str(tmp_path / "others.csv"), seed=1)
    given = trimask.simulate(PEOPLE, study, pilot=others, seed=1)
    assert np.allclose(read.moments.gram, given.moments.gram, rtol=1e-12)
