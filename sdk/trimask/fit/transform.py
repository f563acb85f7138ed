"""What to declare in a study instead of a transform in a formula.

Squares, products and logarithms are formed on the device if the study declares them. Whatever else a person's
device is to compute is asked for as an attribute of its own. The expression is only taken apart, never run.
"""

from __future__ import annotations

import ast
import difflib
import re

from trimask_core.schema import Derived, DerivedKind, Schema

__all__ = ["declared_as", "undeclared"]

_RULE = "nothing nonlinear can be computed after masking, so declare it in the study definition; it is formed on the device"
_NAMES: dict[DerivedKind, str] = {"log": "log_{0}", "square": "{0}_squared", "product": "{0}_{1}"}


def declared_as(kind: DerivedKind, of: tuple[str, ...], schema: Schema) -> str | None:
    """The derived column of a study that is this, if there is one."""
    for derived in schema.derived:
        if derived.kind == kind and sorted(derived.of) == sorted(of):
            return derived.name
    return None


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
        if name in answers and answers[name].kind != "categorical":
            low = answers[name].bounds[0]
            if kind == "log" and low <= 0:
                return f"a logarithm needs an attribute whose minimum is above 0; {name} goes down to {low:g}"
        elif name in answers:
            return f"{name} is categorical: its levels are {', '.join(answers[name].levels)}"
        elif name in columns and columns[name].level is not None:
            own = tuple(f"is_{item}" if item == name else item for item in of)
            asked = f'[[attributes]]\nname = "is_{name}"\nkind = "binary"'
            declared = _toml(Derived(_NAMES[kind].format(*own), kind, own))
            return (
                f"{name} is a level, of which no product can be declared. Ask for it as a yes-or-no attribute of its own, "
                f"and declare the product of that:\n\n{asked}\n\n{declared}\n"
            )
        elif name in columns:
            return (
                f"{name} is derived itself: squares, products and logarithms are formed of what people answer"
            )
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
