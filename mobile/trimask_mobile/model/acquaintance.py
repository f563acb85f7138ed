"""Which institutions the app knows: the part of the guide behind its page in the settings."""

from __future__ import annotations

from trimask_core.errors import TrimaskError
from trimask_core.institutions import Directory
from trimask_mobile.model.state import AppState

__all__ = ["Acquaintance"]


class Acquaintance(AppState):
    """Directories of institutions, and what becomes of studies with others."""

    pasted_directory: Directory | None = None
    directory_problem = ""

    @property
    def directories(self) -> tuple[Directory, ...]:
        """Those that come with the app and those the person has added."""
        return self.device.directories

    def open_institutions(self) -> None:
        """The page of directories."""
        self.pasted_directory, self.directory_problem = None, ""
        self._go("institutions")

    def choose_unknown(self, refuse: bool) -> None:
        """Refuse studies with institutions that are not known, or show that they are not."""
        self.refuse_unknown, device = refuse, self.device
        self._runner.records(
            lambda: device.know(refuse_unknown=refuse), lambda _: self._keep_settings(), self._failed
        )
        self._changed()

    def paste_directory(self, text: str) -> None:
        """Read and verify a directory; it is added once the person says that its keeper's key is right."""
        self.pasted_directory, self.directory_problem = None, ""
        try:
            self.pasted_directory = Directory.from_json(text)
        except TrimaskError:
            self.directory_problem = self.words.say("institutions.wrong")
        self._changed()

    def add_directory(self) -> None:
        """Keep what was pasted."""
        found, refuse, device = self.pasted_directory, self.refuse_unknown, self.device
        if found is None:
            return

        def done(_: None) -> None:
            self.pasted_directory = None
            self._changed()

        self._runner.records(lambda: device.add_directory(found, refuse_unknown=refuse), done, self._failed)
