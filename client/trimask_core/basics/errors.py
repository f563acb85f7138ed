"""Every error Trimask raises on purpose.

TrimaskError
 |- ParameterError          an argument outside its range (also a ValueError)
 |- StudyError              a study that cannot be, or cannot be trusted
 |   |- ImpossibleStudy     its numbers cannot give the protection it claims
 |   `- ApprovalError       an approval is missing or its signature is wrong
 |- InvitationError         an invitation link that is not one
 |- AnswerError             an answer the study's schema refuses, named by attribute
 |- Refused                 a party refused a request; `.reason` is the counted reason
 |- ConnectionFailed        a node could not be reached, or TLS failed (also a ConnectionError)
 |- VerificationError       a signature, hash or invariant did not hold
 |- ConfigError             a configuration file that cannot be used
 |   `- SeveralProblems     a file with several things wrong, all of them listed
 `- UnsafeRandomness        a test generator where privacy is at stake

A message says what is wrong and what to do; none carries a secret (mask, share, seed, key, answer).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimask_core.basics.refusals import AnyReason


class TrimaskError(Exception):
    """Base of every deliberate error. All can be pickled, so that a worker process can return them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, dict(self.__dict__))


def _restored(kind: type[TrimaskError], args: tuple[Any, ...], held: dict[str, Any]) -> TrimaskError:
    """An error as it was, without its constructor, whose arguments are not `args`."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(held)
    return error


class ParameterError(TrimaskError, ValueError):
    """An argument outside its range. `.parameter` is its name, `.allowed` what it may be."""

    def __init__(self, parameter: str, allowed: str, got: object | None = None) -> None:
        self.parameter = parameter
        self.allowed = allowed
        shown = "" if got is None else f", got {got!r}"
        super().__init__(f"{parameter} must be {allowed}{shown}")


class StudyError(TrimaskError):
    """A study definition that cannot be used or trusted."""


class ImpossibleStudy(StudyError):
    """The study's numbers cannot give the protection it claims. `.reason` is a stable word for it."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class ApprovalError(StudyError):
    """A provider's approval is missing, or its signature does not verify."""


class InvitationError(TrimaskError):
    """An invitation or its link cannot be read."""


class AnswerError(TrimaskError, ValueError):
    """An answer the schema or the form refuses. `.attribute` names it, `.problem` says what is wrong with it (in the
    person's language, from a form); the value itself is never in the message.
    """

    def __init__(self, attribute: str, message: str) -> None:
        self.attribute = attribute
        self.problem = message
        super().__init__(f"{attribute}: {message}")


class Refused(TrimaskError):
    """A party refused a request. `.reason` is one of the catalogue's (`trimask_core.basics.refusals`): it is text,
    and knows its
    gRPC status and whether to ask again.

    `.retry_after_ms` is how long to wait before asking again, where the party said so.
    """

    def __init__(self, reason: AnyReason, message: str, *, retry_after_ms: int | None = None) -> None:
        self.reason = reason
        self.retry_after_ms = retry_after_ms
        super().__init__(message)


class ConnectionFailed(TrimaskError, ConnectionError):
    """A node could not be reached, or the TLS connection could not be made."""


class VerificationError(TrimaskError):
    """A signature, a hash or an invariant did not hold."""


class ConfigError(TrimaskError):
    """A configuration that cannot be used."""


class SeveralProblems(ConfigError):
    """A file in which several things are wrong: `.problems` has a line for each, so that all can be fixed at once."""

    def __init__(self, heading: str, problems: Sequence[str]) -> None:
        self.heading = heading
        self.problems = tuple(problems)
        super().__init__("\n".join([heading, *(f"  {problem}" for problem in problems)]))


class UnsafeRandomness(TrimaskError):
    """A deterministic generator was offered where a person's privacy rests on it."""
