"""The steps of the demo: keys, study, approvals, nodes, submissions, close, pull, fit.

How far it is goes to stderr: bars in a terminal, else a line at each step's begin and end and now and then between.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

import trimask
from trimask_cli import owner
from trimask_cli.demo import report
from trimask_cli.demo.devices import blood_pressure_population, submit_all
from trimask_cli.owner import sign
from trimask_cli.study_file import bundled_definition, default_formula, owner_public_key, write_signed
from trimask_cli.table.people import Answers, read_people
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError, TrimaskError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_server.local.cluster import ProcessCluster, free_base_port
from trimask_server.local.keys import make_keys, node_places
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

_LINE_SECONDS = 10.0


class Steps(Protocol):
    """One step after the other, each of so many people or nodes."""

    def begin(self, name: str, total: int) -> None:
        """The next step."""

    def reach(self, done: int) -> None:
        """So many of it are done."""


class _Bars:
    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=None, visible=False)

    def begin(self, name: str, total: int) -> None:
        self._task = self._bars.add_task(name, total=total)

    def reach(self, done: int) -> None:
        self._bars.update(self._task, completed=done)


class _Lines:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._started = time.monotonic()
        self._said = 0.0
        self._name, self._total, self._done = "", 0, -1  # what was said last

    def begin(self, name: str, total: int) -> None:
        self._name, self._total, self._done = name, total, -1
        self.reach(0)

    def reach(self, done: int) -> None:
        now = time.monotonic()
        ends = done == self._total
        if done != self._done and (self._done < 0 or ends or now - self._said >= _LINE_SECONDS):
            seconds = now - self._started
            print(f"{seconds:6.1f} s  {self._name}: {done:,} of {self._total:,}", file=self._file, flush=True)
            self._said, self._done = now, done


@contextmanager
def shown_steps() -> Iterator[Steps]:
    """To stderr, so that --json leaves one document on stdout."""
    if not sys.stderr.isatty():
        yield _Lines(sys.stderr)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr)) as bars:
        yield _Bars(bars)


_DEVICE_PROCESSES = 2
_STILL_SECONDS = 300.0


@dataclass(frozen=True)
class Asked:
    """What the demo collects, with how many providers, and which model it fits."""

    definition: StudyDefinition
    people: list[Answers]
    formula: str
    right: int
    left: int


def run_demo(args: argparse.Namespace) -> int:
    """Everything, and clean up."""
    asked = _what(args)
    # The folder holds every party's keys: it is removed whatever happens, Ctrl-C and SIGTERM included.
    with (
        tempfile.TemporaryDirectory(prefix="trimask-demo-", ignore_cleanup_errors=True) as folder,
        shown_steps() as progress,
    ):
        outcome = _collect(args, asked, Path(folder), progress)
    if args.json:
        report.print_report_json(outcome)
    else:
        report.print_report(outcome, Console())
    return 0


def _what(args: argparse.Namespace) -> Asked:
    if (args.study is None) != (args.rows is None):
        raise ConfigError("give --study FILE.toml and --rows FILE.csv together")
    if args.study is None:
        definition = load_definition(bundled_definition(args.suite or "rows"))
        people = blood_pressure_population(args.participants or 1024, args.seed)
        formula = args.formula or "systolic ~ age + bmi + salt + smoker + C(activity)"
    else:
        definition = load_definition(args.study)
        table = read_people(args.rows, definition.schema, definition.form)
        people = table.answers[: args.participants]
        if table.unused:
            print(f"Not asked by the study, so left out: {', '.join(table.unused)}", file=sys.stderr)
        formula = args.formula or default_formula(definition.schema)
    suite = definition.collection.suite
    if args.suite not in (None, suite):
        raise ConfigError(f'{args.study} says suite = "{suite}" under [collection]; change it there')
    definition = definition.changed(
        epsilon=args.epsilon,
        delta=args.delta,
        exact=args.exact or None,
        release_rows=args.release_size or len(people),
    )
    if suite == "moments":
        if args.left or args.block_size:
            raise ConfigError(
                "the moments suite has no left providers and no blocks: leave out --left and --block-size"
            )
        return Asked(definition, people, formula, args.right or 2, 0)
    block = args.block_size or min(definition.collection.block_rows or len(people), len(people))
    if len(people) < block:
        raise ConfigError(f"{len(people)} participants are fewer than a block of {block}; give --block-size")
    left = 2 if args.left is None else args.left
    return Asked(definition.changed(block_rows=block), people, formula, args.right or 4, left)


def _collect(args: argparse.Namespace, asked: Asked, folder: Path, progress: Steps) -> report.Outcome:
    started = time.monotonic()
    keys = folder / "keys"
    nodes = 1 + asked.right + asked.left
    parties = make_keys(keys, node_places(asked.right, asked.left, "127.0.0.1", free_base_port(2 * nodes)))
    study = create_study(
        asked.definition,
        parties["collector"],
        [parties[f"R{k}"] for k in range(1, asked.right + 1)],
        [parties[f"L{j}"] for j in range(1, asked.left + 1)],
        (keys / "authority" / "ca.pem").read_text(),
        SystemClock().now_ms(),
        SystemRandom(),
        owner_public_key(keys / "owner", make=False),
    )
    signed = SignedStudy(study)
    for name in parties:
        signed = signed.with_approval(sign(study, keys / name, SystemClock().now_ms()))
    study_file = folder / "study.json"
    write_signed(study_file, signed, replace=False)

    progress.begin(f"start {nodes} nodes", nodes)
    with ProcessCluster(keys):
        progress.reach(nodes)
        owner.open_study(signed, keys / "owner")
        verb = "mask" if study.suite.name == "rows" else "prove"
        progress.begin(f"participants {verb}, split, upload", len(asked.people))
        submitted = time.monotonic()
        submit_all(study_file, asked.people, _DEVICE_PROCESSES, progress.reach)
        submit_seconds = time.monotonic() - submitted
        owner.close_study(study, keys / "owner")
        _wait_closed(study, len(asked.people), progress)
        status = owner.study_status(study)
        with trimask.connect(
            study.collector.address,
            roots=keys / "owner" / "ca.pem",
            tls_name=study.collector.tls_name,
            cache=folder / "cache",
        ) as connection:
            published = connection.datasets(study.id.hex())
            if not published:
                raise TrimaskError(status.note or "nothing was published")
            dataset = connection.dataset(published[0].id)
        kept = report.keep_earlier(args.out)
        if kept is not None:
            print(f"An earlier demo was in {args.out}; it is kept in {kept}", file=sys.stderr)
        dataset.save(args.out)
    return report.make_outcome(
        study=study,
        dataset=trimask.Dataset.open(args.out, study_id=study.id),
        people=asked.people,
        formula=asked.formula,
        out=args.out,
        seconds={"submit": submit_seconds, "total": time.monotonic() - started},
        status=asdict(status),
    )


def _wait_closed(study: Study, total: int, progress: Steps) -> None:
    done = "blocks masked, pooled, erased" if study.suite.name == "rows" else "reports checked, added, erased"
    progress.begin(done, total)
    seen, moved = None, time.monotonic()
    while True:
        status = owner.study_status(study)
        progress.reach(min(total, status.pooled_rows + status.published_rows))
        if status.state == "closed":
            return
        # However many there are: what counts is whether anything moves.
        now = (
            status.state,
            status.pending_rows,
            status.masking_rows,
            status.pooled_rows,
            status.published_rows,
        )
        if now != seen:
            seen, moved = now, time.monotonic()
        if time.monotonic() > moved + _STILL_SECONDS:
            raise TrimaskError(
                f"nothing has moved for {_STILL_SECONDS:.0f} seconds while the study was closing: "
                f"{status.masking_rows:,} rows in a block, {status.pending_rows:,} in none. {status.note}".rstrip()
            )
        time.sleep(0.2)
