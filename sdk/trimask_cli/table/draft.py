"""A study definition drafted from a table, to be edited: columns as attributes, and the form that empty cells need.

What a column seems to ask: its kind, bounds rounded outward, levels, and what stands for its empty cells. Bounds are rounded
outward to a step of 1, 2 or 5 times a power of ten, about a twentieth of the range: what is written into a study is public,
and a file's own smallest and largest value belong to two people.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimask_cli.study_file import toml_line, toml_value
from trimask_client.table import MISSING, Sheet, attribute_name, number, slug
from trimask_core.basics.errors import ConfigError
from trimask_core.form.kinds import PLAIN
from trimask_core.form.parse_input import is_date
from trimask_core.study.definition import SuiteName
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


_HEAD = """# Drafted from {source} ({people:,} people). Edit it: nothing here is decided.
# A study's definition is public. Bounds, levels, centres and what stands for missing answers were read off the file; where
# the file is personal data, put what is known from elsewhere in their place.
# Every key: docs/study-file.md. What it will show: trimask plan --study THIS.toml --pilot {source}

title = {title}
purpose = "Say in a sentence what the answers are for."
contact = "who-asks@example.org"
ones = true

[privacy]
# How much better anybody can guess a person's answers once the study is published: 1 is a common choice, less is stronger,
# and half of it asks for about twice the people.
epsilon = 1.0
# The probability with which epsilon may fail: well below one in the people of a release.
delta = {delta}
"""
_BALL = """# Devices shrink rows longer than row_norm towards the centres, and prove it; the noise goes with its square.
# Chosen by the pilot so that slopes keep their intervals, which correct what shrinking takes:
# trimask study new --pilot FILE.csv
"""
_MOMENTS = """[collection]
suite = "moments"       # two right providers and a collector; no answer is seen unless all right providers collude
release_rows = {people}
"""


@dataclass(frozen=True)
class Draft:
    """The definition's text, what each column was made into, and why the table has too few people for it, if it has."""

    text: str
    attributes: tuple[Guess, ...]
    left_out: tuple[LeftOut, ...]
    too_few: str = ""


def draft_study(sheet: Sheet, suite: SuiteName = "moments", asked: Sequence[str] | None = None) -> Draft:
    """The definition, of the columns `asked` in their order (default: all); `ConfigError` if no column can be asked."""
    if sheet.doubled:
        raise ConfigError(f"{sheet.path}: {sheet.doubled[0]!r} is in the header more than once; rename one")
    long = [wrong for line, cells in sheet.lines if (wrong := sheet.too_long(line, cells))]
    if long:
        more = f" ({len(long) - 1:,} more such lines)" if len(long) > 1 else ""
        raise ConfigError(f"{sheet.path}, {long[0]}{more}")
    unclear = sheet.unclear
    columns = [_column(sheet, i, unclear.get(i)) for i in _places(sheet, asked)]
    attributes = [column for column in columns if isinstance(column, Guess)]
    left_out = [column for column in columns if isinstance(column, LeftOut)]
    names = [column.name for column in attributes]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        both = [column.header for column in attributes if column.name == twice[0]]
        raise ConfigError(f"{sheet.path}: {both[0]!r} and {both[1]!r} would both be {twice[0]}; rename one")
    if not attributes:
        raise ConfigError(f"{sheet.path}: no column can be asked: " + "; ".join(_said(c) for c in left_out))
    collection, too_few = _collection(len(sheet.lines), attributes, suite)
    parts = [_head(sheet), collection]
    if left_out:
        parts.append("\n".join(["# Left out:", *(f"# - {_said(column)}" for column in left_out)]) + "\n")
    # A plain form shows levels in their order; where they lost a sign that people should read (`<18`), or their order
    # (18-30, 31-50), the form has the table's texts.
    with_form = any(column.empty or _reworded(column) or _reordered(column) for column in attributes)
    for column in attributes:
        parts.append(_attribute(column, suite, labelled=not with_form))
        if column.empty:
            parts.append(f'[[attributes]]\nname = "{column.name}_missing"\nkind = "binary"\n')
    if with_form:
        parts.append('[form]\nlanguages = ["en"]\n')
        parts += [_question(column, len(sheet.lines)) for column in attributes]
    return Draft("\n".join(parts), tuple(attributes), tuple(left_out), too_few)


def with_settings(text: str, settings: Mapping[str, Mapping[str, float]], why: str = _BALL) -> str:
    """A definition's text with the row_norm, centres, scales and steps of a plan (`Recommendation.settings`).

    `why` is the comment above row_norm. Of a text that is laid out otherwise than a draft some may be missing afterwards.
    """
    for section, values in settings.items():
        lines = "".join(toml_line(key, value) + "\n" for key, value in values.items())
        if section == "privacy":
            text = re.sub(r"(?m)^(delta = .*\n)", rf"\g<1>{why}{lines}", text, count=1)
            continue
        named = re.search(rf'(?m)^name = "{section}"\n(?:^\w.*\n)*?^maximum = .*\n(?:^\w.*\n)*', text)
        if named is not None:
            kept = re.sub(rf"(?m)^(?:{'|'.join(values)}) = .*\n", "", named[0])
            kept = re.sub(r"(?m)^(maximum = .*\n)", rf"\g<1>{lines}", kept, count=1)
            text = text[: named.start()] + kept + text[named.end() :]
    return text


def _places(sheet: Sheet, asked: Sequence[str] | None) -> Sequence[int]:
    if asked is None:
        return range(len(sheet.header))
    names = [attribute_name(header) for header in sheet.header]
    unknown = [name for name in asked if attribute_name(name) not in names]
    if unknown:
        raise ConfigError(f"{sheet.path} has no column {unknown[0]}; it has {', '.join(sheet.header)}")
    return [names.index(attribute_name(name)) for name in asked]


def _column(sheet: Sheet, place: int, unclear: str | None) -> Guess | LeftOut:
    name = sheet.header[place]
    if not name:
        return LeftOut(f"column {place + 1}", "has no name in the first line")
    if unclear is not None:
        plain, comma = unclear.replace(".", ""), unclear.replace(".", ",")
        return LeftOut(
            name,
            f"has {unclear!r} in a file with decimal commas: write {plain} or {comma}, whichever is meant",
        )
    return guess(name, sheet.column(name), decimal_comma=sheet.comma[place])


def _reworded(column: Guess) -> bool:
    pairs = zip(column.levels, column.texts, strict=True)
    return any(level.replace("_", " ") != text.replace("_", " ") for level, text in pairs)


def _reordered(column: Guess) -> bool:
    """Whether levels that count upwards were put out of order for the sake of the reference."""
    return all(re.search(r"\d", text) for text in column.texts) and column.levels != tuple(
        sorted(column.levels)
    )


def _said(column: LeftOut) -> str:
    return f"{toml_value(column.header)} {column.why}"


def _head(sheet: Sheet) -> str:
    people = len(sheet.lines)
    # Ten times below one in the people of a release, and 1e-6 where that is less.
    delta = min(1e-6, 10.0 ** -(math.ceil(math.log10(people)) + 1))
    title = toml_value(sheet.path.stem.replace("_", " ").replace("-", " ").capitalize())
    return _HEAD.format(source=sheet.path.name, people=people, title=title, delta=f"{delta:.0e}")


def _collection(people: int, attributes: Sequence[Guess], suite: SuiteName) -> tuple[str, str]:
    """The table `[collection]`, and what is wrong where there are too few people for a block."""
    if suite == "moments":
        return _MOMENTS.format(people=people), ""
    columns = 1 + sum(max(1, len(column.levels)) + (1 if column.empty else 0) for column in attributes)
    # Half of the people, or as many as masking stays quick with: of small blocks the collector, who sees them, learns more.
    block = max(
        32, 2 ** math.ceil(math.log2(2 * columns)), min(1024, 2 ** int(math.log2(max(1, people // 2))))
    )
    too_few = ""
    if people > columns:
        block, release = min(block, people), people
    else:
        release = block
        too_few = (
            f"a block needs more people than the {columns} columns of a row, and the table has {people}; the draft is for a "
            f"study of {release} people or more. With fewer, leave columns out, or take the moments suite, without blocks"
        )
    note = (
        f"# The table's {people} people are too few for a block; these numbers are for a larger study.\n"
        if too_few
        else ""
    )
    text = (
        f"[collection]\n{note}block_rows = {block}        # rows masked together; more than {columns} columns\n"
        f"release_rows = {release}      # people published together, at least\n"
    )
    return text, too_few


def _attribute(column: Guess, suite: SuiteName, *, labelled: bool) -> str:
    lines = [f"# {note}" for note in column.notes]
    lines += ["[[attributes]]", toml_line("name", column.name), toml_line("kind", column.kind)]
    if column.minimum is not None and column.maximum is not None:
        lines += [toml_line("minimum", column.minimum), toml_line("maximum", column.maximum)]
        if suite == "moments" and column.step is not None:
            lines.append(toml_line("step", column.step))
    if column.levels:
        lines.append(toml_line("levels", list(column.levels)))
    if labelled and column.header != column.name:
        lines.append(toml_line("label", column.header))
    return "\n".join(lines) + "\n"


def _question(column: Guess, people: int) -> str:
    lines = ["[[form.questions]]", toml_line("name", column.name), toml_line("kind", PLAIN[column.kind])]
    lines.append(toml_line("label", column.header))
    if column.levels:
        pairs = sorted(zip(column.levels, column.texts, strict=True))
        choices = [{"value": level, "label": text} for level, text in pairs]
        lines += ["choices = [", *(f"    {toml_value(choice)}," for choice in choices), "]"]
    if column.empty:
        lines += [
            f"required = false      # {column.empty} of {people} cells are empty",
            f"{toml_line('missing', column.missing)}      # stands in the row then",
            toml_line("missing_indicator", f"{column.name}_missing"),
        ]
    return "\n".join(lines) + "\n"
