"""Nobody is misled: what exports say of themselves, the recipe in R, the citation, a record that parsers keep."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyld import jsonld

import trimask
from tests.sdk.moments_release import moments_study, write_moments
from trimask import Dataset
from trimask.moments.moments import Moments
from trimask_core.study.schema import Attribute, Schema
from trimask_patience import patience

ROOT = Path(__file__).resolve().parents[2]
SAID = (
    "trimask",
    "sigma",
    "columns",
    "units",
    "rows",
    "guarantee",
    "intercept",
    "correction",
    "manifest_sha256",
)


@pytest.fixture(scope="module")
def rows(noisy_folder: Path) -> Dataset:
    return Dataset.open(noisy_folder)


@pytest.fixture(scope="module")
def moments(
    tmp_path_factory: pytest.TempPathFactory, schema: Schema, people: Callable[..., pd.DataFrame]
) -> Dataset:
    answers = people(2000, 1).to_dict("records")
    return Dataset.open(
        write_moments(
            tmp_path_factory.mktemp("told") / "m", moments_study(schema, release_rows=2000), answers
        )
    )


def _corrected(rows: np.ndarray, notes: dict[str, str]) -> np.ndarray:
    """X'X by what the notes say, and nothing else."""
    columns = json.loads(notes["columns"])
    n, sigma = int(notes["rows"]), float(notes["sigma"])
    c = np.array([1.0 if one["name"] == "one" else one["center"] for one in columns])
    h = np.array([0.0 if one["name"] == "one" else one["half_range"] for one in columns])
    shape = np.eye(len(c)) if notes["units"] == "scaled" else np.outer(c, c) + np.diag(h**2)
    return np.asarray(rows.T @ rows - n * sigma**2 * shape)


@pytest.mark.parametrize("units", ["original", "scaled"])
def test_frames_and_files_say_how_to_take_the_noise_off(rows: Dataset, tmp_path: Path, units: Any) -> None:
    """The formula in the notes, in the units of the frame, is the correction that fits begin with."""
    frame = rows.to_pandas(units)
    assert all(frame.attrs[name] for name in SAID)
    assert "Rows are not people" in frame.attrs["trimask"]
    assert "one" in frame.attrs["intercept"]
    observed = rows._observed.uncorrected() - rows.rows * rows.sigma**2 * np.eye(len(rows.columns))
    if units == "original":
        T = trimask.moments.moments.original_map(rows.columns)
        observed = T.T @ observed @ T
    np.testing.assert_allclose(_corrected(frame.to_numpy(), frame.attrs), observed, rtol=1e-9, atol=1e-7)
    table = rows.to_arrow(units)
    assert {name.decode(): text.decode() for name, text in table.schema.metadata.items()} == frame.attrs
    with pa.ipc.open_file(rows.to_arrow_file(tmp_path / "a.arrow", units)) as file:
        assert file.schema.metadata == table.schema.metadata
    path = rows.to_csv(tmp_path / "rows.csv", units)
    assert json.loads((tmp_path / "rows.csv.json").read_text()) == frame.attrs
    assert (tmp_path / "rows.csv.README.md").exists() is (units == "original")
    assert path.read_text().startswith('"one"')


def test_every_folder_has_a_readme_and_anothers_is_left_alone(
    rows: Dataset, moments: Dataset, tmp_path: Path
) -> None:
    for dataset in (rows, moments):
        folder = dataset.save(tmp_path / dataset.suite)
        text = (folder / "README.md").read_text()
        for words in (
            dataset.id,
            dataset.manifest.sha256,
            repr(dataset.sigma),
            "intercept",
            str(dataset.guarantee),
        ):
            assert words in text
        assert all(f"`{column.name}` | {column.center!r}" in text for column in dataset.columns)
        Dataset.open(folder)  # it is no part of what is signed
    own = tmp_path / "own"
    own.mkdir()
    (own / "README.md").write_text("# My project\n")
    rows.save(own)
    assert (own / "README.md").read_text() == "# My project\n"


def test_a_title_cannot_write_markup_into_a_readme() -> None:
    from trimask.data.description import _plain

    assert _plain("a <b>*x*\n\n# y [z](u)") == r"a \<b\>\*x\* \# y \[z\](u)"


RSCRIPT = shutil.which("Rscript")


def _r(code: str, folder: Path) -> pd.DataFrame:
    script = folder / "recipe.R"
    script.write_text(code + 'write.csv(result, "result.csv")\n')
    assert RSCRIPT is not None
    done = subprocess.run(
        [RSCRIPT, "--vanilla", script.name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return pd.read_csv(folder / "result.csv", index_col=0)


def _transliterated(Y: pd.DataFrame, notes: dict[str, str], y: str, x: list[str]) -> pd.DataFrame:
    """The recipe in NumPy, line by line."""
    n = int(notes["rows"])
    G = pd.DataFrame(_corrected(Y.to_numpy(), notes), index=Y.columns, columns=Y.columns)
    S = (Y.T @ Y - G) / n
    inverse = np.linalg.inv(G.loc[x, x])
    b = inverse @ G.loc[x, y]
    every, theta = [y, *x], np.r_[1, -b]
    u = S.loc[x, every].to_numpy() @ theta
    v = theta @ G.loc[every, every] @ theta / (n - len(x)) + theta @ S.loc[every, every] @ theta
    V = v * inverse + n * inverse @ (v * S.loc[x, x].to_numpy() + np.outer(u, u)) @ inverse
    return pd.DataFrame({"estimate": b, "error": np.sqrt(np.diag(V))}, index=x)


PLAIN = Schema(
    (
        Attribute("sbp", "continuous", 80, 200),
        Attribute("age", "integer", 18, 80),
        Attribute("bmi", "continuous", 15, 45),
    )
)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.skipif(RSCRIPT is None, reason="R is not installed: scripts/system-packages")
def test_the_recipe_in_r_finds_what_lm_does_not(
    compact: bool, signed_study: Callable[..., Any], write_release: Callable[..., Path],
    people: Callable[..., pd.DataFrame], tmp_path: Path,
) -> None:  # fmt: skip
    """Run by R from the README as it is written. The fixed seed's coefficients are within 4 errors (p < 1e-4 a coefficient
    for seeds at large), lm's are more than 4 of its own off; R, NumPy and the SDK's unprojected fit agree."""
    study = signed_study(schema=PLAIN, sigma=0.4)
    answers = people(1500, 3)[["sbp", "age", "bmi"]]
    dataset = Dataset.open(write_release(tmp_path / "d", study, answers, seed=3, compact=compact))
    folder = tmp_path / "export"
    folder.mkdir()
    dataset.to_csv(folder / "people.csv")
    text = (folder / "people.csv.README.md").read_text()
    (code,) = re.findall(r"^```r\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) <= 15
    found = _r(code, folder)
    x = list(found.index)
    assert x == ["one", "age", "bmi"]
    frame = dataset.to_pandas()
    expected = _transliterated(frame, frame.attrs, "sbp", x)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    gram = dataset._observed.uncorrected() - dataset.rows * dataset.sigma**2 * np.eye(4)
    ours = trimask.fit.ols(Moments(PLAIN, gram, dataset.rows, dataset.sigma), "sbp ~ age + bmi")
    np.testing.assert_allclose(found["estimate"], ours.params, rtol=1e-8)
    np.testing.assert_allclose(found["error"], ours.bse, rtol=0.15)  # first order beside widened
    raw = trimask.fit.ols_from_rows(answers, PLAIN, "sbp ~ age + bmi")
    assert np.all(
        np.abs(found["estimate"].to_numpy() - raw.params.to_numpy()) < 4 * found["error"].to_numpy()
    )
    wrong = _r(
        'm <- lm(sbp ~ 0 + one + age + bmi, read.csv("people.csv"))\n'
        "result <- data.frame(estimate = coef(m), error = sqrt(diag(vcov(m))))\n", folder,
    )  # fmt: skip
    off = np.abs(wrong["estimate"].to_numpy() - raw.params.to_numpy()) / wrong["error"].to_numpy()
    assert compact or off.max() > 4


@pytest.mark.skipif(RSCRIPT is None, reason="R is not installed: scripts/system-packages")
def test_the_recipe_for_derived_rows_gives_the_coefficients_of_a_fit(
    moments: Dataset, tmp_path: Path
) -> None:
    moments.to_csv(tmp_path / "dataset.csv")
    found = _r(moments.r_recipe(), tmp_path)
    fit = trimask.fit.ols(moments.moments.repaired(), "age ~ bmi + smoker + C(region) + sbp")
    expected = [
        fit.params[name]
        for name in ("Intercept", "bmi", "smoker", "C(region)[south]", "C(region)[west]", "sbp")
    ]
    np.testing.assert_allclose(found["estimate"], expected, rtol=1e-6)


def _leaves(found: object) -> Iterator[object]:
    """Every value of a record, but for words of JSON-LD itself."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key not in ("@context", "@id", "@type"):
                yield from _leaves(value)
    elif isinstance(found, list):
        for value in found:
            yield from _leaves(value)
    elif found is not None:
        yield found


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_a_json_ld_parser_keeps_the_whole_record(suite: str, request: pytest.FixtureRequest) -> None:
    """Every value, the guarantee's among them, is in the expanded form; one under a key without a term would be gone."""
    dataset: Dataset = request.getfixturevalue(suite)
    record = json.loads(json.dumps(dataset.metadata()))
    expanded = jsonld.expand(record)
    kept = [json.dumps(value) for value in _leaves(expanded)]
    for value in _leaves(record):
        assert json.dumps(value) in kept
    terms = "urn:trimask:terms#"
    (public, collector) = expanded[0][f"{terms}guarantee"]
    assert public[f"{terms}towards"] == [{"@value": "public"}]
    assert public[f"{terms}epsilon"] == [{"@value": 1.0}]
    assert public[f"{terms}statement"] == [{"@value": str(dataset.guarantee)}]
    assert public[f"{terms}neighbours"][0][f"{terms}relation"] == [{"@value": "record"}]
    assert collector[f"{terms}towards"] == [{"@value": "collector"}]
    # As triples too: what a catalogue stores.
    triples = jsonld.to_rdf(record, {"format": "application/n-quads"})
    assert "(1, 1e-06)-differential privacy" in triples


def test_the_record_lists_refusals_by_role_and_reason() -> None:
    from trimask.data.metadata import _refusals

    assert _refusals({"R1": {"duplicate": 2}, "L1": {}}) == [
        {"trimask:role": "R1", "trimask:reason": "duplicate", "trimask:count": 2}
    ]
    assert _refusals(None) == []


def test_a_dataset_is_cited_by_id_hash_guarantee_and_version(rows: Dataset) -> None:
    entry = rows.cite()
    assert entry.startswith(f"@misc{{trimask-{rows.id},")
    assert entry.count("{") - entry.count(r"\{") == entry.count("}") - entry.count(r"\}")
    for words in (
        rows.manifest.sha256,
        rows.manifest.study_id,
        "(1, 1e-06)-differential privacy",
        trimask.__version__,
    ):
        assert words in entry
    from trimask.data.description import _latex

    assert _latex("a_b & 5 % {x}\n~") == r"a\_b \& 5 \% \{x\} \textasciitilde{}"


def test_one_version_everywhere() -> None:
    version = (ROOT / "VERSION").read_text().strip()
    assert trimask.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
