"""Model formulas, `y ~ x1 + C(group) + a:b - 1`, read by formulaic and then held to what masking allows.

formulaic's parser gives the formula its usual meaning (Wilkinson's: `+ - : * / ** . 0 1` and brackets). It takes the
text apart and evaluates none of it; nothing here does either, so a formula cannot run code. What it yields is then
held to the rule that masking leaves linear algebra on the declared columns and nothing else:

- a name is a column; `.` is every column, and every group as C(group), beside the response;
- C(group) stands for the group's indicator columns less a reference level: the first declared one (the commonest, where
  that is rare: `trimask.fit.design`) unless `C(group, ref=level)` (or `contr.treatment("level")`, `Treatment("level")`)
  names another; `C(group, merge=[a, b])` takes two or more levels for one;
- a:b is the declared product of a and b (`[[derived]]`, kind "product"), hence a*b is a + b + that column; C(g):x and
  C(g):C(h) are the declared products with a choice, without the reference level where the other factor stands in the model
  by itself, and a:b:c is a product of three;
- everything else is a transform, refused with the declaration that would make it a column of the study.

Instead of a transform, a study declares something. Squares, products and logarithms are formed on the device if the study
declares them. Whatever else a person's device is to compute is asked for as an attribute of its own. The expression is
only taken apart, never run.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trimask.errors import FormulaError
from trimask_core.study.derived import Derived, DerivedKind
from trimask_core.study.schema import Schema

_RULE = "nothing nonlinear can be computed after masking, so declare it in the study definition; it is formed on the device"
_NAMES: dict[DerivedKind, str] = {"log": "log_{0}", "square": "{0}_squared", "product": "{0}_{1}"}


def contents(schema: Schema) -> dict[tuple[str, ...], str]:
    """The column of each product, by the numbers and levels multiplied in it, sorted; of the same twice, the first."""
    made: dict[str, list[tuple[str, ...]]] = {}
    for name, part in schema.parts.items():
        derived = next((item for item in schema.derived if item.name == name), None)
        if derived is None or derived.kind not in ("product", "square"):
            made[name] = [(column.name,) for column in part.columns]
            continue
        first, second = (made[of] for of in (derived.of[0], derived.of[-1]))
        if len(first) == 1 and len(second) > 1 and schema.parts[derived.of[0]].kind == "number":
            first, second = second, first
        made[name] = [tuple(sorted((*a, *b))) for a in first for b in second]
    found: dict[tuple[str, ...], str] = {}
    for name, keys in made.items():
        for column, key in zip(schema.parts[name].columns, keys, strict=True):
            found.setdefault(key, column.name)
    return found


def declared_as(kind: DerivedKind, of: tuple[str, ...], schema: Schema) -> str | None:
    """The derived column of a study that is this, if there is one."""
    if kind == "log":
        return next((item.name for item in schema.derived if item.kind == "log" and item.of == of), None)
    names = of if kind == "product" else (*of, *of)
    if len(set(of)) < len(of):
        names = of
    keys = {name: key for key, name in contents(schema).items()}
    if not all(name in keys for name in names):
        return None
    return contents(schema).get(tuple(sorted(part for name in names for part in keys[name])))


def product_lines(of: tuple[str, ...], schema: Schema) -> str:
    """The [[derived]] lines that declare a product of two or three, of three by way of a product of two that is a factor."""
    kinds = {name: schema.parts[name].kind for name in of}
    if len(of) == 2:
        return _toml(Derived("_".join(of), "product", of))
    choices = [name for name in of if kinds[name] == "choice"]
    numbers = [name for name in of if kinds[name] != "choice"]
    pair = tuple(choices[:2] if len(choices) > 1 else numbers[:2])
    (rest,) = [name for name in of if name not in pair]
    held = next(
        (item.name for item in schema.derived if item.kind == "product" and set(item.of) == set(pair)), None
    )
    first = "" if held is not None else _toml(Derived("_".join(pair), "product", pair)) + "\n\n"
    return first + _toml(Derived("_".join((*pair, rest)), "product", (held or "_".join(pair), rest)))


def undeclared(expression: str, schema: Schema | None) -> str:
    """Why this cannot be fitted, and the lines of TOML that would have made it a column (or the column it is)."""
    if not expression:
        return _RULE
    wanted = _derived(expression)
    if wanted is None:
        name = re.sub(r"\W+", "_", expression).strip("_").lower()[:63]
        name = name if name[:1].isalpha() else "my_column"
        toml = f'[[attributes]]\nname = "{name}"\nkind = "continuous"\nminimum = 0.0  # its own bounds\nmaximum = 1.0'
        return f"{expression} is not a column; {_RULE} where the answer is given:\n\n{toml}\n"
    kind, of = wanted
    if schema is not None and (problem := _cannot(kind, of, schema)):
        return f"{expression} is not a column, and {problem}"
    if schema is not None and (found := declared_as(kind, of, schema)) is not None:
        return f"the study declares {expression} as {found}: write {found}"
    name = _NAMES[kind].format(*of)
    return f"{expression} is not a column; {_RULE}:\n\n{_toml(Derived(name, kind, of))}\n"


def _cannot(kind: DerivedKind, of: tuple[str, ...], schema: Schema) -> str:
    """Why no study could declare this, and what it could ask for instead; empty where it could."""
    answers = {item.name: item for item in schema.attributes}
    columns = {column.name: column for column in schema.columns}
    for name in of:
        if kind == "product" and name in schema.parts:
            if schema.parts[name].kind == "within":
                return f"{name} is a number within a choice, which is no factor"
            continue
        if name in answers and answers[name].kind != "categorical":
            low = answers[name].bounds[0]
            if kind == "log" and low <= 0:
                return f"a logarithm needs an attribute whose minimum is above 0; {name} goes down to {low:g}"
        elif name in answers:
            return f"{name} is categorical: its levels are {', '.join(answers[name].levels)}"
        elif name in columns and columns[name].level is not None:
            return f"{name} is a level, 0 or 1: its square is itself"
        elif name in columns:
            return f"{name} is derived itself: squares and logarithms are formed of what people answer"
        else:
            close = difflib.get_close_matches(name, list(columns), n=1)
            return f"the study has no column {name}" + (f"; did you mean {close[0]}?" if close else "")
    return ""


def _toml(derived: Derived) -> str:
    of = ", ".join(f'"{name}"' for name in derived.of)
    return f'[[derived]]\nname = "{derived.name}"\nkind = "{derived.kind}"\nof = [{of}]'


def _derived(expression: str) -> tuple[DerivedKind, tuple[str, ...]] | None:
    """The declaration an expression amounts to, if a study can declare it."""
    try:
        node: ast.expr = ast.parse(expression.replace("^", "**").replace(":", "*"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "I" and len(node.args) == 1:
        node = node.args[0]
    match node:
        # Logarithms to other bases are multiples of the natural one, and so are their coefficients.
        case ast.Call(args=[ast.Name(id=name)], keywords=[]) if _function(node) in ("log", "log2", "log10"):
            return "log", (name,)
        case ast.Call(args=[ast.Name(id=name)], keywords=[]) if _function(node) == "square":
            return "square", (name,)
        case ast.BinOp(left=ast.Name(id=name), op=ast.Pow(), right=ast.Constant(value=2)):
            return "square", (name,)
        case ast.BinOp(left=ast.Name(id=first), op=ast.Mult(), right=ast.Name(id=second)):
            return ("square", (first,)) if first == second else ("product", (first, second))
    return None


def _function(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


# Levels may start with a digit, which is no Python: an unquoted one is quoted before formulaic sees it.
_LEVEL = re.compile(r"(\bC\(\s*[A-Za-z_]\w*\s*,\s*ref\s*=\s*)(\w+)(?=\s*[,)])")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|[⧛⧚]")
_SHOWN = 200
_PRODUCTS = ("*", ":", "/", "in")
_POWERS = ("**", "^")
_FACTORS = 3


def shown(text: str) -> str:
    """The formula as an error repeats it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class Reading:
    """One formula in formulaic's hands."""

    def __init__(self, text: str, response: str, schema: Schema | None) -> None:
        # A sixth of a second, which `import trimask.fit` need not pay.
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser

        self.whole, self.text, self.schema = text, shown(text), schema
        # What the parser raises on odd texts beside its own errors; a formula has no other way to fail.
        self.failures = (
            FormulaicError,
            SyntaxError,
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
            RecursionError,
        )
        self.context: dict[str, Any] = {}
        if schema is not None:
            self.context["__formulaic_variables_available__"] = _everything(schema, response)
            self.context["__formulaic_variables_used_lhs__"] = [response]
        self.parser = DefaultFormulaParser(feature_flags={"twosided"})

    def terms(self) -> list[list[str]]:
        """Every term as the texts of its factors, ["1"] being the intercept, in the order written."""
        prepared = _LEVEL.sub(r'\1"\2"', self.whole)
        try:
            tree = self.parser.get_ast(prepared, context=self.context)
            self.inspect(tree.args[1] if hasattr(tree, "operator") else tree)
            terms = self.parser.get_terms_from_ast(tree, context=self.context).rhs
            return [[str(factor.expr) for factor in term.factors] for term in terms]
        except FormulaError:
            raise
        except self.failures as error:
            raise FormulaError(self.words(error)) from None

    def words(self, error: Exception) -> str:
        """What the parser found, in one line without its terminal colours."""
        if isinstance(error, KeyError) or "operator requires additional context" in str(error):
            return f"{self.text!r}: a . stands for every column of a study; fit a dataset, or name them"
        if "Numeric literals" in str(error):
            return f"{self.text!r}: a number is no column; 1 stands for the intercept, 0 for none"
        said = _COLOURS.sub("", str(error)).strip().splitlines() or [type(error).__name__]
        return f"{self.text!r} cannot be read: {said[0].rstrip('.')}. Write response ~ column + C(group) - 1"

    def inspect(self, tree: Any) -> None:
        """Refuse a term of more columns than a declared product has, and powers and minuses nobody means.

        Done before terms are formed: a product of many brackets has more of them than a machine holds. Without
        recursion: a sum of a thousand columns is a tree as deep.
        """
        order: dict[int, int] = {}
        waiting = [(tree, False)]
        while waiting:
            node, ready = waiting.pop()
            parts = list(node.args) if hasattr(node, "operator") else []
            if not ready:
                waiting.append((node, True))
                waiting += [(part, False) for part in parts]
                continue
            orders = [order[id(part)] for part in parts]
            found = max(orders, default=1)
            symbol = node.operator.symbol if parts else ""
            if symbol in _POWERS:
                found = self.power(node) * orders[0]
            elif symbol in _PRODUCTS:
                found = sum(orders)
            elif symbol == "-":
                self.taken_away(parts)
            if found > _FACTORS:
                raise FormulaError(
                    f"{self.text!r} multiplies {found} columns; products of {_FACTORS} at most are read: "
                    + undeclared("", None)
                )
            order[id(node)] = found

    def power(self, node: Any) -> int:
        """(a + b)**2 is Wilkinson's a + b + a:b; of one column it would be that column, which nobody means."""
        base, exponent = node.args
        if not hasattr(base, "operator"):
            raise FormulaError(
                f"{self.text!r}: {undeclared(f'{base.token} ** {exponent.token}', self.schema)}"
            )
        count = str(getattr(exponent, "token", ""))
        if not count.isdigit() or int(count) < 1:
            raise FormulaError(f"{self.text!r}: a power is ** with a positive whole number")
        return int(count)

    def taken_away(self, parts: Sequence[Any]) -> None:
        """`. - x` takes x out; taking out what is not there is a slip of the pen."""
        terms = [
            part.to_terms(context=self.context) if hasattr(part, "operator") else part.to_terms()
            for part in parts
        ]
        here = {str(term) for term in terms[0]} if len(terms) > 1 else set()
        absent = [str(term) for term in terms[-1] if str(term) not in here and str(term) != "1"]
        if absent:
            raise FormulaError(
                f"{self.text!r}: {absent[0]} is taken away but not there; leave {absent[0]} out"
            )


def _everything(schema: Schema, response: str) -> list[str]:
    """What `.` stands for: every column, groups as C(group), but nothing of which the response is part."""
    names = []
    for attribute in schema.attributes:
        levels = [f"{attribute.name}_{level}" for level in attribute.levels]
        if response not in (attribute.name, *levels):
            names.append(f"C({attribute.name})" if levels else attribute.name)
    # Bins and products with choices are left out: a model names those it wants.
    made = [item.name for item in schema.derived if schema.parts[item.name].kind == "number"]
    return names + [name for name in made if name != response]


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Term:
    """A column; if `categorical`, a group `C(name)`, its reference level and the levels taken for one; or a product."""

    name: str
    categorical: bool = False
    reference: str | None = None
    merge: tuple[str, ...] = ()
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
    """C(name), with a reference level as trimask, formulaic or patsy write it, and levels to take for one."""
    usage = "write C(group), C(group, ref=level) or C(group, merge=[level, level])"
    call = ast.parse(expression, mode="eval").body
    if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Name):
        raise FormulaError(f"{text!r}: C( ) takes a categorical attribute; {usage}")
    name = call.args[0].id
    given = {keyword.arg or "": keyword.value for keyword in call.keywords}
    merged = given.pop("merge", None)
    merge = _levels(merged.elts) if isinstance(merged, (ast.List, ast.Tuple)) else ()
    if merged is not None and len(merge) < 2:
        raise FormulaError(f"{text!r}: write C({name}, merge=[level, level]) with the levels to take for one")
    rest = [*call.args[1:], *given.values()]
    if not rest:
        return Term(name, categorical=True, merge=merge)
    level: ast.expr | None = None
    if len(rest) == 1 and list(given) == ["ref"]:
        level = rest[0]
    elif len(rest) == 1 and isinstance(rest[0], ast.Call):
        level = _treatment(rest[0])
    if not isinstance(level, ast.Constant) or not isinstance(level.value, str) or not level.value:
        raise FormulaError(
            f"{text!r}: write C({name}, ref=level). Groups are coded as indicators against a reference level; other codings "
            "are combinations of these, which f_test takes"
        )
    return Term(name, categorical=True, reference=level.value, merge=merge)


def _levels(items: Sequence[ast.expr]) -> tuple[str, ...]:
    """Levels in a list, in quotes or without."""
    read = [item.id if isinstance(item, ast.Name) else getattr(item, "value", "") for item in items]
    return tuple(dict.fromkeys(str(item) for item in read if item != ""))


def group_term(text: str) -> Term:
    """A group named by itself: `health`, `C(health)`, `C(health, merge=[fair, poor])`."""
    said = text.strip()
    return _group(said, said) if re.match(r"C\s*\(", said) else Term(said, categorical=True)


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
