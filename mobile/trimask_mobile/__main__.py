"""`python -m trimask_mobile [LINK]`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Start the app; an argument is an invitation."""
    os.environ.setdefault("KIVY_NO_ARGS", "1")  # arguments are ours
    # Kivy would take over logging, and write what every library says to debug it into a file: each header of each request.
    os.environ.setdefault("KIVY_LOG_MODE", "MIXED")
    os.environ.setdefault("KIVY_NO_FILELOG", "1")
    os.environ.setdefault(
        "KIVY_IMAGE", "sdl2"
    )  # no other reader of pictures is loaded: the app has one picture, its icon
    from trimask_mobile.app import SurveyApp

    SurveyApp(sys.argv[1] if len(sys.argv) > 1 else "").run()


if __name__ == "__main__":
    main()
