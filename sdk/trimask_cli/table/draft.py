"""A study definition drafted from a table, to be edited: columns as attributes, and the form that empty cells need."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimask_cli.study_file import toml_line, toml_value
from trimask_cli.table.guess import Guess, LeftOut, guess
from trimask_client.table import Sheet
from trimask_core.basics.errors import ConfigError
from trimask_core.form.kinds import PLAIN
from trimask_core.study.definition import SuiteName

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


def draft_study(sheet: Sheet, suite: SuiteName = "moments") -> Draft:
    """The definition; `ConfigError` if no column can be asked."""
    if sheet.doubled:
        raise ConfigError(f"{sheet.path}: {sheet.doubled[0]!r} is in the header more than once; rename one")
    long = [wrong for line, cells in sheet.lines if (wrong := sheet.too_long(line, cells))]
    if long:
        more = f" ({len(long) - 1:,} more such lines)" if len(long) > 1 else ""
        raise ConfigError(f"{sheet.path}, {long[0]}{more}")
    unclear = sheet.unclear
    columns = [_column(sheet, i, unclear.get(i)) for i in range(len(sheet.header))]
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
