"""The pictures: drawn without a screen, with what they claim to show."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from trimask import Dataset, fit, plot
from trimask.errors import ParameterError
from trimask.moments.moments import Moments
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.masking import masked_noise
from trimask_theory.planning.planner import Target, standard_error

FORMULA = "sbp ~ age + bmi + smoker + C(region)"


@pytest.fixture(autouse=True)
def no_screen() -> Iterator[None]:
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fits(noisy_folder: Path, noisy: Any, people: Callable[..., pd.DataFrame]) -> list[fit.OLSResults]:
    dataset = Dataset.open(noisy_folder)
    truth = fit.ols_from_rows(people(400, 1), noisy.study, FORMULA)
    return [truth, fit.ols(dataset, FORMULA), fit.naive_ols(dataset, FORMULA)]


def test_three_fits_side_by_side(fits: list[fit.OLSResults], tmp_path: Path) -> None:
    ax = plot.coefficients(*fits)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == list(fits[1].names[1:])
    assert any(text.get_text().startswith(f"{fits[1].params['age']:.3f}"[:4]) for text in ax.texts)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "raw rows (truth)",
        "release",
        "naive: noise ignored",
    ]
    # Marks are in units of half the release's interval.
    marks = [line for line in ax.get_lines() if line.get_marker() == "o"]
    reach = (fits[1].conf_int()[1] - fits[1].conf_int()[0]) / 2
    np.testing.assert_allclose(marks[0].get_xdata(), (fits[1].params / reach)[1:], rtol=1e-9)
    path = tmp_path / "report.png"
    ax.figure.savefig(path)
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_two_releases_are_told_apart_and_numbers_have_the_tables_figures(fits: list[fit.OLSResults]) -> None:
    ax = plot.coefficients(fits[1], fits[1], title="twice")
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["release 1", "release 2"]
    colours = {line.get_color() for line in ax.lines if line.get_marker() == "o"}
    assert len(colours) == 2
    shown = [text.get_text() for text in ax.texts]
    row = next(row for row in fits[1].blocks(0.05)[0].rows if row[0] == "age")
    assert f"{row[1]}  [{row[-2]}, {row[-1]}]" in shown


def test_own_axes_one_fit_and_the_intercept(fits: list[fit.OLSResults]) -> None:
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert plot.coefficients(fits[0], ax=ax, intercept=True, title="Mine") is ax
    assert len(ax.get_yticklabels()) == 6
    assert ax.get_title(loc="left") == "Mine"


def test_fits_must_be_of_one_formula(fits: list[fit.OLSResults], noisy_folder: Path) -> None:
    other = fit.ols(Dataset.open(noisy_folder), "sbp ~ age")
    with pytest.raises(ParameterError, match="same formula"):
        plot.coefficients(fits[0], other)
    with pytest.raises(ParameterError, match="at least one"):
        plot.coefficients()
    with pytest.raises(ParameterError, match="alpha"):
        plot.coefficients(fits[0], alpha=2)


def test_importing_trimask_imports_nothing_heavy() -> None:
    code = (
        "import sys, trimask; heavy = {'numpy', 'pandas', 'scipy', 'matplotlib', 'grpc', 'pyarrow'} & set(sys.modules);"
        "assert not heavy, heavy; assert set(trimask.__all__) <= set(dir(trimask));"
        "trimask.fit.ols, trimask.plot.coefficients, trimask.connect, trimask.Dataset;"
        "assert 'matplotlib' not in sys.modules; assert 'trimask_theory.masking.masked_noise' not in sys.modules;"
        "[getattr(trimask, name) for name in trimask.__all__]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    import trimask

    with pytest.raises(AttributeError, match="nothing"):
        _ = trimask.nothing


def test_two_stage_and_ridge_fits_have_their_own_marks(noisy_folder: Path) -> None:
    dataset = Dataset.open(noisy_folder)
    ax = plot.coefficients(fit.ols(dataset, "sbp ~ age"), fit.ridge(dataset, "sbp ~ age", 0.1))
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["release", "ridge, penalty 0.1"]


def test_scree_draws_the_floor_and_hollow_marks_below_it() -> None:
    schema = Schema(tuple(Attribute(name, "continuous", -1, 1) for name in "abc"))
    gram = 1000 * np.diag([1.0, 0.3, 0.1, 0.01])
    result = fit.pca(Moments(schema, gram, 1000, 0.5), standardize=False)
    assert 0.01 < result.noise_floor < 0.1
    ax = plot.scree(result)
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text() == f"noise floor {result.noise_floor:.3g}"
    marks = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert [len(line.get_xdata()) for line in marks] == [2, 1]
    assert marks[1].get_markerfacecolor() == "white"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["PC1", "PC2", "PC3"]
    exact = plot.scree(fit.pca(Moments(schema, gram, 1000, 0.0)), title="Mine")
    assert exact.get_legend() is None
    assert exact.get_title(loc="left") == "Mine"
    with pytest.raises(ParameterError, match=r"fit\.pca"):
        plot.scree(3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="alpha"):
        plot.scree(result, alpha=0)


def test_precision_is_the_planners(tmp_path: Path) -> None:
    ax = plot.precision(epsilon=1, delta=1e-6, attributes=6, rows=[500, 5000, 50000], release_sizes=[1024])
    target = Target(1, 1e-6, 6, 50000)
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    pooled = standard_error(target, masked_noise.calibrate(1, 1e-6, 50000, 6).sigma)
    blocks = standard_error(target, masked_noise.calibrate(1, 1e-6, 1024, 6).sigma)
    assert lines["one pooled release"].get_ydata()[-1] == pytest.approx(pooled)  # type: ignore[index]
    assert lines["releases of 1,024 rows"].get_ydata()[-1] == pytest.approx(blocks)  # type: ignore[index]
    assert lines["releases of 1,024 rows"].get_xdata()[0] == 1024  # type: ignore[index]
    assert lines["no noise: sampling alone"].get_ydata()[-1] == pytest.approx(standard_error(target, 0.0))  # type: ignore[index]
    ax.figure.savefig(tmp_path / "plan.png")
    with pytest.raises(ParameterError, match="more than the 6 attributes"):
        plot.precision(epsilon=1, delta=1e-6, attributes=6, rows=[5])
    with pytest.raises(ParameterError, match="at most 3"):
        plot.precision(epsilon=1, delta=1e-6, attributes=6, release_sizes=[100, 200, 300, 400])
