"""A formula held against a study's columns: which combinations of scaled columns are regressed on which.

Scaled units are kept as the working units, because there the noise is isotropic and the Gram matrix well
scaled. With an intercept in the model the scaled columns themselves span the same space as the original ones,
and coefficients map by
    slope_j = (h_y / h_j) b_j,   intercept = c_y + h_y b_0 - sum_j c_j slope_j   (c center, h half-range).
Without one, column j in original units is h_j (scaled_j + (c_j / h_j) one), so the working column carries a
share of the ones column, and of its noise.

Groups are combinations of columns, one on the members of a level, zero on everybody else. A group is a categorical
attribute, bins, or a product of those, whose levels are columns; or a yes-or-no attribute or a threshold b, scaled to -1
and 1, whose members are (one + b) / 2 and (one - b) / 2. Counts, group sums and cross-tabulations are then entries of
combinations of the Gram matrix; since moments agree with what the schema knows, counts of levels add up to the number of
people. Levels that are merged are the sum of their columns.

The reference level of a group is the first declared one, as everywhere else, but where that has fewer than a quarter of the
commonest's people, the commonest: every coefficient of the group would have the error of the rare one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trimask.errors import CollinearColumns, FormulaError
from trimask.fit.formula import (
    Formula,
    Term,
    contents,
    group_term,
    nearest,
    product_lines,
    refuse_transform,
    undeclared,
)
from trimask_core.study.derived import ONES, Column
from trimask_core.study.schema import Schema
from trimask_theory.moments.noise_law import Matrix

INTERCEPT = "Intercept"
_RARE = 0.25


@dataclass(frozen=True, eq=False)
class Design:
    """Working regressor j is (scaled row) @ combine[:, j], the response (scaled row) @ response_combine.

    `names` are the coefficients', `columns` those of the schema behind them, with a + between merged ones.
    Coefficients in original units are offset + to_original @ (working coefficients). `constant` is the
    combination that equals one on every row, if the model contains it: R^2 is then about the mean.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    response: str
    unit: str
    combine: Matrix
    response_combine: Matrix
    to_original: Matrix
    offset: Matrix
    response_half_range: float
    constant: Matrix | None


def build(formula: Formula, schema: Schema, gram: Matrix | None = None) -> Design:
    """The design, or `FormulaError` (unknown column: with the nearest name) or `CollinearColumns`.

    With the moments `gram` a rare first level is not taken for the reference.
    """
    columns = schema.columns
    index = {column.name: j for j, column in enumerate(columns)}
    if formula.intercept and ONES not in index:
        raise FormulaError(
            "this study has no ones column, so no intercept can be fitted; add '- 1' to the formula"
        )
    response = columns[_find(formula.response, schema, index)]
    chosen = _regressors(formula, schema, index, gram)
    if response.name in (column.name for _, column in chosen):
        raise FormulaError(f"{formula.text!r}: {response.name} appears on both sides")
    full = _complete_groups([column for _, column in chosen], schema)
    _refuse_structural(formula, full)

    names = [INTERCEPT] * formula.intercept + [name for name, _ in chosen]
    half, k = response.half_range, len(names)
    combine = np.zeros((len(columns), k))
    to_original = np.zeros((k, k))
    offset = np.zeros(k)
    response_combine = _unit(index[response.name], len(columns))
    if formula.intercept:
        combine[index[ONES], 0] = 1.0
        to_original[0, 0] = half
        offset[0] = response.center
    elif response.center:
        response_combine[_ones(index, response)] += response.center / half
    if response.within is not None:
        response_combine[index[response.within]] += response.middle / half
    for j, (_, column) in enumerate(chosen, int(formula.intercept)):
        for part in column.name.split("+"):
            combine[index[part], j] = 1.0
        to_original[j, j] = half / column.half_range
        if formula.intercept:
            to_original[0, j] = -column.center * half / column.half_range
        elif column.center:
            combine[_ones(index, column), j] += column.center / column.half_range
        if column.within is not None:  # the number itself on the members, not what is above its middle
            combine[index[column.within], j] += column.middle / column.half_range
    return Design(
        names=tuple(names),
        columns=(ONES,) * formula.intercept + tuple(column.name for _, column in chosen),
        response=response.name,
        unit=_unit_of(response, schema),
        combine=combine,
        response_combine=response_combine,
        to_original=to_original,
        offset=offset,
        response_half_range=half,
        constant=_constant(formula, full, index, len(columns)),
    )


def _unit(at: int, size: int) -> Matrix:
    vector = np.zeros(size)
    vector[at] = 1.0
    return vector


def _ones(index: dict[str, int], column: Column) -> int:
    if ONES not in index:
        raise FormulaError(
            f"this study has no ones column, so {column.name} cannot be moved to its center {column.center:g}"
        )
    return index[ONES]


def _unit_of(column: Column, schema: Schema) -> str:
    return next((item.unit for item in schema.attributes if item.name == column.source), "")


def find_column(name: str, schema: Schema) -> int:
    """The place of a column named outside a formula, or `FormulaError` saying what to write instead."""
    group = next((item for item in schema.groups if name in (item, f"C({item})")), None)
    if group is not None:
        raise FormulaError(
            f"{group} is categorical: name its levels here, {', '.join(_levels(group, schema))}"
        )
    refuse_transform(name, schema)
    return _find(name, schema, {column.name: j for j, column in enumerate(schema.columns)})


def level_columns(schema: Schema) -> list[list[str]]:
    """The indicator columns of every group."""
    return [_levels(group, schema) for group in schema.groups]


def _find(name: str, schema: Schema, index: dict[str, int]) -> int:
    if name in index and name != ONES:
        return index[name]
    if name == ONES:
        raise FormulaError(f"{ONES} is the column behind the intercept; write 1, or nothing")
    if name in schema.groups:
        raise FormulaError(
            f"{name} is categorical: write C({name}), or one of {', '.join(_levels(name, schema))}"
        )
    if name in schema.parts:  # a number within a choice
        named = ", ".join(column.name for column in schema.parts[name].columns)
        raise FormulaError(
            f"{name} is a product with a choice: write {_formula(name, schema)}, or one of {named}"
        )
    known = [other for other in index if other != ONES]
    raise FormulaError(f"this study has no column {name}; {nearest(name, known)}")


def _levels(group: str, schema: Schema) -> list[str]:
    return [f"{group}_{level}" for level in schema.groups[group]]


def _formula(name: str, schema: Schema) -> str:
    """How a declared product is written in a formula."""
    made = next(item for item in schema.derived if item.name == name)
    return ":".join(f"C({of})" if of in schema.groups else of for of in made.of)


def _regressors(
    formula: Formula, schema: Schema, index: dict[str, int], gram: Matrix | None
) -> list[tuple[str, Column]]:
    """(coefficient name, column) of every regressor beside the intercept.

    Without an intercept the first group keeps all its levels, as everywhere else: its indicators are the
    intercepts.
    """
    columns = schema.columns
    chosen: list[tuple[str, Column]] = []
    drop_reference = formula.intercept
    there = {_margin(term.factors or (term,)) for term in formula.terms}
    there |= {frozenset()} if formula.intercept else set()
    for term in formula.terms:
        if term.factors:
            chosen += _cells(formula, term, schema, index, there, gram)
            continue
        if not term.categorical:
            column = columns[_find(term.name, schema, index)]
            chosen.append((column.name, column))
            continue
        levels, reference = _group(term, schema, gram)
        for level in levels:
            if not (drop_reference and level == reference):
                parts = [
                    f"{term.name}_{part}"
                    for part in (term.merge if level not in schema.groups[term.name] else [level])
                ]
                merged = Column("+".join(parts), source=term.name, level=level)
                chosen.append(
                    (f"C({term.name})[{level}]", merged if len(parts) > 1 else columns[index[parts[0]]])
                )
        drop_reference = True
    seen: set[str] = set()
    for part in (part for _, column in chosen for part in column.name.split("+")):
        if part in seen:
            raise FormulaError(f"{formula.text!r}: {part} appears twice")
        seen.add(part)
    return chosen


def _margin(factors: Sequence[Term]) -> frozenset[str]:
    """A term by the names of its factors."""
    return frozenset(factor.name for factor in factors)


def _cells(
    formula: Formula,
    term: Term,
    schema: Schema,
    index: dict[str, int],
    there: set[frozenset[str]],
    gram: Matrix | None,
) -> list[tuple[str, Column]]:
    """The columns of a product: one, or one a level, less the reference of a group whose margin is a term itself."""
    known = contents(schema)
    keys = {name: key for key, name in known.items()}
    cells: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), ())]
    for factor in term.factors:
        if factor.merge:
            raise FormulaError(
                f"{formula.text!r}: levels are merged in a term by itself, not in the product {term.name}"
            )
        if factor.categorical:
            levels, reference = _group(factor, schema, gram)
            others = _margin([item for item in term.factors if item is not factor])
            kept = [level for level in levels if others not in there or level != reference]
            parts = [(f"C({factor.name})[{level}]", f"{factor.name}_{level}") for level in kept]
        else:
            name = schema.columns[_find(factor.name, schema, index)].name
            parts = [(name, name)]
        cells = [
            ((*names, said), (*key, *keys.get(column, (column,))))
            for names, key in cells
            for said, column in parts
        ]
    found: list[tuple[str, Column]] = []
    for names, key in cells:
        column_name = known.get(tuple(sorted(key)))
        if column_name is None:
            of = tuple(factor.name for factor in term.factors)
            if not any(factor.categorical for factor in term.factors) and len(of) == 2:
                raise FormulaError(f"{formula.text!r}: {undeclared(':'.join(of), schema)}")
            raise FormulaError(
                f"{formula.text!r}: {term.name} is not declared; {undeclared('', None)}:\n\n{product_lines(of, schema)}\n"
            )
        plain = not any(factor.categorical for factor in term.factors)
        found.append((column_name if plain else ":".join(names), schema.columns[index[column_name]]))
    return found


def _group(term: Term, schema: Schema, gram: Matrix | None = None) -> tuple[tuple[str, ...], str]:
    """The levels, merged ones as one in the place of the first of them, and the reference level."""
    groups = schema.groups
    if term.name not in groups:
        if term.name in schema.parts:
            raise FormulaError(f"{term.name} is not categorical: write {term.name} without C( )")
        hint = nearest(term.name, list(groups)) if groups else "it has no categorical attribute"
        raise FormulaError(f"this study has no categorical attribute {term.name}; {hint}")
    for level in term.merge:
        if level not in groups[term.name]:
            raise FormulaError(f"{term.name} has no level {level}; {nearest(level, list(groups[term.name]))}")
    joined = "+".join(term.merge)
    levels = tuple(dict.fromkeys(joined if level in term.merge else level for level in groups[term.name]))
    if len(levels) < 2:
        raise FormulaError(f"{term.name} has no other level than the merged ones: leave it out")
    reference = levels[0] if term.reference is None else term.reference
    if term.reference is None and gram is not None and schema.ones:
        one = unit(schema, ONES)
        count = dict.fromkeys(levels, 0.0)
        for level in groups[term.name]:
            people = float(unit(schema, f"{term.name}_{level}") @ gram @ one)
            count[joined if level in term.merge else level] += people
        reference = common_level(count)
    if reference not in levels:
        raise FormulaError(f"{term.name} has no level {reference}; {nearest(reference, list(levels))}")
    return levels, reference


def common_level(counts: Mapping[str, float]) -> str:
    """The reference level by people: the first, or the commonest where the first is rare."""
    first, commonest = next(iter(counts)), max(counts, key=lambda level: counts[level])
    return commonest if counts[first] < _RARE * counts[commonest] else first


def _complete_groups(chosen: list[Column], schema: Schema) -> list[list[str]]:
    """The groups all of whose levels are regressors; the indicators of each add up to one on every row."""
    names = {part for column in chosen for part in column.name.split("+")}
    return [levels for levels in level_columns(schema) if names.issuperset(levels)]


def _refuse_structural(formula: Formula, full: list[list[str]]) -> None:
    """Collinear whatever the data, so said before the data is looked at."""
    if len(full) + formula.intercept > 1:
        involved = [INTERCEPT] * formula.intercept + [name for levels in full for name in levels]
        raise CollinearColumns(
            involved,
            f"{', '.join(involved)} are collinear: the indicators of a whole group add up to the intercept. "
            "Leave one level out (C(group) does), or add '- 1'.",
        )


def _constant(formula: Formula, full: list[list[str]], index: dict[str, int], size: int) -> Matrix | None:
    if formula.intercept:
        return _unit(index[ONES], size)
    if full:
        constant = np.zeros(size)
        constant[[index[name] for name in full[0]]] = 1.0
        return constant
    return None


def plain_name(name: str) -> str:
    """A group's name, also where it is written C(group)."""
    return group_term(name).name


def group_names(schema: Schema) -> list[str]:
    """What can be a group."""
    return [
        *schema.groups,
        *(item.name for item in schema.attributes if item.kind == "binary"),
        *_thresholds(schema),
    ]


def _thresholds(schema: Schema) -> list[str]:
    return [item.name for item in schema.derived if item.kind == "threshold"]


def unit(schema: Schema, name: str) -> Matrix:
    """The combination that is one column alone."""
    names = [column.name for column in schema.columns]
    found: Matrix = np.eye(len(names))[names.index(name)]
    return found


def original(name: str, schema: Schema) -> Matrix:
    """The combination that is one column in original units."""
    column = schema.columns[find_column(name, schema)]
    found: Matrix = column.center * unit(schema, ONES) + column.half_range * unit(schema, name)
    return found


def membership(group: str | Term, schema: Schema) -> tuple[list[str], Matrix]:
    """The levels, merged as C(group, merge=[..]) says, and the combinations of columns that are one on their members."""
    if not schema.ones:
        raise FormulaError("this study has no ones column, so groups cannot be counted")
    term = group if isinstance(group, Term) else group_term(group)
    group, known = term.name, group_names(schema)
    if group not in known:
        hint = nearest(group, known) if known else "it has none"
        raise FormulaError(f"this study has no group {group}; {hint}")
    if group not in schema.groups:
        one, yes = unit(schema, ONES), unit(schema, group)
        return ["no", "yes"], np.array([one - yes, one + yes]) / 2
    levels, _ = _group(term, schema)
    members = {level: np.zeros(len(schema.columns)) for level in levels}
    for level in schema.groups[group]:
        members["+".join(term.merge) if level in term.merge else level] += unit(schema, f"{group}_{level}")
    return list(levels), np.array(list(members.values()))
