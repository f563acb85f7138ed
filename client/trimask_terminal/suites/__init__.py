"""What is particular to a suite when a study is shown: a module a suite, with the same functions."""

from __future__ import annotations

from typing import Any, Protocol

from trimask_core.study.definition import Study
from trimask_terminal.suites import moments, rows


class SuiteView(Protocol):
    """A suite's part of what a person is shown."""

    def summary(self, study: Study, /) -> dict[str, Any]:
        """Its settings, JSON-ready."""
        ...

    def promises(self, study: Study, /) -> list[str]:
        """What the study promises, a sentence each."""
        ...

    def duty(self, study: Study, role: str, /) -> str:
        """What the node in `role` does."""
        ...

    def facts(self, study: Study, /) -> list[tuple[str, str]]:
        """Headings with what there is to say."""
        ...

    def unmasks(self, study: Study, role: str, /) -> str:
        """Whose masks this party removes; empty if none."""
        ...


_VIEWS: dict[str, SuiteView] = {"rows": rows, "moments": moments}


def view_of(study: Study) -> SuiteView:
    """The view of a study's suite."""
    return _VIEWS[study.suite.name]
