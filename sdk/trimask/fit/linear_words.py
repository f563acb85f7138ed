"""Linear statements about coefficients, read from words: `C(g)[a] - C(g)[b]`, `2 * age + bmi = 3`, `C(g)`.

A name is one of the fit's coefficients; C(group) alone stands for all its coefficients at once. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from trimask.errors import FormulaError
from trimask.fit.formula import nearest
from trimask.moments import Matrix

__all__ = ["split_statements", "statements"]

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_USAGE = "write such as 'age = 0', 'bmi = age', 'C(g)[a] - C(g)[b]' or '2 * age + bmi = 3'"


def split_statements(text: str) -> list[str]:
    """Statements by commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def statements(item: str, names: Sequence[str]) -> list[tuple[Matrix, float, str]]:
    """(weights, value, words) of the statement weights @ beta = value; several for a whole group."""
    whole = re.fullmatch(r"C\(\s*(\w+)\s*\)(?:\s*=\s*0)?", item)
    if whole is not None:
        prefix = f"C({whole[1]})["
        levels = [j for j, name in enumerate(names) if name.startswith(prefix)]
        if not levels:
            raise FormulaError(f"the fit has no group {whole[1]}; {nearest(item, list(names))}")
        return [(np.eye(len(names))[j], 0.0, f"{names[j]} = 0") for j in levels]
    left, equals, right = item.partition("=")
    if equals and ("=" in right or not right.strip()):
        raise FormulaError(f"{item!r} is not a hypothesis: {_USAGE}")
    weights, constant = _side(left, item, names)
    other, moved = _side(right, item, names) if equals else (np.zeros(len(names)), 0.0)
    weights = weights - other
    if not weights.any() or not np.isfinite(weights).all() or not np.isfinite(moved - constant):
        raise FormulaError(f"{item!r} is not a hypothesis: {_USAGE}")
    words = re.sub(r"\s+", " ", item.strip() if equals else f"{item.strip()} = 0")
    return [(weights, moved - constant, re.sub(r"\s*=\s*", " = ", words))]


def _side(text: str, item: str, names: Sequence[str]) -> tuple[Matrix, float]:
    """The weights and the constant of a sum of terms."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    term = re.compile(
        rf"\s*(?P<sign>[+-]?)\s*(?:(?P<factor>{_NUMBER})\s*(?P<times>\*)\s*)?"
        rf"(?:(?P<name>{known})(?![\w\[(])(?:\s*/\s*(?P<over>{_NUMBER}))?|(?P<number>{_NUMBER}))\s*"
    )
    weights, constant, at = np.zeros(len(names)), 0.0, 0
    while at < len(text):
        found = term.match(text, at)
        if found is None or (at > 0 and not found["sign"]):
            word = re.search(r"[A-Za-z_]\w*(?:\([^)]*\))?(?:\[[^\]]*\])?", text[at:])
            if word is not None and word[0] not in names and word[0].lower() not in ("nan", "inf"):
                raise FormulaError(f"the fit has no coefficient {word[0]}; {nearest(word[0], list(names))}")
            raise FormulaError(f"{item!r} is not a hypothesis: {_USAGE}")
        size = -1.0 if found["sign"] == "-" else 1.0
        if found["factor"]:
            size *= float(found["factor"])
        if found["name"] is None:
            constant += size * float(found["number"])
        else:
            weights[list(names).index(found["name"])] += size / float(found["over"] or 1)
        at = found.end()
    if not text.strip():
        raise FormulaError(f"{item!r} is not a hypothesis: {_USAGE}")
    return weights, constant
