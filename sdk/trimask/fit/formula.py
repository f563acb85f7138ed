"""Model formulas, `y ~ x1 + C(group) + a:b - 1`, read by formulaic and then held to what masking allows.

formulaic's parser gives the formula its usual meaning (Wilkinson's: `+ - : * / ** . 0 1` and brackets). It takes the
text apart and evaluates none of it; nothing here does either, so a formula cannot run code. What it yields is then
held to the rule that masking leaves linear algebra on the declared columns and nothing else:

- a name is a column; `.` is every column, and every group as C(group), beside the response;
- C(group) stands for the group's indicator columns less a reference level, the first declared one unless
  `C(group, ref=level)` (or `contr.treatment("level")`, `Treatment("level")`) names another;
- a:b is the declared product of a and b (`[[derived]]`, kind "product"), hence a*b is a + b + that column; C(g):x and
  C(g):C(h) are the declared products with a choice, without the reference level where the other factor stands in the model
  by itself, and a:b:c is a product of three;
- everything else is a transform, refused with the declaration that would make it a column of the study.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from functools import lru_cache

from trimask.errors import FormulaError
from trimask.fit.reading import Reading, shown
from trimask.fit.transform import undeclared
from trimask_core.schema import Schema

__all__ = ["Formula", "Term", "nearest", "parse", "refuse_transform"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Term:
    """A column; if `categorical`, a group `C(name)` and its reference level (None: the first); or a product of `factors`."""

    name: str
    categorical: bool = False
    reference: str | None = None
    factors: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Formula:
    """What a formula asks for, before it is held against a study's columns."""

    text: str
    response: str
    terms: tuple[Term, ...]
    intercept: bool


def nearest(name: str, known: list[str]) -> str:
    """'did you mean ...?', or the list of what there is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def refuse_transform(name: str, schema: Schema | None = None) -> None:
    """Refuse what is not a plain column name where one is wanted."""
    if not _NAME.fullmatch(name):
        raise FormulaError(undeclared(name, schema))


def parse(text: str, schema: Schema | None = None) -> Formula:
    """Read a formula, or raise `FormulaError` saying what to write instead. A `.` needs the study's `schema`."""
    if not isinstance(text, str):
        raise FormulaError(
            f"a formula is text such as 'response ~ column + column', got {type(text).__name__}"
        )
    return _parsed(text, schema)


@lru_cache(maxsize=256)
def _parsed(text: str, schema: Schema | None) -> Formula:
    if len(text) > _LONGEST:
        raise FormulaError(f"the formula has {len(text):,} characters; at most {_LONGEST:,} are read")
    if text.count("~") != 1:
        raise FormulaError(f"{text!r} is not a formula: write response ~ column + column, with one ~")
    left, right = (part.strip() for part in text.split("~"))
    if not left:
        raise FormulaError(f"{text!r} has nothing on its left side; write response ~ column + column")
    if group := re.fullmatch(r"C\s*\(\s*(\w+)\s*[,)].*", left):
        raise FormulaError(
            f"the response {left!r} must be one column; name one level of it, such as {group[1]}_LEVEL"
        )
    if not _NAME.fullmatch(left):
        raise FormulaError(f"the response {left!r} must be one column; {undeclared(left, schema)}")
    if not right:
        raise FormulaError(f"{text!r} has nothing on its right side; write 1 for the mean alone")
    found = Reading(text, left, schema).terms()
    intercept, said = ["1"] in found, shown(text)
    terms = [_term(said, term, schema) for term in found if len(term) == 1 and term != ["1"]]
    terms += [_product(said, term, schema) for term in found if len(term) > 1]
    _check(said, left, terms)
    if not terms and not intercept:
        raise FormulaError(f"{said!r} has nothing on its right side")
    return Formula(text, left, tuple(terms), intercept)


def _term(text: str, factors: list[str], schema: Schema | None) -> Term:
    (expression,) = factors
    if _NAME.fullmatch(expression):
        return Term(expression)
    if re.match(r"C\s*\(", expression):
        return _group(text, expression)
    raise FormulaError(f"{text!r}: {undeclared(expression, schema)}")


def _group(text: str, expression: str) -> Term:
    """C(name), with a reference level as trimask, formulaic or patsy write it."""
    usage = "write C(group), or C(group, ref=level)"
    call = ast.parse(expression, mode="eval").body
    if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Name):
        raise FormulaError(f"{text!r}: C( ) takes a categorical attribute; {usage}")
    name = call.args[0].id
    usage = f"write C({name}, ref=level)"
    rest = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    if not rest:
        return Term(name, categorical=True)
    level: ast.expr | None = None
    if len(rest) == 1 and [keyword.arg for keyword in call.keywords] == ["ref"]:
        level = rest[0]
    elif len(rest) == 1 and isinstance(rest[0], ast.Call):
        level = _treatment(rest[0])
    if not isinstance(level, ast.Constant) or not isinstance(level.value, str) or not level.value:
        raise FormulaError(
            f"{text!r}: {usage}. Groups are coded as indicators against a reference level; other codings are "
            "combinations of these, which f_test takes"
        )
    return Term(name, categorical=True, reference=level.value)


def _treatment(call: ast.Call) -> ast.expr | None:
    """The level in contr.treatment("level") or Treatment("level"), by place or by name."""
    values = [*call.args, *(word.value for word in call.keywords if word.arg in ("base", "reference"))]
    known = ast.unparse(call.func) in ("contr.treatment", "Treatment")
    return values[0] if known and len(values) == 1 == len(call.args) + len(call.keywords) else None


def _product(text: str, factors: list[str], schema: Schema | None) -> Term:
    numbers = [factor for factor in factors if not factor[:1].isalpha() and not factor.startswith("_")]
    if numbers:
        raise FormulaError(
            f"{text!r}: {numbers[0]} only scales a column, and its coefficient back; leave it out"
        )
    return Term(":".join(factors), factors=tuple(_term(text, [factor], schema) for factor in factors))


def _check(text: str, response: str, terms: list[Term]) -> None:
    seen: set[str] = {response}
    for term in terms:
        if term.factors:
            continue
        if term.name in seen:
            where = "on both sides" if term.name == response else "twice"
            raise FormulaError(f"{text!r}: {term.name} appears {where}")
        seen.add(term.name)
