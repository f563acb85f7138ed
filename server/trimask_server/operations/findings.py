"""One line of a health check: whether something is in order, and what to do if not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Finding", "Level", "bad", "fine", "weak"]

Level = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True)
class Finding:
    """`about` is what was looked at, `said` what was found, `fix` what to do; nothing where it is in order."""

    about: str
    level: Level
    said: str
    fix: str = ""

    @property
    def sentence(self) -> str:
        """For a log."""
        return f"{self.about}: {self.said}" + (f"; {self.fix}" if self.fix else "")

    def to_dict(self) -> dict[str, str]:
        """JSON-ready."""
        return asdict(self)


def fine(about: str, said: str) -> Finding:
    """In order."""
    return Finding(about, "ok", said)


def weak(about: str, said: str, fix: str) -> Finding:
    """The node runs, but this should be fixed soon."""
    return Finding(about, "warning", said, fix)


def bad(about: str, said: str, fix: str) -> Finding:
    """The node cannot run, or not correctly, until this is fixed."""
    return Finding(about, "wrong", said, fix)
