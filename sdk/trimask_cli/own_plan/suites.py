"""Converts a definition to either suite."""

from __future__ import annotations

import math
from dataclasses import replace

from trimask_core.schema import Attribute, Schema
from trimask_core.study import SuiteName
from trimask_theory.definition import CollectionPlan, StudyDefinition

__all__ = ["in_suite", "with_attributes"]


def in_suite(definition: StudyDefinition, suite: SuiteName) -> StudyDefinition:
    """The definition in a suite; settings that the suite does not have are left out.

    A `row_norm` is left out too: it is measured from another centre there.
    """
    if definition.collection.suite == suite:
        return definition
    plan, privacy = definition.collection, definition.privacy
    common = CollectionPlan(plan.release_rows, suite, admission=plan.admission, access=plan.access)
    bare = replace(privacy, row_norm=None, method="sharp", honest_providers=None)
    if suite == "moments":
        return replace(definition, collection=common, privacy=replace(bare, protect="record"))
    columns = len(definition.schema.columns)
    block = min(plan.release_rows, max(128, 2 ** math.ceil(math.log2(2 * columns))))
    schema = replace(
        definition.schema, attributes=tuple(_without_grid(item) for item in definition.schema.attributes)
    )
    return replace(definition, collection=replace(common, block_rows=block), privacy=bare, schema=schema)


def _without_grid(attribute: Attribute) -> Attribute:
    return replace(attribute, step=None, centre=None, scale=None)


def with_attributes(definition: StudyDefinition, changed: dict[str, Attribute]) -> StudyDefinition:
    """With attributes replaced, by name."""
    old = definition.schema
    attributes = tuple(changed.get(item.name, item) for item in old.attributes)
    return replace(definition, schema=Schema(attributes, old.derived, old.ones))
