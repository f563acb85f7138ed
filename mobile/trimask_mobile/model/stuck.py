"""When the app cannot begin: its folder is read-only, full or not there, or the device's key cannot be read."""

from __future__ import annotations

from collections.abc import Callable

from trimask_core.errors import TrimaskError
from trimask_mobile.model.catalogue import Catalogue, catalogue
from trimask_mobile.model.problem import Problem

__all__ = ["Stuck"]


class Stuck:
    """What the problem's page needs of a guide, before there is one. `again` is told to try once more."""

    def __init__(self, error: OSError | TrimaskError, language: str, again: Callable[[], None]) -> None:
        kind = "stuck" if isinstance(error, OSError) else "stuck_key"
        where = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
        self.problem = Problem(kind, where, again=True)
        self.words: Catalogue = catalogue(language)
        self.again = again
        self.screen, self.mode, self.scale = "problem", "stuck", 1.0
        self.participation = None

    def back(self) -> bool:
        """There is nowhere to go: the app may close."""
        return False

    def open_settings(self) -> None:
        """Type size and language are in the folder that cannot be read."""

    def touched(self) -> None:
        """Nobody waits for that."""
