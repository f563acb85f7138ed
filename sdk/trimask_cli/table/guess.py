"""What a column of a table seems to ask: its kind, bounds rounded outward, levels, and what stands for its empty cells.

Bounds are rounded outward to a step of 1, 2 or 5 times a power of ten, about a twentieth of the range: what is written
into a study is public, and a file's own smallest and largest value belong to two people.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trimask_client.table import MISSING, attribute_name, number, slug
from trimask_core.form.parse_input import is_date
from trimask_core.study.schema import AttributeKind

_WORDS = frozenset(["yes", "no", "true", "false"])
_NUMBERED = re.compile(r"(?:^|_)(id|nr|no|number|index)$", re.IGNORECASE)
_DAY_FIRST = re.compile(r"\d{1,2}([./-])\d{1,2}\1(\d{4}|\d{2})([ T].*)?")
_WITH_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d.*")
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(([,.' \u2019\u00a0\u202f])\d{3})(\2\d{3})*([,.]\d+)?")
_MOST_LEVELS = 12
_FEW_PEOPLE = 5


@dataclass(frozen=True)
class Guess:
    """A column as an attribute. `empty` cells have no answer, and `missing` would stand in them; `notes` are to be read.

    `texts` are what the table has for the levels, in their order: people are to read `<18`, not the level 18.
    """

    header: str
    name: str
    kind: AttributeKind
    minimum: float | None = None
    maximum: float | None = None
    levels: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    step: float | None = None
    empty: int = 0
    missing: bool | float | str = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A column that no attribute can be made of, and why."""

    header: str
    why: str


def guess(header: str, cells: Sequence[str], *, decimal_comma: bool) -> Guess | LeftOut:
    """What a column asks, from its cells."""
    given = [cell for cell in cells if cell.casefold() not in MISSING]
    empty = len(cells) - len(given)
    if len(set(given)) < 2:
        return LeftOut(header, "has one value in every line" if given else "is empty")
    name = attribute_name(header)
    found = [value for cell in given if (value := number(cell, decimal_comma=decimal_comma)) is not None]
    if len(found) == len(given) and all(map(math.isfinite, found)):
        return _numeric(header, name, found, empty)
    words = [cell.casefold() for cell in given]
    if set(words) <= _WORDS:
        return Guess(header, name, "binary", empty=empty, missing=False)
    if all(is_date(cell) for cell in given):
        return LeftOut(header, 'is a date: ask it by a [form] question of kind = "date" (docs/forms.md)')
    if why := _written_otherwise(given, decimal_comma=decimal_comma):
        return LeftOut(header, why)
    odd = [cell for cell in given if number(cell, decimal_comma=decimal_comma) is None]
    if len(odd) * 20 <= len(given):
        shown = ", ".join(map(repr, sorted(set(odd))[:5]))
        return LeftOut(header, f"is all numbers but for {shown}: mend or empty these cells")
    return _levels(header, name, given, empty)


def _written_otherwise(given: list[str], *, decimal_comma: bool) -> str:
    """Why cells that mean dates, times or numbers are not read as such, and how to write them; empty for others."""
    if all(_DAY_FIRST.fullmatch(cell) or _WITH_TIME.fullmatch(cell) or is_date(cell) for cell in given):
        shown = next(cell for cell in given if not is_date(cell))
        return (
            f"is a date, such as {shown!r}: write it year-month-day, such as 2026-01-31, and ask it by a [form] question of "
            'kind = "date" (docs/forms.md)'
        )
    if all(_CLOCK.fullmatch(cell) for cell in given):
        return 'is a time of day: ask it by a [form] question of kind = "time" (docs/forms.md)'
    odd = [cell for cell in given if number(cell, decimal_comma=decimal_comma) is None]
    if all(_THOUSANDS.fullmatch(cell) for cell in odd):
        return f"has numbers with marks between thousands, such as {odd[0]!r}: write them without"
    return ""


def _numeric(header: str, name: str, values: list[float], empty: int) -> Guess | LeftOut:
    low, high = min(values), max(values)
    if set(values) == {0.0, 1.0}:
        return Guess(header, name, "binary", empty=empty, missing=False)
    whole = all(value.is_integer() for value in values)
    all_different = whole and len(set(values)) == len(values) > 10
    if all_different and (high - low == len(values) - 1 or _NUMBERED.search(name)):
        return LeftOut(header, "numbers the lines: an identifier is never asked")
    notes = _far(values)
    low, high = outward(low, high)
    middle = min(max(float(f"{statistics.median(values):.2g}"), low), high)
    if whole:
        return Guess(
            header, name, "integer", low, high, empty=empty, missing=float(round(middle)), notes=notes
        )
    step = outward_step(high - low, 1000)
    return Guess(header, name, "continuous", low, high, step=step, empty=empty, missing=middle, notes=notes)


def _far(values: list[float]) -> tuple[str, ...]:
    """Values five times the middle half's width away from it: 999 is often a code for no answer."""
    if len(values) < 10:
        return ()
    low, _, high = statistics.quantiles(values, n=4)
    width = high - low
    far = sorted({value for value in values if width and not low - 5 * width <= value <= high + 5 * width})
    if not far:
        return ()
    shown = ", ".join(f"{value:g}" for value in far[:5]) + (", ..." if len(far) > 5 else "")
    return (f"far from the others: {shown}; if that is a code or a slip, empty these cells and draft again",)


def _levels(header: str, name: str, given: list[str], empty: int) -> Guess | LeftOut:
    counts, joined = _without_spellings(Counter(given))
    if len(counts) > _MOST_LEVELS:
        return LeftOut(header, f"has {len(counts)} different texts: group them into {_MOST_LEVELS} at most")
    texts = {slug(text): text for text in counts}
    if "" in texts:
        return LeftOut(header, f"has a text without a Latin letter or digit, {texts['']!r}: rename it")
    if len(texts) != len(counts):
        other = next(text for text in counts if texts[slug(text)] != text)
        return LeftOut(
            header,
            f"has {other!r} and {texts[slug(other)]!r}, whose letters and digits are the same: rename one",
        )
    rare = [f"{slug(text)} ({count})" for text, count in counts.items() if count < _FEW_PEOPLE]
    notes = [f"taken as one level: {', '.join(map(repr, spellings))}" for spellings in joined]
    if rare:
        notes.append(f"few people: {', '.join(sorted(rare))}; join them with others")
    # The first level is the one that others are compared with: the commonest makes all of them as sure as they can be.
    commonest = slug(counts.most_common(1)[0][0])
    levels = (commonest, *sorted(texts.keys() - {commonest}))
    return Guess(
        header,
        name,
        "categorical",
        levels=levels,
        texts=tuple(texts[level] for level in levels),
        empty=empty,
        missing=commonest,
        notes=tuple(notes),
    )


def _same_text(text: str) -> str:
    """What two spellings that differ only in case or blanks have in common."""
    return " ".join(text.split()).casefold()


def _without_spellings(counts: Counter[str]) -> tuple[Counter[str], list[list[str]]]:
    """Texts by their commonest spelling, and the spellings of those that have several."""
    groups: dict[str, Counter[str]] = {}
    for text, count in counts.items():
        groups.setdefault(_same_text(text), Counter())[text] += count
    joined = Counter({group.most_common(1)[0][0]: group.total() for group in groups.values()})
    return joined, [sorted(group) for group in groups.values() if len(group) > 1]


def outward(low: float, high: float) -> tuple[float, float]:
    """Bounds rounded outward, so that they do not show a single person's value."""
    step = outward_step(high - low, 20)
    return _times(math.floor(low / step), step), _times(math.ceil(high / step), step)


def outward_step(width: float, parts: int) -> float:
    """1, 2 or 5 times a power of ten: the least that is not below a `parts`-th of the width."""
    ten: float = 10.0 ** math.floor(math.log10(width / parts))
    return next(float(f"{m * ten:.1g}") for m in (1, 2, 5, 10) if m * ten >= width / parts * (1 - 1e-12))


def _times(count: int, step: float) -> float:
    return float(f"{count * step:.12g}")
