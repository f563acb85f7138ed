"""The model that is fitted by default."""

from __future__ import annotations

from trimask_core.errors import ConfigError
from trimask_core.schema import Schema

__all__ = ["default_formula"]


def default_formula(schema: Schema) -> str:
    """The first numeric attribute on all the others."""
    attributes = schema.attributes
    numeric = [attribute.name for attribute in attributes if attribute.kind != "categorical"]
    if not numeric or len(attributes) < 2:
        raise ConfigError("this study has no numeric attribute to explain by another; give --formula")
    others = [
        f"C({attribute.name})" if attribute.kind == "categorical" else attribute.name
        for attribute in attributes
        if attribute.name != numeric[0]
    ]
    return f"{numeric[0]} ~ {' + '.join(others)}"
