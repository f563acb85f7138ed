"""How a result is shown: a title, facts, one or more tables and notes, as text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from trimask.moments.moments import SHRUNK

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Block:
    """A table ready to print: its header, whose first cell is over the row names, and its rows."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


def noise_notes(sigma: float) -> list[str]:
    """What is said of the noise, where there is some."""
    return ["The noise is corrected for; privacy is its part of the standard error."] if sigma else []


def of_data(sigma: float) -> str:
    """How a title ends: what the numbers are from."""
    return "in a release, noise corrected" if sigma else "without noise"


class Report:
    """A result that prints itself. Subclasses say what; `alpha` is one minus the level of intervals."""

    @property
    def title(self) -> str:
        """What was fitted, and whether the noise was corrected."""
        raise NotImplementedError

    @property
    def facts(self) -> Facts:
        """Name and value of what a reader should know first."""
        raise NotImplementedError

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the table should know."""
        raise NotImplementedError

    @property
    def caution(self) -> str:
        """That rows were shrunk, where they were: under every table and plot; a summary has it with the data."""
        data = dict(self.facts).get("data", "")
        return data[0].upper() + data[1:] + "." if SHRUNK in data else ""

    def blocks(self, alpha: float) -> list[Block]:
        """The tables."""
        raise NotImplementedError

    def summary(self, alpha: float = 0.05) -> str:
        """The result as text."""
        width = max((len(name) for name, _ in self.facts), default=0) + 2
        facts = [f"{name + ':':<{max(width, 13)}}{value}" for name, value in self.facts]
        body = [line for block in self.blocks(alpha) for line in _text(block)]
        return "\n".join([self.title, *facts, *body, *self.notes])

    def to_markdown(self, alpha: float = 0.05) -> str:
        """The tables for a page or a repository."""
        caution = [self.caution] if self.caution else []
        return "\n\n".join([*map(_markdown, self.blocks(alpha)), *caution])

    def to_latex(self, alpha: float = 0.05, *, notes: bool = False) -> str:
        """The tables for a paper, as tabulars with the rules of the package booktabs; with `notes` below."""
        *first, last = self.blocks(alpha)
        below = [*([self.caution] if self.caution else []), *(self.notes if notes else ())]
        return "\n\n".join([*map(_latex, first), _latex(last, below)])

    def to_html(self, alpha: float = 0.05) -> str:
        """The tables for a page, with facts and notes. Every name is escaped, since a study's owner chose it."""
        facts = " &middot; ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in self.facts)
        notes = "".join(f"<div><small>{escape(note)}</small></div>" for note in self.notes)
        tables = "".join(_html(block) for block in self.blocks(alpha))
        return f"<div><b>{escape(self.title)}</b><div><small>{facts}</small></div>{tables}{notes}</div>"

    def _repr_html_(self) -> str:
        """For a notebook."""
        return self.to_html()

    def __str__(self) -> str:
        return self.summary()


def places_for(error: float, value: float = 1.0) -> int:
    """Decimals that show a standard error to three figures (the value, if there is no error)."""
    reach = error if error > 0 and math.isfinite(error) else abs(value)
    if not reach or not math.isfinite(reach):
        return 3
    return min(max(0, 2 - math.floor(math.log10(reach))), 12)


def figures(values: Sequence[float], places: int) -> list[str]:
    """Numbers with so many decimals; a dash where there is none to give."""
    return ["-" if math.isnan(value) else f"{value:.{places}f}" for value in values]


def _text(block: Block) -> list[str]:
    every = [block.header, *block.rows]
    widths = [max(len(row[j]) for row in every) for j in range(len(block.header))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = cells
        sides = [cell.rjust(w) for cell, w in zip(rest, widths[1:], strict=True)]
        return "  ".join([first.ljust(widths[0]), *sides])

    rule = "-" * len(line(block.header))
    lines = [rule, line(block.header), rule, *map(line, block.rows), rule]
    return [block.caption, *lines] if block.caption else lines


def _markdown(block: Block) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    rule = ["---", *["---:"] * (len(block.header) - 1)]
    lines = [line(block.header), line(rule), *map(line, block.rows)]
    return "\n".join([f"**{block.caption}**", "", *lines] if block.caption else lines)


_LATEX = str.maketrans(
    {
        **{sign: chr(92) + sign for sign in "&%$#_{}"},
        chr(92): r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "†": r"$\dagger$",
        "|": "$|$",
        # A bracket that starts a row would be read as the optional argument of the line break before it.
        "[": "{[}",
        "]": "{]}",
    }
)


def _latex(block: Block, notes: Sequence[str] = ()) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

    body = [line(block.header), r"\midrule", *map(line, block.rows)]
    head = [rf"\begin{{tabular}}{{l{'r' * (len(block.header) - 1)}}}", r"\toprule"]
    caption = [f"% {block.caption}"] if block.caption else []
    width = len(block.header)
    below = [
        rf"\multicolumn{{{width}}}{{p{{0.9\linewidth}}}}{{\footnotesize {note.translate(_LATEX)}}} \\"
        for note in notes
    ]
    return "\n".join([*caption, *head, *body, r"\bottomrule", *below, r"\end{tabular}"])


def _html(block: Block) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(first)}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in block.rows
    )
    caption = f"<caption>{escape(block.caption)}</caption>" if block.caption else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
