"""What the schema knows about second moments before anybody answers, as linear equations in a Gram matrix.

Every column is a polynomial in what people are asked: `one` is 1, an attribute is a variable, a level of a choice is one
that is 0 or 1, a declared square or product is a polynomial. So every entry of the Gram matrix is the sum over people of
a polynomial, and after the rules
    b^2 = 1 (a yes-or-no answer, scaled to -1 and 1),   l^2 = l and l l' = 0 (levels of one choice),
    reference level = 1 - the other levels
entries with the same polynomial are equal, whatever the answers: a level's square is itself, two levels exclude each
other, levels add up to `one`, <one, product> = <a, b>, <one, square> = <a, a>, <a, ab> = <b, aa>, and so on. The sum of
the polynomial 1 is N, where rows are not shortened (a shortened row keeps all equations but this one).
The equations are found by elimination: an entry whose polynomial is a combination of those before gives one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trimask_core.moments.layout import MomentsLayout
from trimask_core.schema import Schema

__all__ = ["Identities", "layout_identities", "schema_identities"]

Matrix: TypeAlias = NDArray[np.float64]
Monomial: TypeAlias = tuple[str, ...]
"""Variables in order, repeated for powers; () is 1."""
Polynomial: TypeAlias = dict[Monomial, float]
Entry: TypeAlias = tuple[int, int]

_ZERO = 1e-9  # coefficients are of the order of 1: columns are scaled


@dataclass(frozen=True)
class _Rules:
    """Which variables are yes-or-no (-1 or 1), and which are levels, of which choice."""

    binary: frozenset[str]
    level: Mapping[str, str]

    def monomial(self, first: Monomial, second: Monomial) -> Monomial | None:
        """The product in its one form, or None for zero."""
        found: list[str] = []
        taken: dict[str, str] = {}
        for name in sorted(first + second):
            if name in self.level:
                group = self.level[name]
                if taken.setdefault(group, name) != name:
                    return None
                if name in found:
                    continue
            if name in self.binary and found and found[-1] == name:
                found.pop()
            else:
                found.append(name)
        return tuple(found)

    def product(self, first: Polynomial, second: Polynomial) -> Polynomial:
        """Of two polynomials."""
        found: Polynomial = {}
        for a, x in first.items():
            for b, y in second.items():
                monomial = self.monomial(a, b)
                if monomial is not None:
                    found[monomial] = found.get(monomial, 0.0) + x * y
        return found


@dataclass(frozen=True, eq=False)
class Identities:
    """Equations `K` vec(G) = N `ones`, a row an equation; vec takes all p x p entries of the symmetric G."""

    K: sparse.csr_array
    ones: Matrix

    def __len__(self) -> int:
        return len(self.ones)

    def values(self, matrices: Matrix) -> Matrix:
        """K vec of each matrix: m x equations."""
        return np.asarray((self.K @ matrices.reshape(len(matrices), -1).T).T)

    def combine(self, weights: Matrix) -> Matrix:
        """The weighted sums of the equations' gradients, for weights m x equations: m x p x p."""
        p = round(self.K.shape[1] ** 0.5)
        return np.asarray((self.K.T @ weights.T).T).reshape(len(weights), p, p)


@lru_cache(maxsize=64)
def schema_identities(
    schema: Schema,
    shortened: bool = False,
    columns: tuple[str, ...] | None = None,
    clipped: frozenset[str] = frozenset(),
) -> Identities:
    """Of the schema's columns in scaled units, or of some of them in the order given.

    `shortened` if rows were shortened, with their 1, to a norm; `clipped` are attributes whose column was moved on the
    device, while what is derived from them was not.
    """
    polynomials, rules = _polynomials(schema, clipped)
    chosen = polynomials.values() if columns is None else [polynomials[name] for name in columns]
    return _equations(list(chosen), rules, known=not shortened)


def _polynomials(schema: Schema, clipped: frozenset[str]) -> tuple[dict[str, Polynomial], _Rules]:
    level: dict[str, str] = {}
    polynomials: list[Polynomial] = [{(): 1.0}] if schema.ones else []
    scaled: dict[str, tuple[float, float]] = {}
    columns = {column.name: column for column in schema.columns}
    for attribute in schema.attributes:
        if attribute.kind == "categorical":
            names = [f"{attribute.name}_{item}" for item in attribute.levels]
            level |= dict.fromkeys(names[1:], attribute.name)
            polynomials.append({(): 1.0, **{(name,): -1.0 for name in names[1:]}})
            polynomials += [{(name,): 1.0} for name in names[1:]]
        else:
            column = columns[attribute.name]
            scaled[attribute.name] = column.center, column.half_range
            moved = f"{attribute.name}, clipped" if attribute.name in clipped else attribute.name
            polynomials.append({(moved,): 1.0})
    binary = frozenset(item.name for item in schema.attributes if item.kind == "binary")
    rules = _Rules(binary, level)
    for derived in schema.derived:
        if derived.kind == "log":
            polynomials.append({(derived.name,): 1.0})
            continue
        factors = [
            {(): scaled[name][0], (name,): scaled[name][1]} for name in (derived.of[0], derived.of[-1])
        ]
        value, column = rules.product(*factors), columns[derived.name]
        value[()] = value.get((), 0.0) - column.center
        polynomials.append({monomial: part / column.half_range for monomial, part in value.items()})
    return dict(zip(columns, polynomials, strict=True)), rules


@lru_cache(maxsize=64)
def layout_identities(layout: MomentsLayout, places: tuple[int, ...] | None = None) -> Identities:
    """Of the columns (1, z_1 / w_1, .., z_q / w_q) of the moments suite, or those at some places, with their 1."""
    level: dict[str, str] = {}
    binary: set[str] = set()
    polynomials: list[Polynomial] = [{(): 1.0}]
    for column in layout.columns if places is None else [layout.columns[j] for j in places]:
        names = [column.name] if column.factors is None else [layout.columns[j].name for j in column.factors]
        size = 1.0
        if column.kind in ("level", "clipped"):
            # The variable is the bit; the others are z / w as they are.
            level[column.name] = column.sources[0] if column.sources else column.name
            size = 1.0 / column.width
        elif column.kind == "bounded" and (column.steps, column.offset, column.width) == (1, 1, 1):
            binary.add(column.name)
        polynomials.append({tuple(sorted(names)): size})
    rules = _Rules(frozenset(binary), level)
    # A product of yes-or-no columns with themselves is not in its one form yet.
    one: Polynomial = {(): 1.0}
    return _equations([rules.product(one, item) for item in polynomials], rules, known=True)


def _equations(polynomials: Sequence[Polynomial], rules: _Rules, *, known: bool) -> Identities:
    p = len(polynomials)
    pivots: dict[Monomial, tuple[int, Polynomial, dict[Entry, float]]] = {}
    found: list[tuple[dict[Entry, float], float]] = []
    for entry in _order(polynomials):
        rest = rules.product(polynomials[entry[0]], polynomials[entry[1]])
        terms: dict[Entry, float] = {entry: 1.0}
        while held := [pivots[item][0] for item in rest if item in pivots]:
            # The earliest pivot first: those after it bring no earlier one back.
            monomial = next(item for item in rest if item in pivots and pivots[item][0] == min(held))
            _, pivot, combination = pivots[monomial]
            factor = rest[monomial] / pivot[monomial]
            _subtract(rest, pivot, factor)
            _subtract(terms, combination, factor)
            rest.pop(monomial, None)
        free = {item: part for item, part in rest.items() if abs(part) > _ZERO and (item or not known)}
        if free:
            largest = max(free, key=lambda item: (abs(free[item]), item))
            pivots[largest] = len(pivots), rest, terms
        else:
            found.append((terms, rest.get((), 0.0)))
    rows, places, parts = [], [], []
    for row, (terms, _) in enumerate(found):
        for (i, j), part in terms.items():
            rows += [row, row]
            places += [i * p + j, j * p + i]
            parts += [part / 2, part / 2]
    K = sparse.csr_array((parts, (rows, places)), shape=(len(found), p * p))
    return Identities(K, np.array([constant for _, constant in found]))


def _order(polynomials: Sequence[Polynomial]) -> list[Entry]:
    """Entries of short polynomials of low degree first, so that equations stay short."""
    size = [
        (max((len(item) for item in polynomial), default=0), len(polynomial)) for polynomial in polynomials
    ]
    pairs = [(i, j) for i in range(len(polynomials)) for j in range(i, len(polynomials))]
    return sorted(
        pairs,
        key=lambda pair: (size[pair[0]][0] + size[pair[1]][0], size[pair[0]][1] + size[pair[1]][1], pair),
    )


def _subtract(target: dict[Any, float], other: Mapping[Any, float], factor: float) -> None:
    for key, part in other.items():
        target[key] = target.get(key, 0.0) - factor * part
