"""`python -m trimask_terminal.device`: the `trimask-client` program, for where scripts are not on the path."""

from __future__ import annotations

from trimask_terminal.device.program import run

run()
