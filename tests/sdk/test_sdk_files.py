"""Stata and SPSS files, read back: tables of fits, the codebook, rows never without their warning; `trimask table-one`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from tests.sdk.moments_release import moments_study, write_moments
from trimask import Dataset, fit
from trimask.data.metadata import write_labelled
from trimask.errors import MissingExtra, ParameterError
from trimask_core.study.schema import Attribute, Schema
from trimask_terminal.program import main

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80, label="How old are you?", unit="years"),
        Attribute("bmi", "continuous", 15, 45, step=0.1),
        Attribute("smoker", "binary", label="Do you smoke?"),
        Attribute("region", "categorical", levels=("north", "south", "west"), label="Where do you live?"),
        Attribute("sbp", "continuous", 80, 200, unit="mmHg", step=1.0),
    )
)
LABELS = {"age": "How old are you? (years)", "region_north": "Where do you live?: north", "sbp": "sbp (mmHg)"}
SUFFIXES = (".dta", ".sav")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, people: Callable[..., pd.DataFrame]) -> Path:
    answers = people(600, 1)
    answers["bmi"], answers["sbp"] = answers["bmi"].round(1), answers["sbp"].round()
    made = tmp_path_factory.mktemp("files") / "moments"
    return write_moments(made, moments_study(SCHEMA, 0.5), answers.to_dict("records"))


def _read(path: Path) -> tuple[pd.DataFrame, Any]:
    frame, meta = {".dta": pyreadstat.read_dta, ".sav": pyreadstat.read_sav}[path.suffix](str(path))
    return frame, meta


def _said(path: Path, meta: Any) -> str:
    """What goes with a file: SPSS's notes are inside, Stata's beside it."""
    if path.suffix == ".sav":
        return " ".join(" ".join(meta.notes).split())
    return str(json.loads(path.with_name(f"{path.name}.json").read_text())["notes"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_have_their_warning_inside_and_when_written(folder: Path, tmp_path: Path, suffix: str) -> None:
    dataset = Dataset.open(folder)
    with pytest.warns(UserWarning, match="made from noisy second moments, not collected"):
        path = dataset.to_file(tmp_path / f"rows{suffix}")
    frame, meta = _read(path)
    np.testing.assert_allclose(frame.to_numpy(), dataset.to_pandas().to_numpy(), rtol=1e-12)
    assert meta.file_label == f"Derived rows, not people: {dataset.id}"
    assert "Only their sums of products mean anything" in _said(path, meta)
    assert {name: meta.column_names_to_labels[name] for name in LABELS} == LABELS
    assert meta.variable_value_labels == {}  # a noisy 0.3 is neither yes nor no


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_masked_rows_have_theirs(
    tmp_path: Path, suffix: str, signed_study: Callable[..., Any], write_release: Any, people: Any
) -> None:
    dataset = Dataset.open(write_release(tmp_path / "d", signed_study(schema=SCHEMA), people(96, 2)))
    with pytest.warns(UserWarning, match="Rows are not people"):
        path = dataset.to_file(tmp_path / f"rows{suffix}", "rows")
    frame, meta = _read(path)
    np.testing.assert_allclose(frame.to_numpy(), dataset.to_pandas().to_numpy(), rtol=1e-12)
    assert meta.file_label.startswith("Masked rows, not people")
    assert "biased coefficients" in _said(path, meta)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_fit_comes_back_with_its_terms_in_the_studys_words(
    folder: Path, tmp_path: Path, suffix: str
) -> None:
    dataset = Dataset.open(folder)
    results = fit.ols(dataset, "sbp ~ age + smoker + C(region)")
    path = dataset.to_file(tmp_path / f"fit{suffix}", results)
    frame, meta = _read(path)
    table = results.table()
    np.testing.assert_allclose(frame.iloc[:, 1:].to_numpy(), table.to_numpy(), rtol=1e-12)
    terms = frame["term"].map(meta.variable_value_labels["term"])
    assert [term.partition(": ")[0] for term in terms] == list(table.index)
    assert "smoker: Do you smoke?" in list(terms)
    assert any(term.endswith("Where do you live?: west") for term in terms)
    assert list(meta.column_names_to_labels.values())[1:] == list(map(str, table.columns))
    assert "noise is corrected" in _said(path, meta)
    assert dataset.id in _said(path, meta)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_levels_of_groups_are_value_labels_in_the_studys_order(
    folder: Path, tmp_path: Path, suffix: str
) -> None:
    dataset = Dataset.open(folder)
    found = fit.table_one(dataset, ["age", "smoker"], by="region")
    path = dataset.to_file(tmp_path / f"one{suffix}", found)
    frame, meta = _read(path)
    assert meta.column_names_to_labels["region"] == "Where do you live?"
    assert list(meta.variable_value_labels["region"].values()) == ["north", "south", "west"]
    assert meta.variable_value_labels["level"] == {0: "no", 1: "yes"}
    assert frame["level"].isna().tolist() == [True] * 3 + [False] * 6  # a mean is of no level
    np.testing.assert_allclose(frame["estimate"], found.table()["estimate"], rtol=1e-12)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_codebook_is_labelled(folder: Path, tmp_path: Path, suffix: str) -> None:
    dataset = Dataset.open(folder)
    frame, meta = _read(dataset.to_file(tmp_path / f"codebook{suffix}", "codebook"))
    texts = frame.assign(
        **{name: frame[name].map(labels) for name, labels in meta.variable_value_labels.items()}
    )
    assert len(frame) == len(dataset.names)
    row = texts.iloc[dataset.names.index("age")]
    assert (row["question"], row["kind"], row["unit"]) == (
        "age: How old are you? (years)",
        "integer",
        "years",
    )
    assert (row["minimum"], row["maximum"]) == (18, 80)
    row = texts.iloc[dataset.names.index("region_west")]
    assert (row["question"], row["level"]) == ("region: Where do you live?", "west")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_odd_names_and_long_labels_are_taken(tmp_path: Path, suffix: str) -> None:
    """Names that the programs keep for themselves, of one spelling but for case, or too long; labels too long."""
    names = ["if", "P>|t|", "p>|T|", "1st", "é", "_n", "a" * 70, "a" * 71]
    frame = pd.DataFrame([range(len(names))], columns=names).assign(text="ü" * 200)
    path = write_labelled(tmp_path / f"odd{suffix}", frame, {"if": "ü" * 300}, "ü" * 100, ["ü" * 300])
    read, meta = _read(path)
    assert read.iloc[0, : len(names)].tolist() == list(range(len(names)))
    assert len({name.lower() for name in read.columns}) == len(names) + 1
    assert set(meta.variable_value_labels["text"][0]) == {"ü"}


def test_what_cannot_be_written_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Dataset.open(folder)
    with pytest.raises(ParameterError, match=r"NAME\.dta \(Stata\) or NAME\.sav"):
        dataset.to_file(tmp_path / "codebook.xpt", "codebook")
    with pytest.raises(ParameterError, match="'rows', 'codebook', a result or a table"):
        dataset.to_file(tmp_path / "x.dta", "people")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)  # what Python keeps for a module that is not there
    with pytest.raises(MissingExtra, match=r"pip install 'trimask\[stata\]'"):
        dataset.to_file(tmp_path / "codebook.dta", "codebook")
    assert list(tmp_path.iterdir()) == []


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["table-one", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_first_table_on_the_command_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = fit.table_one(Dataset.open(folder), ["age", "smoker"], by="region")
    asked = (folder, "age", "smoker", "--by", "region")
    status, out, err = _run(capsys, *asked)
    assert (status, out.rstrip("\n"), err) == (0, found.summary(), "")
    status, out, _ = _run(capsys, *asked, "--json", "--level", "0.9")
    told, table = json.loads(out), found.table(0.1).reset_index()
    assert told["by"] == "region"
    assert [row["column"] for row in told["rows"]] == ["age"] * 3 + ["smoker"] * 6
    np.testing.assert_allclose([row["0.95]"] for row in told["rows"]], table["0.95]"])
    for suffix, word in (
        (".csv", "column,level,region"),
        (".md", "| age |"),
        (".tex", "toprule"),
        (".html", "<table>"),
    ):
        path = tmp_path / f"one{suffix}"
        assert _run(capsys, *asked, "--out", path)[0] == 0
        assert word in path.read_text(encoding="utf-8")
    assert _run(capsys, *asked, "--out", tmp_path / "one.sav", "--level", "0.9")[0] == 0
    read, meta = _read(tmp_path / "one.sav")
    np.testing.assert_allclose(read.iloc[:, -2], table["0.95]"], rtol=1e-12)
    assert "0.95]" in meta.column_names_to_labels.values()
    status, _, err = _run(capsys, *asked, "--out", tmp_path / "one.doc")
    assert status == 2
    assert "must end in .csv" in err
    status, _, err = _run(capsys, folder, "--by", "regoin")
    assert status == 2
    assert "region" in err
