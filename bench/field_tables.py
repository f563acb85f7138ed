"""What `python -m bench.field` prints of its cells: tables, how near its goals are, and docs/accuracy.md's part of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

__all__ = [
    "CANNOT",
    "CENTRAL",
    "DRAFTED",
    "HINDSIGHT",
    "LIKE",
    "NOTHING",
    "WAVES",
    "Cell",
    "Quartiles",
    "draw",
    "page",
    "summary",
    "tables",
]

LIKE, DRAFTED = "like for like", "as drafted"
CENTRAL, WAVES = "central noisy Gram", "moments, two waves"
HINDSIGHT, NOTHING = "Gaussian mixing, best k in hindsight", "no slopes at all (not private: the mean)"
CANNOT = {
    "OpenDP's own regression": "takes one regressor only",
    "SmartNoise": "does not install beside these versions of pandas and OpenDP",
}
Quartiles = tuple[float | None, float | None, float | None]


@dataclass(frozen=True)
class Cell:
    """One method on one file at one epsilon; None where it is infinite or there is nothing."""

    table: str
    file: str
    epsilon: float
    method: str
    draws: int
    failed: int
    coefficient: Quartiles
    test: Quartiles
    inflation: float | None


def tables(cells: list[Cell]) -> Iterator[str]:
    """Markdown: a table a file and kind, a row a method, a column an epsilon."""
    for table, file in itertools.product((LIKE, DRAFTED), dict.fromkeys(cell.file for cell in cells)):
        held = {
            (cell.method, cell.epsilon): cell for cell in cells if (cell.table, cell.file) == (table, file)
        }
        epsilons = sorted({epsilon for _, epsilon in held})
        yield f"\n**{file}, {table}**\n"
        yield f"| method | {' | '.join(f'ε = {epsilon:g}' for epsilon in epsilons)} |"
        yield f"|---|{'--:|' * len(epsilons)}"
        for method in dict.fromkeys(method for method, _ in held):
            yield f"| {method} | {' | '.join(_words(held[method, epsilon]) for epsilon in epsilons)} |"
    for method, why in CANNOT.items():
        yield f"\n{method} cannot be run: it {why}."


def _words(cell: Cell) -> str:
    low, middle, high = map(_number, cell.coefficient)
    failed = f", {cell.failed / cell.draws:.0%} no answer" if cell.failed else ""
    return f"{middle} ({low} to {high}), {_number(cell.test[1])}, ×{_number(cell.inflation)}{failed}"


def _number(value: float | None) -> str:
    return "∞" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def summary(cells: list[Cell], ratios: dict[tuple[str, float], float | None]) -> dict[str, Any]:
    """The two goals: how far ours is from sqrt(K1 / h) of the central error, and where two waves are ahead of all others."""
    law = math.sqrt(2)  # two right providers of which one is honest, as a draft has it
    near = {
        f"{file}, {epsilon:g}": None if ratio is None else ratio / law
        for (file, epsilon), ratio in ratios.items()
    }
    ahead: dict[str, dict[str, str]] = {}
    for (file, epsilon), group in itertools.groupby(
        sorted((cell for cell in cells if cell.table == DRAFTED), key=lambda cell: (cell.file, cell.epsilon)),
        key=lambda cell: (cell.file, cell.epsilon),
    ):
        found = {cell.method: cell.coefficient[1] or math.inf for cell in group if cell.method != NOTHING}
        others = {name: value for name, value in found.items() if not name.startswith(("moments", "rows"))}
        best = min(others, key=lambda name: others[name])
        won = found[WAVES] < others[best]
        ahead.setdefault(file, {})[f"{epsilon:g}"] = (
            "" if won else f"{best} {others[best] / found[WAVES]:.2g}"
        )
    return {
        "over_root_2_of_central": near,
        "within_3_percent": sum(value is not None and abs(value - 1) <= 0.03 for value in near.values()),
        "ahead_or_who_is": ahead,
        "files_ahead_from_1_on": [
            file for file, by in ahead.items() if not any(by[one] for one in by if float(one) >= 1)
        ],
    }


def draw(cells: list[Cell], path: Path) -> None:
    """Median distance against epsilon, a panel a file, as drafted."""
    drafted = [cell for cell in cells if cell.table == DRAFTED]
    files = list(dict.fromkeys(cell.file for cell in drafted))
    methods = list(dict.fromkeys(cell.method for cell in drafted))
    figure = Figure(figsize=(3 * math.ceil(len(files) / 2), 7), layout="constrained")
    panels = np.ravel(figure.subplots(2, math.ceil(len(files) / 2), sharex=True))
    for panel, file in zip(panels, files, strict=False):
        panel.set(title=file, xscale="log", yscale="log", xlabel="epsilon")
        for number, method in enumerate(methods):
            line = [cell for cell in drafted if (cell.file, cell.method) == (file, method)]
            ours = method.startswith(("moments", "rows"))
            panel.plot(
                [cell.epsilon for cell in line], [cell.coefficient[1] or math.nan for cell in line], label=method,
                marker="os^vD*"[number % 6], markersize=4, linewidth=2.2 if ours else 1, linestyle="-" if ours else "--",
                color="black" if method == NOTHING else f"C{number % 10}",
            )  # fmt: skip
        panel.set_ylim(top=1e3)
    figure.supylabel("distance of slopes, in standard errors (median)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path, dpi=120)


_PAGE_FILES = ("diamonds", "CPS1988", "RandHIE", "STAR", "DoctorVisits")
_PAGE_METHODS = {
    WAVES: WAVES,
    "moments, draft default": "moments, draft default",
    "rows, two waves": "rows, two waves",
    CENTRAL: CENTRAL,
    "AdaSSP": "AdaSSP",
    "iterative Hessian mixing": "iterative Hessian mixing",
    "TukeyEM": "TukeyEM",
    "diffprivlib": "diffprivlib",
    NOTHING: "no slopes at all",
}
_SMALLEST = ("fair", "anes96", "diabetes")


def page(cells: Sequence[Cell], people: Mapping[str, int], goals: Mapping[str, Any]) -> Iterator[str]:
    """The table of docs/accuracy.md, *as drafted* at epsilon = 1, and the figures of its sentences."""
    held = {(cell.file, cell.method): cell for cell in cells if (cell.table, cell.epsilon) == (DRAFTED, 1.0)}
    files = [file for file in _PAGE_FILES if any(file == one for one, _ in held)]
    yield f"\n| ε = 1 | {' | '.join(f'{file}, {people[file]:,}' for file in files)} |"
    yield f"| --- |{' --: |' * len(files)}"
    for method, name in _PAGE_METHODS.items():
        yield f"| {name} | {' | '.join(_short(held.get((file, method))) for file in files)} |"
    yield ""
    yield from _ahead(goals["ahead_or_who_is"])
    yield from _near(goals["over_root_2_of_central"])
    nothing = {
        (cell.file, cell.epsilon): cell for cell in cells if (cell.table, cell.method) == (DRAFTED, NOTHING)
    }
    beaten = [
        f"{file} at {epsilon:g}"
        for (file, epsilon), none in nothing.items()
        if all(
            (cell.coefficient[1] or math.inf) > (none.coefficient[1] or 0.0)
            for cell in cells
            if (cell.table, cell.file, cell.epsilon) == (DRAFTED, file, epsilon) and cell.method != NOTHING
        )
    ]
    yield f"all methods farther off than no slopes at all: {'; '.join(beaten) or 'nowhere'}"


def _short(cell: Cell | None) -> str:
    """The median distance and what privacy multiplies standard errors by; a dash where most draws have no answer."""
    if cell is None or cell.coefficient[1] is None:
        return "–"
    return f"{_number(cell.coefficient[1])}, ×{_number(cell.inflation)}"


def _ahead(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Where two waves of `moments` are ahead of every method that is not ours, and who is where they are not."""
    for words, small in (("larger", False), ("smallest", True)):
        for many, low, high in (
            (f"{words} files, ε of 1 or more", 1.0, math.inf),
            (f"{words} files, ε = 0.3", 0.0, 0.99),
        ):
            cases = {
                f"{file} at {epsilon}": who
                for file, by in found.items()
                for epsilon, who in by.items()
                if (file in _SMALLEST) == small and low <= float(epsilon) <= high
            }
            behind = [f"{case}: {_times(who)}" for case, who in cases.items() if who]
            yield f"{many}: ahead in {len(cases) - len(behind)} of {len(cases)} cells; {'; '.join(behind)}"


def _times(who: str) -> str:
    """Who is ahead, and how many times as far off two waves are; their share of the distance comes last in `who`."""
    name, _, share = who.rpartition(" ")
    return (
        f"{name}, {1 / float(share):.3g} times as far off as it"
        if float(share)
        else f"{name}; mostly no answer"
    )


def _near(near: Mapping[str, float | None]) -> Iterator[str]:
    """Like for like: where `moments` is within 3 % of sqrt(K1 / h) times the central error."""
    for words, small in (("larger", False), ("smallest", True)):
        some = {case: value for case, value in near.items() if (case.split(",")[0] in _SMALLEST) == small}
        off = {
            case: "no answer" if value is None else f"{value:.3g}"
            for case, value in some.items()
            if value is None or abs(value - 1) > 0.03
        }
        others = "; ".join(f"{case}: {value}" for case, value in off.items())
        yield f"{words} files, like for like within 3 %: {len(some) - len(off)} of {len(some)} cells; {others}"
