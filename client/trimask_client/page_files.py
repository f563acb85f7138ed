"""Where the files of the survey page are: beside this package in its wheel, in client/web in a checkout."""

from __future__ import annotations

from pathlib import Path

from trimask_core.basics.errors import ConfigError


def page_folder() -> Path:
    """The folder with index.html."""
    own = Path(__file__).parent
    for folder in (own / "web", own.parent / "web"):
        if (folder / "index.html").is_file():
            return folder
    raise ConfigError("the files of the survey page are missing here: reinstall trimask-client")
