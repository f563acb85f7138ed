"""Opening a dataset: what is read is right, and what was tampered with is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trimask import Dataset
from trimask.data.metadata import describe_dataset
from trimask.errors import MissingExtra, ParameterError, StudyError, VerificationError
from trimask_core.basics.errors import ApprovalError
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.schema import Attribute, Schema

Write = Callable[..., Path]
People = Callable[..., pd.DataFrame]


def _original(answers: pd.DataFrame) -> np.ndarray[Any, Any]:
    """X in original units, from the answers alone."""
    columns = [np.ones(len(answers)), answers["age"], answers["bmi"], answers["smoker"].astype(float)]
    columns += [(answers["region"] == level).astype(float) for level in ("north", "south", "west")]
    columns += [answers["sbp"], np.log(answers["bmi"])]
    return np.column_stack(columns)


def test_exact_release_gives_the_gram_matrix_of_the_answers(exact_folder: Path, people: People) -> None:
    dataset = Dataset.open(exact_folder)
    X = _original(people(400, 1))
    np.testing.assert_allclose(dataset.gram().to_numpy(), X.T @ X, rtol=1e-10, atol=1e-9)
    rows = dataset.to_pandas()
    np.testing.assert_allclose(rows.T.to_numpy() @ rows.to_numpy(), X.T @ X, rtol=1e-10, atol=1e-9)
    assert not np.allclose(rows.to_numpy(), X)
    assert list(dataset.gram().columns) == list(rows.columns) == dataset.names
    assert dataset.guarantee is None
    assert "exact mode" in str(dataset)


def test_gram_is_unbiased_and_counts_masked_not_stored_rows(
    noisy: Any, write_release: Write, people: People, tmp_path: Path
) -> None:
    answers = people(2000, 3)
    X = np.array([noisy.study.schema.encode(row) for row in answers.to_dict("records")])
    folders = [write_release(tmp_path / str(c), noisy, answers, compact=c) for c in (False, True)]
    whole, compact = (Dataset.open(folder) for folder in folders)
    np.testing.assert_allclose(whole.gram("scaled"), compact.gram("scaled"), rtol=1e-9, atol=1e-9)
    assert (compact.rows, compact.manifest.stored_rows, len(compact.to_pandas())) == (2000, 9, 9)
    # Var of entry (i, j): s^2 (G_ii + G_jj) + n s^4, more on the diagonal (4 s^2 G_ii + 2 n s^4). Eighty-one
    # entries within 5.5 standard deviations: false failure below 81 * 4e-8 = 4e-6.
    G, s, n = X.T @ X, noisy.study.protection.sigma, 2000
    d = np.diag(G)
    spread = np.sqrt((s**2 * np.add.outer(d, d) + n * s**4) * (1 + np.eye(len(G))))
    z = (whole.gram("scaled").to_numpy() - G) / spread
    assert np.max(np.abs(z)) < 5.5
    assert np.sqrt(np.mean(z**2)) > 0.3  # the noise is really there


def test_facts_of_a_dataset(noisy_folder: Path, noisy: Any) -> None:
    dataset = Dataset.open(noisy_folder, study_id=noisy.study.id.hex())
    assert dataset.id == f"{noisy.study.id.hex()[:12]}-1"
    assert (dataset.rows, dataset.sigma, dataset.study) == (400, noisy.study.protection.sigma, noisy.study)
    assert dataset.columns == noisy.study.schema.columns
    assert dataset.guarantee == noisy.study.protection.public
    assert dataset.manifest.counts["refusals"] == {"R1": {"bad_component": 1}}
    assert "rows are not people" in repr(dataset)
    for words in (
        "Rows are not people",
        "second moments",
        "came together, from an institution that has their answers",
        "R1 20, R2 21",
        "Nothing nonlinear",
        "differential privacy",
        "2023-11-14",
    ):
        assert words in str(dataset)
    with pytest.raises(ParameterError, match="units"):
        dataset.gram("feet")  # type: ignore[arg-type]


def test_saved_copy_opens(noisy_folder: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(noisy_folder)
    copy = Dataset.open(dataset.save(tmp_path / "deep" / "copy"))
    pd.testing.assert_frame_equal(copy.to_pandas(), dataset.to_pandas())
    assert (copy.manifest.raw, copy.manifest.signature) == (dataset.manifest.raw, dataset.manifest.signature)
    copy.save(tmp_path / "deep" / "copy")  # onto itself
    Dataset.open(tmp_path / "deep" / "copy")


def test_rows_are_read_a_batch_at_a_time(exact_folder: Path) -> None:
    dataset = Dataset.open(exact_folder)
    total = np.zeros((9, 9))
    sizes = []
    for block in dataset.batches(batch_rows=64):
        sizes.append(len(block))
        total += block.T @ block
    assert sum(sizes) == 400
    assert max(sizes) <= 64
    np.testing.assert_allclose(total, dataset.gram("scaled"), rtol=1e-12, atol=1e-10)


def test_without_ones_column_only_scaled_units(
    signed_study: Callable[..., Any], write_release: Write, tmp_path: Path
) -> None:
    schema = Schema((Attribute("a", "continuous", 0, 2), Attribute("b", "continuous", -1, 1)), ones=False)
    rng = np.random.default_rng(0)
    answers = pd.DataFrame({"a": rng.uniform(0, 2, 80), "b": rng.uniform(-1, 1, 80)})
    dataset = Dataset.open(write_release(tmp_path / "d", signed_study(schema=schema, sigma=0.0), answers))
    np.testing.assert_allclose(
        dataset.gram("scaled").loc["a", "a"], np.sum((answers["a"] - 1) ** 2), rtol=1e-10
    )
    with pytest.raises(ParameterError, match="no ones column to move a"):
        dataset.gram()


# Tampering


@pytest.fixture
def folder(noisy_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(noisy_folder, tmp_path / "copy"))


def test_tampered_manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"rows": 400', b'"rows": 401'))
    with pytest.raises(VerificationError, match="signature on the manifest"):
        Dataset.open(folder)


def test_truncated_file(folder: Path) -> None:
    path = folder / "dataset.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(VerificationError, match="bytes where the manifest says"):
        Dataset.open(folder)


def test_one_flipped_bit_in_the_file(folder: Path) -> None:
    path = folder / "dataset.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(VerificationError, match="not the file the manifest was signed for"):
        Dataset.open(folder)


def test_missing_files(folder: Path) -> None:
    (folder / "dataset.parquet").unlink()
    with pytest.raises(VerificationError, match=r"dataset\.parquet is missing"):
        Dataset.open(folder)
    (folder / "manifest.sig").unlink()
    with pytest.raises(ParameterError, match=r"manifest\.sig is missing"):
        Dataset.open(folder)


def test_signed_by_somebody_else(noisy: Any, write_release: Write, people: People, tmp_path: Path) -> None:
    folder = write_release(tmp_path / "d", noisy, people(100, 1), key=SigningKey.generate())
    with pytest.raises(VerificationError, match="signature on the manifest"):
        Dataset.open(folder)


def test_study_not_approved_by_all(
    unapproved: Any, write_release: Write, people: People, tmp_path: Path
) -> None:
    folder = write_release(tmp_path / "d", unapproved, people(100, 1))
    with pytest.raises(ApprovalError, match="not approved yet by R1"):
        Dataset.open(folder)


def test_pinned_study(noisy_folder: Path, exact: Any) -> None:
    for pin in (exact.study.id, exact.study.id.hex()):
        with pytest.raises(VerificationError, match="not of"):
            Dataset.open(noisy_folder, study_id=pin)


def _set(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data[name] = value

    return change


def _drop(name: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        del data[name]

    return change


def _column(data: dict[str, Any]) -> None:
    data["columns"][1]["center"] = 0.0


def _escape(data: dict[str, Any]) -> None:
    data["files"].append({"name": "../evil", "bytes": 1, "sha256": "0" * 64})


def _promise(data: dict[str, Any]) -> None:
    data["guarantee"]["public"]["epsilon"] = 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("format", "trimask-manifest/9"), "not of format"),
        (_set("sigma", 0.01), "sigma"),
        (_set("sigma", float("nan")), "not a finite number"),
        (_set("rows", 10), "number of rows"),
        (_set("stored_rows", 77), "stored rows"),
        (_set("study_id", "00" * 32), "study id"),
        (_set("dataset_id", "0123456789ab-1"), "dataset id"),
        (_set("dataset_id", "../../x"), "not a dataset id"),
        (_set("title", "Another"), "title"),
        (_set("published_ms", 10**18), "time of publication"),
        (_set("previous", "00" * 32), "link to the release before"),
        (_set("files", []), "must name dataset.parquet"),
        (_set("columns", 3), "cannot be read"),
        (_drop("counts"), "cannot be read"),
        (_column, "columns"),
        (_escape, "file entry"),
        (_promise, "guarantee towards the public"),
    ],
)
def test_a_collector_cannot_sign_what_the_study_does_not_say(
    change: Callable[[dict[str, Any]], None], message: str, noisy: Any, write_release: Write, people: People,
    tmp_path: Path,
) -> None:  # fmt: skip
    folder = write_release(tmp_path / "d", noisy, people(100, 1), change=change)
    with pytest.raises((VerificationError, StudyError), match=message):
        Dataset.open(folder)


def test_not_a_manifest(folder: Path) -> None:
    for junk in (b"", b"[]", b"\xff", b"{}"):
        (folder / "manifest.json").write_bytes(junk)
        with pytest.raises(VerificationError, match="cannot be read"):
            Dataset.open(folder)


def _first_file(entry: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data["files"][0] = entry

    return change


def test_file_with_other_columns_or_values(
    noisy: Any, write_release: Write, people: People, tmp_path: Path
) -> None:
    """The collector signed it, but it is not what its manifest describes."""
    import hashlib

    folder = write_release(tmp_path / "a", noisy, people(100, 1))
    table = pq.read_table(folder / "dataset.parquet")
    infinite = table.set_column(0, "one", pa.array([float("inf")] * 100))
    for name, wrong, message in (
        ("b", table.slice(0, 50), "other columns or rows"),
        ("c", table.rename_columns([*table.column_names[1:], "x"]), "other columns or rows"),
        ("d", infinite, "not finite"),
    ):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(wrong, path)
        content = path.read_bytes()
        entry = {
            "name": "dataset.parquet",
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        bad = write_release(tmp_path / name, noisy, people(100, 1), change=_first_file(entry))
        (bad / "dataset.parquet").write_bytes(content)
        with pytest.raises(VerificationError, match=message):
            _ = Dataset.open(bad).moments


# Formats and metadata


@pytest.mark.parametrize("units", ["original", "scaled"])
def test_arrow_and_csv_hold_the_rows_that_pandas_does(units: Any, noisy_folder: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(noisy_folder)
    rows = dataset.to_pandas(units)
    table = dataset.to_arrow(units)
    assert table.column_names == dataset.names
    np.testing.assert_array_equal(table.to_pandas().to_numpy(), rows.to_numpy())
    path = dataset.to_csv(tmp_path / "rows.csv", units)
    assert path.read_text(encoding="utf-8").splitlines()[0].replace('"', "").split(",") == dataset.names
    np.testing.assert_array_equal(np.loadtxt(path, delimiter=",", skiprows=1), rows.to_numpy())
    with pa.memory_map(str(dataset.to_arrow_file(tmp_path / "rows.arrow", units))) as mapped:
        assert pa.ipc.open_file(mapped).read_all().equals(table)
    if units == "scaled":
        assert pq.read_table(dataset.path).equals(table)  # what is read in place
    for method in (dataset.to_arrow, dataset.to_pandas):
        with pytest.raises(ParameterError, match="units"):
            method("feet")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="units"):
        dataset.to_csv(tmp_path / "never.csv", "feet")  # type: ignore[arg-type]
    assert not (tmp_path / "never.csv").exists()


def test_duckdb_and_polars_read_the_file_in_place(noisy_folder: Path) -> None:
    """As the researchers' page says: sums of products in scaled units, without a copy of the rows."""
    dataset = Dataset.open(noisy_folder)
    rows = dataset.to_pandas("scaled")
    expected = float(rows["age"] @ rows["sbp"])
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        query = f"SELECT sum(age * sbp), count(*) FROM '{dataset.path}'"  # noqa: S608 - a path of this test
        product, count = database.execute(query).fetchone()
    assert product == pytest.approx(expected, rel=1e-12)
    assert count == len(rows)
    polars = pytest.importorskip("polars")
    lazy = polars.scan_parquet(dataset.path).select((polars.col("age") * polars.col("sbp")).sum())
    assert lazy.collect().item() == pytest.approx(expected, rel=1e-12)
    assert dataset.to_polars().columns == dataset.names


def test_polars_frame_is_made_of_the_arrow_table(noisy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = Dataset.open(noisy_folder)
    stand_in = ModuleType("polars")
    stand_in.from_arrow = lambda table: ("frame", table)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", stand_in)
    kind, table = dataset.to_polars()
    assert kind == "frame"
    assert table.equals(dataset.to_arrow())


def test_without_polars_the_error_names_the_extra(
    noisy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)  # what Python keeps for a module that is not there
    with pytest.raises(MissingExtra, match=r"pip install 'trimask\[polars\]'") as caught:
        Dataset.open(noisy_folder).to_polars()
    assert caught.value.extra == "polars"
    assert isinstance(caught.value, ImportError)


def test_metadata_is_dcat_with_what_was_signed(noisy_folder: Path, noisy: Any) -> None:
    dataset = Dataset.open(noisy_folder)
    record = json.loads(json.dumps(dataset.metadata(), allow_nan=False))
    assert record["@type"] == "dcat:Dataset"
    prefixes = {key.split(":")[0] for key in record if not key.startswith("@")}
    assert prefixes <= set(record["@context"])
    assert record["dct:title"] == "Blood pressure"
    assert record["dct:issued"]["@value"].startswith("2023-11-14T")
    assert record["trimask:rows"] == 400
    assert record["trimask:refusals"] == [
        {"trimask:role": "R1", "trimask:reason": "bad_component", "trimask:count": 1}
    ]
    assert [item["trimask:epsilon"] for item in record["trimask:guarantee"]] == [1.0, 1.0]
    (file,) = record["dcat:distribution"]
    assert file["dcat:byteSize"] == dataset.path.stat().st_size
    assert file["spdx:checksum"]["spdx:checksumValue"] == dataset.manifest.files[0].sha256
    assert "signed by the collector" in record["dct:provenance"]["dct:description"]
    assert "came together, from an institution" in record["dct:provenance"]["dct:description"]
    variables = {item["schema:name"]: item for item in record["schema:variableMeasured"]}
    assert list(variables) == dataset.names
    sbp, west, log = variables["sbp"], variables["region_west"], variables["log_bmi"]
    assert (sbp["schema:minValue"], sbp["schema:maxValue"], sbp["schema:unitText"]) == (80, 200, "mmHg")
    assert (west["schema:minValue"], west["schema:maxValue"]) == (0, 1)
    assert west["trimask:indicates"] == {"trimask:attribute": "region", "trimask:level": "west"}
    assert log["schema:maxValue"] == pytest.approx(np.log(45))
    assert log["prov:wasDerivedFrom"] == ["bmi"]
    # No licence is claimed that nobody gave.
    assert "dct:license" not in record
    assert "no licence" in record["dct:rights"]
    chosen = "https://creativecommons.org/licenses/by/4.0/"
    assert dataset.metadata(chosen)["dct:license"] == {"@id": chosen}
    licensed = replace(dataset.manifest, study=replace(dataset.manifest.study, licence=chosen))
    assert describe_dataset(licensed)["dct:license"] == {"@id": chosen}
