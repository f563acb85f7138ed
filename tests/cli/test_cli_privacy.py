"""`trimask privacy total`: studies of the same people added up, from their files."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from trimask_cli.commands import plan
from trimask_cli.study_file import read_signed
from trimask_core.basics.errors import StudyError
from trimask_core.rows.study import RowsSettings
from trimask_core.study.guarantee import Neighbours, Protection
from trimask_core.study.signed import SignedStudy
from trimask_theory.accounting.studies import mechanisms_of
from trimask_theory.masking import masked_noise
from trimask_theory.masking.masked_noise import Protection as Protect


def run(*arguments: str | Path) -> int:
    """The command as the program would run it."""
    parser = argparse.ArgumentParser()
    plan.register_privacy(parser.add_subparsers())
    args = parser.parse_args(["privacy", "total", *map(str, arguments)])
    return int(args.run(args))


def test_three_waves_cost_less_than_three_times_one(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = made / "study.json"
    study = read_signed(file).study
    promise = study.protection.public
    assert promise is not None
    assert promise.epsilon is not None
    assert run(file, file, file, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["delta"] == pytest.approx(3 * (promise.delta or 0))
    assert found["basic"] == {"epsilon": pytest.approx(3 * promise.epsilon), "delta": found["delta"]}
    (mechanism,) = mechanisms_of(study)
    assert found["epsilon"] == pytest.approx(mechanism.repeated(3).epsilon(found["delta"]), rel=1e-9)
    assert promise.epsilon < found["epsilon"] < 0.7 * 3 * promise.epsilon
    assert [each["study"] for each in found["alone"]] == [study.title] * 3


@pytest.mark.parametrize("protect", ["record", "unit"])
def test_repro_the_rounding_s_part_of_the_row_norm_counts(made: Path, protect: Protect) -> None:
    """It was left out: up to 2.3 % at the coarsest grid, so that a study alone cost less than its noise gives."""
    study = read_signed(made / "study.json").study
    public = study.protection.public
    assert public is not None
    near = Neighbours(
        protect, study.protection.row_norm, 1.0 if protect == "unit" else 2 * study.protection.row_norm
    )
    changed = replace(public, neighbours=near, adds_up=None, enclosed=None)
    coarse = replace(
        study,
        suite=replace(study.suite, grid_exponent=-12, tau=20.0),
        protection=replace(study.protection, sigma=0.5, public=changed),
    )
    (mechanism,) = mechanisms_of(coarse)
    thrice = mechanism.repeated(3)  # made once: its curve is most of the work
    protection, moved = coarse.protection, 2.0**-12 * math.sqrt(coarse.rows.columns)
    for delta in (1e-6, 1e-3):
        truth, without = (
            masked_noise.epsilon(
                delta,
                protection.sigma,
                coarse.release_rows,
                coarse.attributes,
                protect,
                protection.row_norm,
                rounding=part,
            )
            for part in (moved, 0.0)
        )
        assert without < truth <= mechanism.epsilon(delta)
        assert thrice.epsilon(delta) > truth


def test_delta_is_asked_for(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(made / "study.json", made / "study.json", "--delta", "1e-9", "--json") == 0
    stricter = json.loads(capsys.readouterr().out)["epsilon"]
    assert run(made / "study.json", made / "study.json", "--json") == 0
    assert stricter > json.loads(capsys.readouterr().out)["epsilon"]


def test_what_a_person_reads(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(made / "study.json", made / "study.json") == 0
    shown = " ".join(capsys.readouterr().out.split())
    for word in ("together", "stated pairs, simply added", "times as likely", "whole record", "proved"):
        assert word in shown


def test_a_study_without_noise_is_refused(made: Path, tmp_path: Path) -> None:
    signed = read_signed(made / "study.json")
    assert isinstance(signed.study.suite, RowsSettings)
    bare = replace(
        signed.study,
        protection=Protection(signed.study.protection.row_norm, 0.0, "exact"),
        suite=replace(signed.study.suite, publishing_steps=0),
    )
    file = tmp_path / "exact.json"
    file.write_text(SignedStudy(bare).to_json(), encoding="utf-8")
    with pytest.raises(StudyError, match="no differential privacy"):
        run(file)
