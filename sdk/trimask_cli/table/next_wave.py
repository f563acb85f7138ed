"""The next wave of a study drafted from a release of it: the same questions, with the grid and row_norm by the release."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

from trimask.moments.moments import SHRUNK, Moments
from trimask.moments.waves import PLANNED, expected_of, people_like
from trimask_cli.own_plan.predict import Population
from trimask_cli.own_plan.recommend import Recommendation, recommend, with_attributes
from trimask_cli.study_file import default_formula, toml_value
from trimask_cli.table.draft import with_settings
from trimask_core.basics.errors import ConfigError
from trimask_core.study.schema import Schema
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.study_definition import load_definition

_FINE = 20
"""Steps in a deviation, at least: rounding to the grid then adds less than a four-thousandth of the variance."""
_HEAD = """# The next wave of {name}, for other people: drafted by {release}, which is public.
# Centres, scales, steps and row_norm are that release's; questions, epsilon and delta are as they were.
"""
_WHY = """# Chosen so that slopes keep their intervals by what the release lets one expect, which is to be signed with it:
# trimask study new THIS.toml --pilot DATASET
"""


def next_wave(
    file: Path, release: Moments, rows: int | None, formula: str | None, named: str
) -> tuple[str, Recommendation]:
    """The definition's text with new settings, and what they are predicted to do."""
    if file.suffix == ".json":
        raise ConfigError(f"{file}: give the definition (a .toml) that this study was made of")
    text = file.read_text(encoding="utf-8")
    old = load_definition(file)
    _refuse_others(old, release, file)
    if rows is not None:
        text = re.sub(r"(?m)^(release_rows = )\d+", rf"\g<1>{rows}", text, count=1)
        old = old.changed(release_rows=rows)
    found, steps = planned_by(old, release, formula or default_formula(old.schema))
    settings = {name: dict(values) for name, values in found.settings.items()}
    for name, step in steps.items():
        settings.setdefault(name, {})["step"] = step
    old_grid = re.compile(r"(?m)^(?:row_norm|centre|scale) = [-+.\d].*\n")
    text = _HEAD.format(name=file.name, release=named) + old_grid.sub("", text)
    text = with_settings(text, settings, _WHY)
    written = load_definition(text)
    if (written.schema, written.privacy) != (found.definition.schema, found.definition.privacy):
        said = "; ".join(f"{name}: {toml_value(values)}" for name, values in settings.items())
        raise ConfigError(f"{file} is laid out otherwise than a draft; write these into it yourself: {said}")
    return text, found


def planned_by(
    definition: StudyDefinition, release: Moments, formula: str
) -> tuple[Recommendation, dict[str, float]]:
    """What is recommended to others by a release of the same questions, and the finer steps it asks for."""
    bare = _bare(definition)
    steps = _steps(bare, release) if definition.collection.suite == "moments" else {}
    changed = {
        item.name: replace(item, step=steps[item.name])
        for item in bare.schema.attributes
        if item.name in steps
    }
    people = Population(people_like(release), worth=PLANNED)
    return recommend(with_attributes(bare, changed), people, formula), steps


def _refuse_others(definition: StudyDefinition, release: Moments, file: Path) -> None:
    if definition.schema.columns != release.columns or definition.collection.suite != release.suite:
        raise ConfigError(
            f"{file} asks something else than the study of {release.label}, or in another suite"
        )
    if definition.weight is not None:
        raise ConfigError(
            f"{file}: a study with weights has no next wave by a release; use trimask plan --pilot"
        )
    if SHRUNK in release.label and "not corrected" in release.label:
        raise ConfigError(
            f"{release.label}: what was shrunk there is not corrected, so it says too little of the next people"
        )


def _bare(definition: StudyDefinition) -> StudyDefinition:
    """Without row_norm, centres and scales."""
    attributes = tuple(replace(item, centre=None, scale=None) for item in definition.schema.attributes)
    schema = Schema(attributes, definition.schema.derived, definition.schema.ones)
    return replace(definition, schema=schema, privacy=replace(definition.privacy, row_norm=None))


def _steps(definition: StudyDefinition, release: Moments) -> dict[str, float]:
    """Of continuous attributes whose grid, a thousandth of the range unless given, is too coarse for their deviation."""
    found = {}
    deviations = {one.name: one.deviation for one in expected_of(release).columns}
    for item in definition.schema.attributes:
        deviation = deviations.get(item.name)
        if item.kind == "continuous" and deviation is not None:
            low, high = item.bounds
            wanted = deviation / _FINE
            power = 10.0 ** math.floor(math.log10(wanted))
            fine = float(f"{next(m for m in (5, 2, 1) if m * power <= wanted * (1 + 1e-9)) * power:.3g}")
            if fine < (item.step or (high - low) / 1000):
                found[item.name] = fine
    return found
