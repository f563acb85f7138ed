"""Which settings of a definition belong to one suite alone, and why the other refuses them.

A setting that does nothing in a suite is refused there, with the reason: whoever wrote it believes that it does something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from typing import Any

from trimask_core.errors import ParameterError, StudyError
from trimask_core.study import SuiteName
from trimask_theory.definition import PrivacyTarget, StudyDefinition

__all__ = ["FOREIGN", "check_definition", "check_suite", "refuse_foreign_keys"]

_NO_MASKS = "no row is masked there, so there is nothing to set"
FOREIGN: dict[SuiteName, dict[str, str]] = {
    "rows": {
        "privacy.budget": "private answers would need somebody who holds the exact sums over everybody",
        "privacy.honest_providers": "there every row brings its own noise, and no provider adds any",
        "attributes.step": "its rows are real numbers and have no steps",
        "attributes.centre": "its rows are scaled by minimum and maximum",
        "attributes.scale": "its rows are scaled by minimum and maximum",
    },
    "moments": {
        "collection.block_rows": "reports are added up in shares as they come, so there are no blocks",
        "collection.noise_columns": _NO_MASKS,
        "collection.obfuscation_failure": _NO_MASKS,
        "collection.unmasking": _NO_MASKS,
        "collection.share_leakage": "its shares are uniform, so any K1 - 1 of them tell nothing at all",
        "privacy.certified": "its noise has a closed formula, and no integral to enclose",
        "privacy.method": "its noise is a Gaussian on totals, calibrated in the one way there is",
    },
}


def check_suite(word: str) -> SuiteName:
    """The suite of this name; refused if there is none."""
    for suite in FOREIGN:
        if word == suite:
            return suite
    raise ParameterError("collection.suite", "one of " + ", ".join(map(repr, FOREIGN)), word)


def refuse_foreign_keys(suite: SuiteName, section: str, keys: Iterable[str], shown: str = "") -> None:
    """Refuse keys of a TOML section that are of the other suite; `shown` is the section's name in the refusal."""
    for key in keys:
        reason = FOREIGN[suite].get(f"{section}.{key}")
        if reason is not None:
            other = "moments" if suite == "rows" else "rows"
            raise StudyError(
                f"{shown or section}.{key} is for the {other} suite; this study's is {suite}: {reason}. Take {key} out, or "
                f'set [collection] suite = "{other}"'
            )


def check_definition(definition: StudyDefinition) -> None:
    """Refuse settings that are of the other suite, and privacy targets that the suite cannot read."""
    suite = definition.collection.suite
    for section, settings in (("privacy", definition.privacy), ("collection", definition.collection)):
        refuse_foreign_keys(suite, section, (f.name for f in fields(settings) if _is_set(settings, f)))
    for attribute in definition.schema.attributes:
        given = [name for name in ("step", "centre", "scale") if getattr(attribute, name) is not None]
        refuse_foreign_keys(suite, "attributes", given, f"attributes.{attribute.name}")
    _CHECKS[suite](definition)
    if definition.weight is not None:
        _check_weight(definition)


def _is_set(settings: Any, field: Field[Any]) -> bool:
    """Whether a setting is other than when it is left out."""
    return field.default is not MISSING and getattr(settings, field.name) != field.default


def _check_rows(definition: StudyDefinition) -> None:
    privacy, plan = definition.privacy, definition.collection
    if plan.block_rows is None:
        raise StudyError("[collection] needs block_rows and release_rows")
    if not privacy.exact and not _has_pair(privacy):
        raise StudyError("[privacy] needs epsilon and delta, or exact = true for a release without noise")
    if privacy.certified and (privacy.exact or privacy.method != "sharp"):
        raise StudyError(
            'privacy.certified = true is for noise with method = "sharp", which has an integral to enclose: leave it '
            "out, or use that"
        )


def _check_moments(definition: StudyDefinition) -> None:
    privacy = definition.privacy
    if privacy.protect == "unit":
        raise StudyError(
            'privacy.protect = "unit" is for the rows suite: a row that moves by 1 moves its products by up to twice its '
            'norm, and the noise of this suite covers a person\'s whole record. Take protect out, or set it to "record"'
        )
    if not definition.schema.ones:
        raise StudyError(
            "ones = false is for the rows suite: the number of people and all sums are released here. Take ones out"
        )
    if privacy.budget is not None:
        if privacy.exact:
            raise StudyError(
                "take privacy.exact out: in the moments suite a study with a [privacy.budget] keeps its totals in shares, "
                "and no party holds the exact ones"
            )
        if privacy.epsilon is not None or privacy.delta is not None:
            raise StudyError(
                "take privacy.epsilon and delta out: a study with a [privacy.budget] publishes nothing by itself, and each "
                "answer names its own price"
            )
    elif not privacy.exact and not _has_pair(privacy):
        raise StudyError(
            "[privacy] needs epsilon and delta, or a [privacy.budget], or exact = true (no noise at all, for checks)"
        )


def _check_weight(definition: StudyDefinition) -> None:
    instead = "Take [weight] out, declare the products of a choice with the columns, and weight afterwards: fit.weighted"
    if definition.privacy.budget is not None:
        raise StudyError(
            f"[weight] and [privacy.budget]: private answers are made for rows that all count the same. {instead}"
        )
    if definition.privacy.protect == "unit":
        raise StudyError(
            '[weight] and privacy.protect = "unit": an answer that changes the weight moves the whole row, and not by 1. '
            f'Set protect = "record". Or: {instead}'
        )


def _has_pair(privacy: PrivacyTarget) -> bool:
    return privacy.epsilon is not None and privacy.delta is not None


_CHECKS: dict[SuiteName, Callable[[StudyDefinition], None]] = {"rows": _check_rows, "moments": _check_moments}
