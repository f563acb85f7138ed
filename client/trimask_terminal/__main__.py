"""`python -m trimask_terminal`: the `trimask` program, for where scripts are not on the path."""

from __future__ import annotations

from trimask_terminal.program import run

run()
