"""A noisy Gram matrix as a source of fits: one spend, every model.

Which columns are asked for, and the smaller schema by which `trimask.fit` reads the answer. A whole group is asked for
without its first level where there is a `one` to take it from, which costs nothing: a group adds 1 to a row's squared norm
however many of its levels are named. A level named alone is read as a yes-or-no column under its own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from trimask.errors import ParameterError
from trimask.fit.design import build
from trimask.fit.formula import Formula, nearest, parse
from trimask.moments.identities import ConstrainedLaw, Identities
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES, Column, Derived
from trimask_core.study.guarantee import Guarantee, Protection
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments.noise_law import EntriesLaw, MappedLaw, Matrix


@dataclass(frozen=True)
class AskedColumns:
    """`names` of the study's columns that are asked for, and the `schema` of what can be read from them."""

    names: tuple[str, ...]
    schema: Schema

    @classmethod
    def of(cls, schema: Schema, columns: Sequence[str] = ()) -> AskedColumns:
        """Columns by their names, groups by the attribute's; all of the schema's when none is named."""
        if isinstance(columns, str):
            raise ParameterError("columns", "a list of columns", columns)
        known = {column.name: column for column in schema.columns}
        groups = {
            name: [column.name for column in part.columns]
            for name, part in schema.parts.items()
            if name not in known
        }
        wanted: list[str] = []
        for name in columns or list(known):
            if name not in known and name not in groups:
                raise ParameterError("columns", f"of this study; {nearest(name, [*known, *groups])}", name)
            wanted += groups[name] if name in groups else [str(name)]
        twice = sorted({name for name in wanted if wanted.count(name) > 1})
        if twice:
            raise ParameterError("columns", f"different columns; {twice[0]} is there twice")
        ones = ONES in wanted
        asked = [ONES] * ones
        attributes: list[Attribute] = []
        for item in schema.attributes:
            levels = [f"{item.name}_{level}" for level in item.levels]
            if levels and set(levels) <= set(wanted):
                attributes.append(item)
                asked += levels[1:] if ones else levels
            elif levels:
                some = [name for name in levels if name in wanted]
                attributes += [
                    Attribute(name, "binary") if ones else Attribute(name, "continuous", -1.0, 1.0)
                    for name in some
                ]
                asked += some
            elif item.name in wanted:
                attributes.append(item)
                asked.append(item.name)
        derived: list[Derived] = []
        there = {item.name for item in attributes}
        there |= {
            f"{item.name}_{level}"
            for item in attributes
            if item.kind == "categorical"
            for level in item.levels
        }
        loose: list[str] = []
        for made in schema.derived:
            columns_of = [column.name for column in schema.parts[made.name].columns]
            some = [name for name in columns_of if name in wanted]
            if some == columns_of and there.issuperset(made.of):
                asked += some[1:] if ones and made.name in schema.groups else some
                derived.append(made)
                there |= {made.name, *(columns_of if made.kind == "bins" else ())}
                continue
            loose += some
        for name in loose:  # without its factors, or without its other levels, it is a column like any other
            asked.append(name)
            column = known[name]
            low, high = column.center - column.half_range, column.center + column.half_range
            if column.level is not None and ones:
                attributes.append(Attribute(name, "binary"))
            else:
                attributes.append(Attribute(name, "continuous", low, high))
        if not attributes:
            raise ParameterError("columns", f"at least one beside {ONES}", list(columns))
        return cls(tuple(asked), Schema(tuple(attributes), tuple(derived), ones))

    def from_scaled(self, columns: Sequence[Column]) -> Matrix:
        """L: the scaled columns of `schema` as combinations of those asked for, scaled as the study does."""
        known = {column.name: column for column in columns}
        place = {name: j for j, name in enumerate(self.names)}
        L = np.zeros((len(self.schema.columns), len(self.names)))
        for row, column in zip(L, self.schema.columns, strict=True):
            if column.name in place:
                held = known[column.name]
                row[place[column.name]] = held.half_range / column.half_range
                if held.center != column.center:
                    row[place[ONES]] += (held.center - column.center) / column.half_range
            else:  # the first level of a whole group: one less the others
                row[place[ONES]] = 1.0
                levels = [other.name for other in self.schema.columns if other.source == column.source]
                row[[place[name] for name in levels if name in place]] = -1.0
        return L


def formula_of(response: str, features: Sequence[str] | None) -> str:
    """A formula as it is, or the one of a response and a list of columns, `one` among them for an intercept."""
    if features is None:
        return response
    if "~" in response:
        raise ParameterError("features", "left out where a formula is given", list(features))
    if isinstance(features, str) or not features:
        raise ParameterError("features", "at least one column, in a list", features)
    twice = sorted({name for name in features if list(features).count(name) > 1})
    if twice or response in features:
        raise ParameterError("features", "each once, and not the response", twice[0] if twice else response)
    slopes = [str(name) for name in features if name != ONES]
    right = " + ".join(slopes) or "1"
    return f"{response} ~ {right}" + ("" if ONES in features else " - 1")


def columns_for(formula: str, schema: Schema) -> tuple[Formula, list[str]]:
    """What a formula needs of a study, checked before anything is paid: groups whole, products with their factors."""
    asked = parse(formula, schema)
    design = build(asked, schema)
    names = [column.name for column in schema.columns]
    used = [name for name, row in zip(names, design.combine, strict=True) if row.any()]
    held = [name for name, part in zip(names, design.response_combine, strict=True) if part]
    named = [part for term in asked.terms for part in (term.factors or (term,))]
    groups = {part.name for part in named if part.categorical}
    whole = [column.name for column in schema.columns if column.level is not None and column.source in groups]
    needed = {*used, *held, *whole}
    # What a column is formed of comes with it, and with one level of a product all of them.
    sources = {column.name: column.source for column in schema.columns}
    waiting = [sources[name] for name in needed]
    while waiting:
        source = waiting.pop()
        made = next((item for item in schema.derived if item.name == source), None)
        if made is not None and made.kind == "product":
            for name in (source, *made.of):
                needed |= {column.name for column in schema.parts[name].columns}
            waiting += [sources.get(of, of) for of in made.of]
    return asked, [name for name in names if name in needed]


def gram_law(sigma: float, size: int) -> EntriesLaw:
    """Noise of deviation `sigma` on the diagonal and sigma/sqrt(2) off it (`trimask_theory.mechanisms.noisy_gram`)."""
    V = np.full((size, size), sigma**2 / 2)
    np.fill_diagonal(V, sigma**2)
    return EntriesLaw(V)


def natural_map(schema: Schema, names: Sequence[str], rows: Matrix) -> Matrix:
    """L from original values: `rows` has a named column's value as a combination, its constant first."""
    place = {name: at for at, name in enumerate(names)}
    L = np.array([rows[place[column.name]] for column in schema.columns])
    L[:, 0] -= [column.center for column in schema.columns]
    found: Matrix = L / np.array([[column.half_range] for column in schema.columns])
    return found


@dataclass(frozen=True, eq=False)
class ObservedGram:
    """Noisy moments in the columns the noise was drawn in, with what is known of them, and the way to `schema`."""

    schema: Schema
    gram: Matrix
    law: EntriesLaw
    identities: Identities
    L: Matrix
    rows: int
    sigma: float
    guarantee: Guarantee

    def pooled(self, others: Sequence[object]) -> NoReturn:  # noqa: ARG002  the protocol's
        """Never asked for: `trimask.moments.waves.pool` refuses private answers."""
        raise AssertionError

    def uncorrected(self) -> Matrix:
        """The noise has mean zero: there is nothing to correct, and nothing to leave in."""
        found: Matrix = self.L @ self.gram @ self.L.T
        return found

    def moments(self, label: str) -> Moments:
        """Moved onto what the schema knows, then in its scaled columns."""
        law = ConstrainedLaw(self.law, self.identities)
        gram = self.L @ law.project(self.gram, self.rows) @ self.L.T
        gram = (gram + gram.T) / 2
        gram.flags.writeable = False
        protection = Protection(self.schema.row_norm, self.sigma, "noisy Gram matrix", self.guarantee)
        return Moments(
            self.schema, gram, self.rows, self.sigma, protection, label, MappedLaw(law, self.L), "answer", self
        )  # fmt: skip
