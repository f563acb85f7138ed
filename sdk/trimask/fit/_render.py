"""The coefficient table as text and as HTML."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimask.fit.results import OLSResults

__all__ = ["html", "text"]

_TITLES = {
    "release": "Least squares on a masked release, noise corrected",
    "naive": "Least squares on a masked release, noise ignored",
    "rows": "Least squares on raw rows",
}


def _facts(result: OLSResults) -> list[tuple[str, str]]:
    unit = f" ({result.unit})" if result.unit else ""
    return [
        ("model", result.formula),
        ("response", result.response + unit),
        ("data", result.label),
        ("rows", f"{result.nobs:,}"),
        ("noise sigma", f"{result.sigma:.4g}"),
        ("R-squared", "not known" if math.isnan(result.rsquared) else f"{result.rsquared:.3f}"),
    ]


def _cells(result: OLSResults, alpha: float) -> tuple[list[str], list[list[str]]]:
    """Header and rows. Figures of one row share the decimals that suit its standard error."""
    table = result.table(alpha)
    rows = []
    for name, values in zip(result.names, table.to_numpy(), strict=True):
        coef, error, sampling, privacy, t, p, low, high = (float(value) for value in values)
        reach = error if error > 0 and math.isfinite(error) else abs(coef) or 1.0
        places = min(max(0, 2 - math.floor(math.log10(reach))), 12)
        fixed = [f"{value:.{places}f}" for value in (coef, error, sampling, privacy)]
        ends = [f"{value:.{places}f}" for value in (low, high)]
        rows.append([name, *fixed, f"{t:.2f}", f"{p:.3f}", *ends])
    return ["", *map(str, table.columns)], rows


def text(result: OLSResults, alpha: float) -> str:
    """A plain table, as wide as it needs to be."""
    header, rows = _cells(result, alpha)
    widths = [max(len(row[j]) for row in [header, *rows]) for j in range(len(header))]

    def line(cells: list[str]) -> str:
        first, *rest = cells
        return "  ".join(
            [first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(rest, widths[1:], strict=True))]
        )

    rule = "-" * len(line(header))
    facts = [f"{name + ':':<13}{value}" for name, value in _facts(result)]
    body = [_TITLES[result.basis], *facts, rule, line(header), rule, *map(line, rows), rule, *result.notes]
    return "\n".join(body)


def html(result: OLSResults, alpha: float) -> str:
    """The same for a notebook; every name is escaped, since a study's owner chose it."""
    header, rows = _cells(result, alpha)
    facts = " &middot; ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in _facts(result))
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(first)}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    notes = "".join(f"<div><small>{escape(note)}</small></div>" for note in result.notes)
    return (
        f"<div><b>{_TITLES[result.basis]}</b><div><small>{facts}</small></div>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
    )
