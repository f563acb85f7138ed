"""The bundled study in both suites, of the same people: the fits side by side, what each suite costs, and what to take away.

An effect is seen where its interval leaves zero out. How many people would show all of them is told by how errors go with n
people: the sampling part as n^-1/2, the part of the noise on totals as 1/n (suite `moments`).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trimask.fit import OLSResults
from trimask_cli.demo.report import Outcome, effects, numbers_table, readable, seen
from trimask_core.submit.submission import upload_bytes_of
from trimask_core.suites import collusion_of

# A change that people can picture, of each predictor of the bundled study.
_STEPS = {
    "age": (10, "10 years older"),
    "bmi": (5, "5 kg/m² heavier"),
    "salt": (5, "5 g more salt a day"),
    "smoker": (1, "smokes"),
    "C(activity)[medium]": (1, "medium activity, not low"),
    "C(activity)[high]": (1, "high activity, not low"),
}
_COLOURS = {"raw rows": "black", "rows": "#D55E00", "moments": "#0072B2"}
_MOST_PEOPLE = 10**9


def people_to_see_all(outcome: Outcome) -> int | None:
    """About how many people would show every effect that the raw rows show, in the moments suite; None: not by this rule."""
    release, people = outcome.release, outcome.dataset.rows
    if release is None:
        return None
    needed = people
    for name in seen(outcome.truth):
        wanted = abs(float(outcome.truth.params[name])) / 2
        sampling, privacy = float(release.bse_sampling[name]), float(release.bse_privacy[name])
        if not (math.isfinite(privacy) and wanted > 0):
            return None
        # wanted^2 = s^2 / t + p^2 / t^2 at t times the people.
        times = (sampling**2 + math.sqrt(sampling**4 + 4 * wanted**2 * privacy**2)) / (2 * wanted**2)
        needed = max(needed, math.ceil(people * times))
    return needed if needed < _MOST_PEOPLE else None


def take_away(rows: Outcome, moments: Outcome) -> str:
    """The one sentence at the end."""
    total = len(effects(moments.truth))
    words = (
        f"With {moments.dataset.rows:,} people and nobody's answers in one hand, {len(seen(moments.release))} of {total} "
        f"effects are seen in the verified moments, {len(seen(rows.release))} in TM²'s release and "
        f"{len(seen(moments.truth))} in raw rows."
    )
    needed = people_to_see_all(moments)
    if needed is not None and needed > moments.dataset.rows:
        words += (
            f" With about {float(f'{needed:.2g}'):,.0f} people the moments would show what the raw rows show."
        )
    return words


def save(rows: Outcome, moments: Outcome, out: Path) -> None:
    """report.json of both, and the picture."""
    (out / "report.json").write_text(json.dumps(to_dict(rows, moments), indent=1, allow_nan=False) + "\n")
    _save_picture(rows, moments, out / "report.png")


def to_dict(rows: Outcome, moments: Outcome) -> dict[str, Any]:
    """JSON-ready."""
    suites = {outcome.study.suite.name: outcome for outcome in (rows, moments)}
    return {
        "suites": {name: outcome.to_dict() for name, outcome in suites.items()},
        "effects_seen": {
            "raw rows": seen(moments.truth),
            **{name: seen(one.release) for name, one in suites.items()},
        },
        "costs": {name: readable(_costs(outcome)) for name, outcome in suites.items()},
        "take_away": take_away(rows, moments),
    }


def _costs(outcome: Outcome) -> dict[str, Any]:
    study, people = outcome.study, outcome.dataset.rows
    public, collector = study.protection.public, study.protection.collector
    epsilon = None if public is None else public.epsilon
    times = None
    if outcome.release is not None:
        pairs = [outcome.release.bse[name] / outcome.truth.bse[name] for name in effects(outcome.truth)]
        times = sorted(pairs)[len(pairs) // 2]
    cpu = outcome.seconds.get("cpu")
    return {
        "error_times_raw_rows": times,
        "epsilon_public": epsilon,
        "epsilon_collector": epsilon if collector is None else collector.epsilon,
        "institutions": 1 + len(study.right) + len(study.left),
        "together_see_answers": collusion_of(study).largest_safe + 1,
        "device_bytes": upload_bytes_of(study),
        "cpu_ms_a_person": None if cpu is None else 1000 * cpu / people,
        "seconds": outcome.seconds["total"],
    }


_COST_WORDS = {
    "error_times_raw_rows": ("standard errors, times those of raw rows (median)", "{:.1f}"),
    "epsilon_public": ("epsilon of what is published (less hides more)", "{:.3g}"),
    "epsilon_collector": ("epsilon of what the collector sees", "{:.3g}"),
    "institutions": ("institutions", "{}"),
    "together_see_answers": ("of them together could see answers, at least", "{}"),
    "device_bytes": ("bytes a device sends", "{:,}"),
    "cpu_ms_a_person": ("CPU of all nodes a person, sent together, ms", "{:.1f}"),
    "seconds": ("seconds of this run", "{:.1f}"),
}


def print_both(rows: Outcome, moments: Outcome, out: Path, console: Console) -> None:
    """The report for a person."""
    console.rule(
        f"[bold]{escape(moments.study.title)}: {moments.dataset.rows:,} people, asked once in each suite"
    )
    if moments.study.pilot is not None:
        asked = f"{moments.study.pilot.people:,} others, asked before"
        console.print(
            f"Devices shrink long rows; what that takes is corrected by a pilot: {asked}.", highlight=False
        )
    console.print(_fits(rows, moments))
    for outcome in (rows, moments):
        if outcome.problem:
            console.print(f"{outcome.study.suite.name}: {outcome.problem}", style="bold yellow", markup=False)
    console.print(_cost_table(rows, moments))
    console.rule("Who would have to collude")
    for name, outcome in (("TM² (rows)", rows), ("moments", moments)):
        console.print(f"[bold]{name}[/bold]: {escape(collusion_of(outcome.study).summary)}", highlight=False)
    console.rule()
    console.print(take_away(rows, moments), style="bold", highlight=False)
    console.print(
        f"Saved in {out}: report.png, report.json, and the datasets in rows/ and moments/; in Python "
        f"trimask.Dataset.open('{out}/moments') is what trimask.fit takes. One suite with all it promises: "
        "trimask demo --suite rows, or moments",
        style="dim",
        highlight=False,
    )


def _fits(rows: Outcome, moments: Outcome) -> Table:
    shown = {"raw rows": moments.truth, "TM² (rows)": rows.release, "moments": moments.release}
    table = numbers_table(
        *shown,
        title=escape(moments.truth.formula),
        caption="estimate ± standard error in mmHg; * where the 95 % interval leaves 0 out",
    )
    found = {heading: seen(result) for heading, result in shown.items()}
    for name in effects(moments.truth):
        step, words = _STEPS.get(name, (1, name))
        cells = [escape(words)]
        for heading, result in shown.items():
            star = "*" if name in found[heading] else " "
            cells.append("-" if result is None else f"{_times(step, result, name)}{star}")
        table.add_row(*cells)
    return table


def _times(step: float, result: OLSResults, name: str) -> str:
    return f"{step * result.params[name]:.2f} ± {step * result.bse[name]:.2f}"


def _cost_table(rows: Outcome, moments: Outcome) -> Table:
    table = numbers_table("TM² (rows)", "moments", title="What each costs")
    costs = [_costs(rows), _costs(moments)]
    for key, (words, form) in _COST_WORDS.items():
        values = [cost[key] for cost in costs]
        if any(value is not None for value in values):
            table.add_row(words, *("-" if value is None else form.format(value) for value in values))
    return table


def _save_picture(rows: Outcome, moments: Outcome, path: Path) -> None:
    """Each effect in mmHg, for a change that people can picture, with its 95 % interval: three ways to the same numbers."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shown = {"raw rows": moments.truth, "rows": rows.release, "moments": moments.release}
    labels = {
        "raw rows": "raw rows, which nobody has",
        "rows": "TM²'s release (rows)",
        "moments": "verified moments",
    }
    names = effects(moments.truth)
    figure, axes = plt.subplots(figsize=(8.5, 1.6 + 0.72 * len(names)), layout="constrained")
    for place, (way, result) in enumerate(shown.items()):
        if result is None:
            continue
        steps = [_STEPS.get(name, (1, name))[0] for name in names]
        middle = [step * result.params[name] for step, name in zip(steps, names, strict=True)]
        ends = result.conf_int(0.05)
        low = [step * ends.loc[name].iloc[0] for step, name in zip(steps, names, strict=True)]
        high = [step * ends.loc[name].iloc[1] for step, name in zip(steps, names, strict=True)]
        at = [-j + 0.25 * (1 - place) for j in range(len(names))]
        axes.hlines(at, low, high, color=_COLOURS[way], lw=2.5)
        axes.plot(middle, at, "o", color=_COLOURS[way], ms=6, label=labels[way])
    # An interval that the noise leaves wide is cut, so that the others can be read.
    reach = 2.5 * max(abs(step * moments.truth.params[name]) for step, name in zip(steps, names, strict=True))
    axes.set_xlim(-reach, reach)
    axes.axvline(0, color="#555555", lw=1)
    axes.set_yticks([-j for j in range(len(names))], [_STEPS.get(name, (1, name))[1] for name in names])
    axes.set_xlabel("change of systolic blood pressure, mmHg")
    axes.set_title(f"{moments.dataset.rows:,} people, nobody's answers seen")
    axes.grid(axis="x", alpha=0.25)
    axes.legend(loc="lower right", fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)
