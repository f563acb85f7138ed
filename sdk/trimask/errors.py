"""What can go wrong for a researcher, beside the errors of `trimask_core.basics.errors`.

TrimaskError
 |- FormulaError            a formula that cannot be fitted to this study's columns (also a ValueError)
 |- BeyondSecondMoments     a model that no release can give; the message says what can (also a NotImplementedError)
 |- CollinearColumns        columns that are linear combinations of each other; `.columns` names them
 |- MissingExtra            a package that is not installed by default (also an ImportError); `.extra` names it
 `- NoiseExceedsSignal      the privacy noise hides what the fit needs; `.rows_needed` and `.epsilon_needed`

UserWarning
 |- CoverageWarning         intervals that hold the truth less often than they say; the message says what would help
 `- NotWeighted             columns that weights do not reach: their product with the group is not declared; `.columns`
"""

from __future__ import annotations

from collections.abc import Sequence

from trimask_core.basics.errors import (
    ConnectionFailed,
    ParameterError,
    Refused,
    StudyError,
    TrimaskError,
    VerificationError,
)

__all__ = [
    "BeyondSecondMoments",
    "CollinearColumns",
    "ConnectionFailed",
    "CoverageWarning",
    "FormulaError",
    "MissingExtra",
    "NoiseExceedsSignal",
    "NotWeighted",
    "ParameterError",
    "Refused",
    "StudyError",
    "TrimaskError",
    "VerificationError",
]


class FormulaError(TrimaskError, ValueError):
    """A formula that cannot be fitted to this study's columns; the message says what to write instead."""


class BeyondSecondMoments(TrimaskError, NotImplementedError):
    """A model that second moments do not determine; the message says why, and what to use instead."""


class CollinearColumns(TrimaskError):
    """Some columns are linear combinations of the others. `.columns` names those involved."""

    def __init__(self, columns: Sequence[str], message: str) -> None:
        self.columns = tuple(columns)
        super().__init__(message)


class MissingExtra(TrimaskError, ImportError):
    """What was asked needs a package that is not installed by default. `.extra` names the extra with it."""

    def __init__(self, extra: str, what: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs the extra {extra}: pip install 'trimask[{extra}]'")


class NoiseExceedsSignal(TrimaskError):
    """The privacy noise is larger than what the columns carry; no number would mean anything.

    `.columns` names the columns in the direction that is lost, `.rows_needed` the rows a pooled release would
    need at the same epsilon, `.epsilon_needed` the epsilon these rows would need (None when the study states
    none). Both are optimistic: the least that could be enough.
    """

    def __init__(
        self, columns: Sequence[str], rows_needed: int, epsilon_needed: float | None, message: str
    ) -> None:
        self.columns = tuple(columns)
        self.rows_needed = rows_needed
        self.epsilon_needed = epsilon_needed
        super().__init__(message)


class CoverageWarning(UserWarning):
    """Intervals that hold the truth less often than they say. `.columns` names the columns it is because of."""

    def __init__(self, columns: Sequence[str], message: str) -> None:
        self.columns = tuple(columns)
        super().__init__(message)

    def __reduce__(self) -> tuple[type, tuple[tuple[str, ...], str]]:
        return type(self), (self.columns, str(self))


class NotWeighted(UserWarning):
    """Columns that weighted moments leave out: their product with the group is not declared. `.columns` names them."""

    def __init__(self, columns: Sequence[str], message: str) -> None:
        self.columns = tuple(columns)
        super().__init__(message)

    def __reduce__(self) -> tuple[type, tuple[tuple[str, ...], str]]:
        return type(self), (self.columns, str(self))
