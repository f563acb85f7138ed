"""What the demo prints and saves: truth, release and naive fit side by side, the guarantee, who would have to collude.

What can be checked and said differs by suite; only a demo knows the rows.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trimask import fit, plot
from trimask.data.dataset import Dataset
from trimask.errors import NoiseExceedsSignal
from trimask.fit import OLSResults
from trimask.moments.moments import row_moments
from trimask_client.table import Answers
from trimask_core.basics.errors import TrimaskError
from trimask_core.study.definition import Study
from trimask_core.submit.submission import upload_bytes_of
from trimask_core.suites import collusion_of
from trimask_terminal.study_view import in_short

_DATA_FILES = {"rows": "dataset.parquet", "moments": "moments.json"}


def gram_error(study: Study, dataset: Dataset, people: Sequence[Answers]) -> float:
    """The largest difference of a sum of products, relative to the largest sum.

    In the moments suite in whole numbers: without noise totals must be those of the encoded rows, not nearly but exactly.
    """
    if study.suite.name == "rows":
        gram = row_moments(people, study.schema, weight=study.weight).gram
        return float(np.abs(dataset.gram(units="scaled").to_numpy() - gram).max() / np.abs(gram).max())
    layout, sigma = study.moments.layout, study.protection.sigma
    exact, found = _totals(study, people), _published(dataset)
    if not sigma and found != exact:
        raise TrimaskError("the release without noise is not the sum of the encoded rows")
    widths = [1] * (layout.root is None) + [column.width for column in layout.published]
    scales = [w * v for j, w in enumerate(widths) for v in widths[j:]][-layout.totals :]
    noises = layout.noises(sigma, study.moments.honest_providers)
    entries = list(zip(found, exact, scales, noises, strict=True))
    away = max(abs(math.ldexp(got, -noise.shift) - true) / scale for got, true, scale, noise in entries)
    return away / max(abs(true) / scale for _, true, scale, _ in entries)


def _collected(study: Study) -> str:
    """How the answers were combined, in words."""
    if study.suite.name == "rows":
        return f"blocks of {study.rows.block_rows}"
    return f"{study.moments.layout.elements} numbers a report, in {len(study.right)} shares"


def _exact(study: Study, error: float) -> tuple[str, str]:
    """What an exact release is, and how near it is to the rows."""
    if study.suite.name == "rows":
        return (
            "Exact mode: masked by random rotations, [bold]without differential privacy[/bold].",
            f"The Gram matrix of the release equals X^T X to {error:.1e} relative.",
        )
    if error:
        raise ValueError("a release without noise was not compared with its rows")
    return (
        "Exact mode: summed in shares, [bold]without differential privacy[/bold].",
        "Every sum and sum of products equals that of the encoded rows, as a whole number.",
    )


def _totals(study: Study, people: Sequence[Answers]) -> list[int]:
    """Sums of z and of products of z, weighted where the study is, over all encoded rows, in whole numbers."""
    layout = study.moments.layout
    rows, q = [layout.encode(answers).counted for answers in people], range(layout.q + 1)
    every = [sum(row[j] * row[k] for row in rows) for j in q for k in q[j:]]
    return every[-layout.totals :]  # without the number of people, which is public


def _published(dataset: Dataset) -> list[int]:
    """The totals of a release that `Dataset` has verified, on their grids."""
    data = json.loads(dataset.path.read_text(encoding="utf-8"))
    return [*data["first"], *data["products"]]


def upload_words(study: Study) -> str:
    """What a device sent."""
    seeds = len(study.right) - 1
    return f"A device sent {upload_bytes_of(study) / 1000:.1f} kB, {seeds} seed{'s' if seeds > 1 else ''} of 32 bytes in it."


@dataclass(frozen=True)
class Outcome:
    """The demo's results. `release` is None where the noise exceeds the signal; `problem` says so."""

    study: Study
    dataset: Dataset
    truth: OLSResults
    release: OLSResults | None
    naive: OLSResults | None
    problem: str
    gram_error: float
    out: Path
    seconds: dict[str, float]
    status: dict[str, Any]
    way_on: str = ""
    """How many people, or which epsilon, would show what this release does not."""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        protection = self.study.protection
        data = {
            "study_id": self.study.id.hex(),
            "suite": self.study.suite.name,
            "dataset_id": self.dataset.id,
            "participants": self.dataset.rows,
            "effective_participants": self.dataset.moments.rows,
            "sigma": self.dataset.sigma,
            "guarantee": {
                "public": protection.public and protection.public.to_dict(),
                "collector": protection.collector and protection.collector.to_dict(),
            },
            "collusion": collusion_of(self.study).to_dict(),
            "fits": {
                "rows": self.truth.to_dict(),
                "release": self.release and self.release.to_dict(),
                "naive": self.naive and self.naive.to_dict(),
            },
            "problem": self.problem,
            "effects_seen": {"raw rows": seen(self.truth), "release": seen(self.release)},
            "way_on": self.way_on,
            "gram_relative_error": self.gram_error,
            "seconds": self.seconds,
            "status": self.status,
        }
        return {name: readable(value) for name, value in data.items()}


def readable(value: Any) -> Any:
    """JSON has no infinity: a standard error or a limit that noise leaves unbounded is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: readable(item) for name, item in value.items()}
    return [readable(item) for item in value] if isinstance(value, list | tuple) else value


def effects(result: OLSResults) -> list[str]:
    """The coefficients of a fit but for its intercept."""
    return [name for name in result.names if name != "Intercept"]


def seen(result: OLSResults | None) -> list[str]:
    """Those whose 95 % interval leaves zero out."""
    if result is None:
        return []
    ends = result.conf_int(0.05)
    return [name for name in effects(result) if not ends.loc[name].iloc[0] <= 0 <= ends.loc[name].iloc[1]]


def take_away(outcome: Outcome) -> str:
    """What to take away from one suite's run; what it would take is `Outcome.way_on`."""
    total, shown, raw = len(effects(outcome.truth)), len(seen(outcome.release)), len(seen(outcome.truth))
    return f"{shown} of {total} effects are seen in the release, {raw} in raw rows (95 % intervals that leave 0 out)."


def keep_earlier(out: Path) -> Path | None:
    """Move an earlier demo's folder aside, to the first of DIR.1, DIR.2, ... that is free; where it is now."""
    out = out.resolve()
    if not (out / "report.json").is_file():
        return None
    places = (out.with_name(f"{out.name}.{number}") for number in itertools.count(1))
    return out.rename(next(place for place in places if not place.exists()))


def make_outcome(
    *,
    study: Study,
    dataset: Dataset,
    people: Sequence[Answers],
    formula: str,
    out: Path,
    seconds: dict[str, float],
    status: dict[str, Any],
    way_on: Callable[[], str],
) -> Outcome:
    """Fit the three models, save report.json and report.png; `way_on` is asked where the release hides an effect."""
    import pandas as pd

    truth = fit.ols_from_rows(pd.DataFrame(list(people)), study, formula)
    release, naive, problem = None, None, ""
    try:
        release = fit.ols(dataset, formula)
        naive = fit.naive_ols(dataset, formula)
    except NoiseExceedsSignal as error:
        problem = str(error)
    outcome = Outcome(
        study,
        dataset,
        truth,
        release,
        naive,
        problem,
        gram_error(study, dataset, people),
        out,
        seconds,
        status,
        "" if set(seen(truth)) <= set(seen(release)) else way_on(),
    )
    (out / "report.json").write_text(json.dumps(outcome.to_dict(), indent=1, allow_nan=False) + "\n")
    _save_plot(outcome, out / "report.png")
    return outcome


def _save_plot(outcome: Outcome, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fits = [result for result in (outcome.truth, outcome.release, outcome.naive) if result is not None]
    plot.coefficients(
        *fits, title=f"{outcome.study.title}: {outcome.dataset.rows:,} people, nobody's row seen"
    )
    plt.savefig(path, dpi=150)
    plt.close()


def print_report(outcome: Outcome, console: Console) -> None:
    """The report for a person."""
    study, protection = outcome.study, outcome.study.protection
    console.rule(f"[bold]{escape(study.title)}")
    console.print(
        f"{outcome.dataset.rows:,} people, {study.attributes} columns, {_collected(study)}; "
        f"submitted in {outcome.seconds['submit']:.1f} s, all in {outcome.seconds['total']:.1f} s. "
        f"{upload_words(study)}"
    )
    if study.weight is not None:
        worth = f"{outcome.dataset.moments.rows:,} of {outcome.dataset.rows:,} people in effect"
        console.print(
            f"Weighted by {escape(study.weight.words(study.schema))}: {worth}, and all fits are weighted."
        )
    console.print(_fits_table(outcome))
    if outcome.problem:
        console.print(outcome.problem, style="bold yellow", markup=False)
    console.rule("What is promised")
    if protection.public is None:
        for sentence in _exact(study, outcome.gram_error):
            console.print(sentence)
    else:
        console.print(f"[bold]To the public[/bold]: {escape(str(protection.public))}", highlight=False)
    if protection.collector is not None:
        console.print(
            f"[bold]Towards the collector[/bold], who sees a block: {escape(str(protection.collector))}",
            highlight=False,
        )
    console.rule("Who would have to collude")
    for sentence in in_short(collusion_of(study)):
        console.print(sentence, markup=False, highlight=False)
    console.rule()
    for sentence in filter(None, (take_away(outcome), outcome.way_on)):
        console.print(sentence, style="bold", markup=False, highlight=False)
    console.print(
        f"Saved in {outcome.out}: {_DATA_FILES[study.suite.name]}, counted.bin, manifest.json, manifest.sig, "
        f"README.md, report.json, report.png; in Python trimask.Dataset.open('{outcome.out}') is what trimask.fit takes",
        style="dim",
    )


def _fits_table(outcome: Outcome) -> Table:
    table = numbers_table(
        "raw rows", "release", "privacy", "noise ignored", title=escape(outcome.truth.formula),
        caption="estimate ± standard error; privacy: its part of the release's error",
    )  # fmt: skip
    for j, name in enumerate(outcome.truth.names):
        cells = [escape(name), _cell(outcome.truth, j), "-", "-", "-"]
        if outcome.release is not None:
            cells[2] = _cell(outcome.release, j)
            cells[3] = f"{outcome.release.bse_privacy.iloc[j]:.3g}"
        if outcome.naive is not None:
            cells[4] = _cell(outcome.naive, j)
        table.add_row(*cells)
    return table


def numbers_table(*headings: str, title: str, caption: str = "") -> Table:
    """A table of numbers with a column of names before them."""
    table = Table(
        title=title, title_style="bold", caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1),
        collapse_padding=True,
    )  # fmt: skip
    table.add_column("", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cell(result: OLSResults, j: int) -> str:
    return f"{result.params.iloc[j]:.3g} ± {result.bse.iloc[j]:.2g}"
