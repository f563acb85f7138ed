"""docs/researchers.md and its reference: their code runs, in their order, on a small study like the one described."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import trimask
from trimask import Dataset
from trimask.data.connection import DatasetInfo
from trimask_core.study.schema import Attribute, Schema

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (DOCS / "researchers.md", DOCS / "researchers-reference.md")  # the second goes on from the first
SCHEMA = Schema(
    (
        Attribute("systolic", "continuous", 80, 200, unit="mmHg"),
        Attribute("age", "integer", 18, 80, unit="years"),
        Attribute("bmi", "continuous", 15, 45),
        Attribute("salt", "continuous", 0, 20, unit="g/day"),
        Attribute("smoker", "binary"),
        Attribute("leaflet", "binary"),
        Attribute("activity", "categorical", levels=("low", "medium", "high")),
    )
)


def _answers(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, bmi = rng.integers(18, 81, n), np.clip(rng.normal(27, 5, n), 15, 45)
    smoker, leaflet = rng.random(n) < 0.3, rng.random(n) < 0.5
    salt = np.clip(11 - 4 * leaflet + rng.normal(0, 2, n), 0, 20)
    activity = rng.choice(["low", "medium", "high"], n, p=[0.4, 0.35, 0.25])
    systolic = 80 + 0.5 * age + 0.6 * bmi + 1.2 * salt + 6 * smoker - 4 * (activity == "high")
    systolic = np.clip(systolic + rng.normal(0, 8, n), 80, 200)
    return pd.DataFrame(
        {"systolic": systolic, "age": age, "bmi": bmi, "salt": salt, "smoker": smoker, "leaflet": leaflet,
         "activity": activity}
    )  # fmt: skip


class _Collector:
    """What the page asks of a connection, answered from folders."""

    def __init__(self, datasets: list[Dataset]) -> None:
        self._found = {dataset.id: dataset for dataset in datasets}

    def __enter__(self) -> _Collector:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def datasets(self) -> list[DatasetInfo]:
        return [
            DatasetInfo(
                d.id, d.manifest.study_id, d.manifest.title, d.rows, len(d.columns), d.manifest.published_ms
            )
            for d in self._found.values()
        ]

    def dataset(self, dataset_id: str) -> Dataset:
        return self._found[dataset_id]


@pytest.fixture(scope="module")
def releases(
    signed_study: Callable[..., Any],
    write_release: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Dataset]:
    folder, study = tmp_path_factory.mktemp("page"), signed_study(schema=SCHEMA, sigma=0.15)
    first = Dataset.open(write_release(folder / "1", study, _answers(3000, 1), seed=1))
    later = write_release(
        folder / "2", study, _answers(2000, 2), seed=2, release=2, previous=first.manifest.sha256
    )
    return [first, Dataset.open(later)]


@pytest.fixture(autouse=True)
def no_screen() -> Iterator[None]:
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    yield
    plt.close("all")


@pytest.mark.filterwarnings(
    "ignore:weights by:UserWarning"
)  # of columns whose product the page does not declare
def test_the_pages_run(
    releases: list[Dataset],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert all(hasattr(trimask.Connection, name) for name in ("datasets", "dataset", "__enter__"))
    monkeypatch.setattr(trimask, "connect", lambda _target: _Collector(releases))
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for page in PAGES:
        blocks = re.findall(
            r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        assert len(blocks) >= 5
        for number, block in enumerate(blocks):
            exec(compile(block, f"{page.name}, block {number + 1}", "exec"), space)  # noqa: S102  our own page
    printed = capsys.readouterr().out
    for words in (
        "Rows are not people", "did you mean age?", "declare it in the study", "add up to the intercept",
        "first stage", "Diagnostics", "F(2, 4,993)",
    ):  # fmt: skip
        assert words in printed
    for picture in ("coefficients.png", "scree.png", "precision.png"):
        assert (tmp_path / picture).read_bytes()[:4] == b"\x89PNG"
    latex = (tmp_path / "table.tex").read_text()
    assert latex.startswith(r"\begin{tabular}{lrrrrrrrr}")
    assert r"C(activity){[}high{]}" in latex
    assert "| age |" in (tmp_path / "table.md").read_text()
    # The models that the page prints find what was put in: five standard errors, so 1e-6 a coefficient.
    both = space["both"]
    for name, truth in {
        "age": 0.5,
        "bmi": 0.6,
        "salt": 1.2,
        "smoker": 6.0,
        "C(activity)[high]": -4.0,
    }.items():
        assert abs(both.params[name] - truth) < 5 * both.bse[name]


def test_the_pages_show_pictures_that_are_there() -> None:
    shown = [
        name
        for page in PAGES
        for name in re.findall(r"\]\((images/[^)]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert len(shown) >= 3
    for name in shown:
        assert (DOCS / name).read_bytes()[:4] == b"\x89PNG"
