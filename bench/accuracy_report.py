"""The errors as a table and as a picture."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from bench.accuracy_scores import Row, Score
from bench.accuracy_setting import ATTRIBUTES, DELTA, EPSILONS, PEOPLE
from bench.plot_style import plain, save

__all__ = ["draw", "table"]


def _cell(score: Score | None) -> str:
    return "-" if score is None else f"{score.error:.3g} ± {score.standard_error:.1g}"


def _ratio(score: Score | None, failures: int | None) -> str:
    if score is None or score.ratio is None:
        return "none" if failures else "-"
    return f"{score.ratio:,.3g}" + (" (median)" if score.ratio_of == "medians" else "")


def table(rows: list[Row], title: str = "Error against the fit without privacy") -> Table:
    """One line a method and epsilon."""
    table = Table(title=f"{title}; ratios are to the central noisy Gram")
    heads = (
        "epsilon", "method", "sigma", "moments", "ratio", "OLS rms error", "ratio", "failed", "PCA sin²", "ratio",
    )  # fmt: skip
    for head in heads:
        table.add_column(head, justify="left" if head == "method" else "right", no_wrap=True)
    for i, row in enumerate(rows):
        last = i + 1 == len(rows) or rows[i + 1].epsilon != row.epsilon
        table.add_row(
            f"{row.epsilon:g}", row.method, "-" if row.sigma is None else f"{row.sigma:.4g}",
            _cell(row.moments), _ratio(row.moments, 0), _cell(row.ols), _ratio(row.ols, row.failures),
            "-" if row.failures is None else f"{row.failures / row.repetitions:.2%}",
            _cell(row.pca), _ratio(row.pca, 0), end_section=last,
        )  # fmt: skip
    return table


def draw(rows: list[Row], path: Path) -> None:
    """Two panels over epsilon: coefficients (hollow where fits failed) and the leading direction."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    # Okabe and Ito's colours, told apart by colour-blind readers; methods also differ by marker.
    looks = [
        ("#000000", "o"), ("#0072B2", "s"), ("#56B4E9", "D"), ("#009E73", "^"), ("#E69F00", "v"), ("#D55E00", "P"),
        ("#CC79A7", "X"), ("#999999", "<"), ("#6A3D9A", ">"), ("#7A5C00", "*"), ("#B22222", "h"),
        ("#2F4F4F", "d"), ("#8FBC3F", "p"),
    ]  # fmt: skip
    figure, axes = plt.subplots(1, 2, figsize=(12.5, 5.2))
    for look, method in zip(looks, dict.fromkeys(row.method for row in rows), strict=False):
        mine = [row for row in rows if row.method == method]
        for axis, name in zip(axes, ("ols", "pca"), strict=True):
            points = [(row.epsilon, getattr(row, name), row.failures) for row in mine if getattr(row, name)]
            # An error over the few fits that came out is not comparable: shown only where most did.
            points = [point for point in points if name == "pca" or point[1].median is not None]
            where, heights = [point[0] for point in points], [point[1].error for point in points]
            if name == "ols":
                heights = [point[1].median for point in points]
            axis.plot(where, heights, color=look[0], linewidth=1.3, alpha=0.8)
            for x, y, point in zip(where, heights, points, strict=True):
                hollow = name == "ols" and point[2]
                axis.plot(
                    x, y, look[1], color=look[0], markersize=7, markerfacecolor="white" if hollow else look[0]
                )
        axes[1].plot([], [], look[1] + "-", color=look[0], label=method)
    for axis, title in zip(
        axes, ("Coefficients: median rms error", "Leading direction: mean sin²"), strict=True
    ):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.set_xlabel("epsilon")
        axis.set_title(title, loc="left", fontsize=11, fontweight="bold")
        plain(axis)
    axes[1].axhline(1 - 1 / ATTRIBUTES, color="#888888", linewidth=1.0, linestyle=(0, (5, 3)))
    axes[1].annotate(
        "a direction drawn blindly", (5, 1 - 1 / ATTRIBUTES), xytext=(0, 4), textcoords="offset points",
        ha="right", fontsize=8.5, color="#666666",
    )  # fmt: skip
    figure.legend(*axes[1].get_legend_handles_labels(), loc="center right", fontsize=9, frameon=False)
    figure.text(
        0.01, 0.01,
        f"n = {PEOPLE:,}, {ATTRIBUTES} attributes, delta = {DELTA:g}, a person's whole row replaced. "
        "Hollow: some fits failed (counted as infinitely far); no point: most failed.",
        fontsize=8.5, color="#555555",
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0.04, 0.8, 1), w_pad=2.0)
    save(figure, path)
