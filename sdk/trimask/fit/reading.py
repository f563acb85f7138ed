"""A formula in formulaic's hands: its terms in their usual meaning, and no more of them than masking could allow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trimask.errors import FormulaError
from trimask.fit.transform import undeclared
from trimask_core.schema import Schema

__all__ = ["Reading", "shown"]

# Levels may start with a digit, which is no Python: an unquoted one is quoted before formulaic sees it.
_LEVEL = re.compile(r"(\bC\(\s*[A-Za-z_]\w*\s*,\s*ref\s*=\s*)(\w+)(?=\s*\))")
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
