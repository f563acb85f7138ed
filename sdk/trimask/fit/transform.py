"""What to declare in a study instead of a transform in a formula.

Squares, products and logarithms are formed on the device if the study declares them. Whatever else a person's
device is to compute is asked for as an attribute of its own. The expression is only taken apart, never run.
"""

from __future__ import annotations

import ast
import difflib
import re

from trimask_core.schema import Derived, DerivedKind, Schema

__all__ = ["contents", "declared_as", "product_lines", "undeclared"]

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
