"""A study's suite in words: what its way of collecting does, promises and rests on, for people to read.

The sentences are true whatever program one of the parties runs, or say where they count on the agreed one.
"""

from __future__ import annotations

from typing import Protocol

from trimask_core.explain import moments, rows
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Towards


class SuiteWords(Protocol):
    """What each suite says in its own words."""

    def way(self, study: Study, receivers: str, /) -> str:
        """What a device does with answers before they leave it, and who gets the parts."""
        ...

    def promises(self, study: Study, /) -> list[Towards]:
        """The guarantees of a study with noise, each with the party it protects against."""
        ...

    def honest_people(self, study: Study, /) -> list[str]:
        """What the guarantee becomes if only some of the people in it are honest; empty without one."""
        ...

    def without_noise(self, study: Study, /) -> str:
        """What a study is that publishes without noise."""
        ...

    def collusion_note(self, study: Study, /) -> str:
        """What the collusion report counts on, and what it does not cover."""
        ...

    def withdrawal(self, study: Study, /) -> str:
        """Until when answers can be taken back, and what is left of them then."""
        ...


SUITE_WORDS: dict[str, SuiteWords] = {"rows": rows, "moments": moments}


def words_of(study: Study) -> SuiteWords:
    """The words of a study's suite."""
    return SUITE_WORDS[study.suite.name]
