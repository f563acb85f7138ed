"""From a study's definition and its parties to the study itself: every number the parties will sign.

What is particular to a suite is in `planning.rows` and `planning.moments`. `verify_guarantees` is the other side: whoever
is asked to approve a study recomputes what it claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trimask_core.basics.errors import StudyError
from trimask_core.basics.randomness import RandomSource
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_theory.planning import moments, rows
from trimask_theory.planning.definition import Draft, StudyDefinition
from trimask_theory.planning.study_definition import check_definition


class _SuitePlan(Protocol):
    """How a suite makes and verifies studies."""

    def create(self, draft: Draft, source: RandomSource, /) -> Study:
        """The study, with its noise calibrated."""
        ...

    def verify(self, study: Study, /) -> None:
        """Refuse a study with noise that claims more than it has."""
        ...


_PLANS: dict[str, _SuitePlan] = {"rows": rows, "moments": moments}


def create_study(
    definition: StudyDefinition,
    collector: Party,
    right: Sequence[Party],
    left: Sequence[Party],
    tls_roots: str,
    now_ms: int,
    source: RandomSource,
    owner_key: bytes = b"",
) -> Study:
    """The study, with its noise calibrated; `ImpossibleStudy` or `ParameterError` if it cannot be.

    `owner_key`: the public key with which the owner orders the study closed, and signs invitations where the owner admits.
    """
    check_definition(definition)
    sealed = tuple(party.sealing_as(definition.collection.sealing) for party in right)
    draft = Draft(definition, collector, sealed, tuple(left), tls_roots, now_ms, owner_key)
    return _PLANS[definition.collection.suite].create(draft, source)


def verify_guarantees(study: Study) -> None:
    """Recompute what the study's sigma gives; `StudyError` if a guarantee claims more than that."""
    protection = study.protection
    if protection.sigma:
        _PLANS[study.suite.name].verify(study)
    elif protection.public is not None or protection.collector is not None:
        raise StudyError("the study claims differential privacy without noise: do not approve it")
