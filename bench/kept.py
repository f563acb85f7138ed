"""A long benchmark's jobs, kept in a file as each ends: one that was stopped goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

__all__ = ["kept", "run"]


def kept(path: Path, draws: int) -> dict[str, Any]:
    """What is in the file of jobs with so many draws, by name; a line that was cut off is of a job that did not end."""
    found: dict[str, Any] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                one = json.loads(line)
            except json.JSONDecodeError:
                continue
            if one["draws"] == draws:
                found[one["job"]] = one["found"]
    return found


def run(function: Callable[..., Any], jobs: Mapping[str, Sequence[Any]], path: Path, draws: int, processes: int = 2, *,
        resume: bool = False) -> Iterator[tuple[str, Any]]:  # fmt: skip
    """Name and JSON of each job as it ends, those already in the file first; without `resume` the file is begun anew.

    Jobs are begun in the order given: the longest belong in front, so that no process is left alone with one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    there = kept(path, draws) if resume else {}
    if not (resume and path.exists()):
        path.write_text("", encoding="utf-8")
    yield from ((job, there[job]) for job in jobs if job in there)
    with ProcessPoolExecutor(processes) as pool, path.open("a", encoding="utf-8") as file:
        begun = {
            pool.submit(function, *arguments, draws): job
            for job, arguments in jobs.items()
            if job not in there
        }
        for done in as_completed(begun):
            job, found = begun[done], done.result()
            # A line of its own even after one that was cut off.
            file.write("\n" + json.dumps({"job": job, "draws": draws, "found": found}, allow_nan=False))
            file.flush()
            yield job, found
