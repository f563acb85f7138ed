"""Studies with some settings changed, whichever part of the study holds them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from trimask_core.study.definition import Study

__all__ = ["changed", "changed_dict"]


def changed(study: Study, **changes: Any) -> Study:
    """The study with settings of its own or of its suite replaced, by name."""
    inner = {item.name for item in fields(study.suite)}
    suite = replace(study.suite, **{name: value for name, value in changes.items() if name in inner})
    outer = {name: value for name, value in changes.items() if name not in inner}
    return replace(study, **{"suite": suite, **outer})


def changed_dict(study: Study, name: str, value: object) -> dict[str, Any]:
    """The study's JSON form with one setting of its own or of its suite replaced."""
    data = study.to_dict()
    if name in data["suite"]:
        return {**data, "suite": {**data["suite"], name: value}}
    return {**data, name: value}
