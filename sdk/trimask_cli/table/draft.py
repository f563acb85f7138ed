"""A study definition drafted from a table, to be edited: columns as attributes, and the form that empty cells need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trimask_cli.table.guess import Guess, LeftOut, guess
from trimask_cli.table.sheet import Sheet
from trimask_cli.toml_text import toml_line, toml_value
from trimask_core.errors import ConfigError
from trimask_core.study import SuiteName

__all__ = ["Draft", "draft_study"]

_HEAD = """# Drafted from {source} ({people:,} people). Edit it: nothing here is decided.
# A study's definition is public. Bounds, levels, centres and what stands for missing answers were read off the file; where
# the file is personal data, put what is known from elsewhere in their place.
# Every key: docs/study-file.md. What it will show: trimask plan --study THIS.toml --pilot {source}

title = {title}
purpose = "Say in a sentence what the answers are for."
contact = "who-asks@example.org"
ones = true

[privacy]
epsilon = 1.0
delta = {delta}
"""
_QUESTION = {
    "continuous": "number",
    "integer": "integer",
    "binary": "yes_no",
    "categorical": "single_choice",
}


@dataclass(frozen=True)
class Draft:
    """The definition's text, and what became of the columns."""

    text: str
    attributes: tuple[Guess, ...]
    left_out: tuple[LeftOut, ...]


def draft_study(sheet: Sheet, suite: SuiteName = "rows") -> Draft:
    """The definition; `ConfigError` if no column can be asked."""
    if sheet.doubled:
        raise ConfigError(f"{sheet.path}: {sheet.doubled[0]!r} is in the header more than once; rename one")
    columns = [
        guess(name, sheet.column(name), decimal_comma=sheet.comma[i])
        for i, name in enumerate(sheet.header)
        if name
    ]
    attributes = [column for column in columns if isinstance(column, Guess)]
    left_out = [column for column in columns if isinstance(column, LeftOut)]
    names = [column.name for column in attributes]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        both = [column.header for column in attributes if column.name == twice[0]]
        raise ConfigError(f"{sheet.path}: {both[0]!r} and {both[1]!r} would both be {twice[0]}; rename one")
    if not attributes:
        raise ConfigError(f"{sheet.path}: no column can be asked: " + "; ".join(_said(c) for c in left_out))
    parts = [_head(sheet), _collection(len(sheet.lines), attributes, suite)]
    if left_out:
        parts.append("\n".join(["# Left out:", *(f"# - {_said(column)}" for column in left_out)]) + "\n")
    with_form = any(column.empty for column in attributes)
    for column in attributes:
        parts.append(_attribute(column, suite, labelled=not with_form))
        if column.empty:
            parts.append(f'[[attributes]]\nname = "{column.name}_missing"\nkind = "binary"\n')
    if with_form:
        parts.append('[form]\nlanguages = ["en"]\n')
        parts += [_question(column, len(sheet.lines)) for column in attributes]
    return Draft("\n".join(parts), tuple(attributes), tuple(left_out))


def _said(column: LeftOut) -> str:
    return f"{toml_value(column.header)} {column.why}"


def _head(sheet: Sheet) -> str:
    people = len(sheet.lines)
    # Ten times below one in the people of a release, and 1e-6 where that is less.
    delta = min(1e-6, 10.0 ** -(math.ceil(math.log10(people)) + 1))
    title = toml_value(sheet.path.stem.replace("_", " ").replace("-", " ").capitalize())
    return _HEAD.format(source=sheet.path.name, people=people, title=title, delta=f"{delta:.0e}")


def _collection(people: int, attributes: Sequence[Guess], suite: SuiteName) -> str:
    if suite == "moments":
        return f'[collection]\nsuite = "moments"\nrelease_rows = {people}\n'
    columns = 1 + sum(max(1, len(column.levels)) + (1 if column.empty else 0) for column in attributes)
    # Larger where there are many people: the collector, who sees blocks, learns less, and there are fewer of them to mask.
    block = max(
        32, 2 ** math.ceil(math.log2(2 * columns)), min(128, 2 ** int(math.log2(max(1, people // 64))))
    )
    return (
        f"[collection]\nblock_rows = {min(block, people)}        # rows masked together; more than {columns} columns\n"
        f"release_rows = {people}      # people published together, at least\n"
    )


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
    lines = ["[[form.questions]]", toml_line("name", column.name), toml_line("kind", _QUESTION[column.kind])]
    lines.append(toml_line("label", column.header))
    if column.levels:
        choices = [{"value": level, "label": level.replace("_", " ")} for level in column.levels]
        lines += ["choices = [", *(f"    {toml_value(choice)}," for choice in choices), "]"]
    if column.empty:
        lines += [
            f"required = false      # {column.empty} of {people} cells are empty",
            f"{toml_line('missing', column.missing)}      # stands in the row then",
            toml_line("missing_indicator", f"{column.name}_missing"),
        ]
    return "\n".join(lines) + "\n"
