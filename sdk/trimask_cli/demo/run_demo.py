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
from trimask_cli.demo import both, report
from trimask_cli.demo.devices import blood_pressure_population, submit_all
from trimask_cli.own_plan.command import way_on
from trimask_cli.own_plan.plan import make_plan
from trimask_cli.own_plan.predict import Population, sample_of
from trimask_cli.owner import sign
from trimask_cli.study_file import bundled_definition, default_formula, owner_public_key, write_signed
from trimask_client.table import Answers, read_people
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError, TrimaskError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.definition import Study, SuiteName
from trimask_core.study.signed import SignedStudy
from trimask_server.local.cluster import ProcessCluster, free_base_port
from trimask_server.local.keys import make_keys, node_places
from trimask_terminal.options import print_json
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.pilot import with_pilot
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


_BOTH: tuple[SuiteName, ...] = ("rows", "moments")
_DEVICE_PROCESSES = 2
_PILOT = 500  # people asked before, in the open: enough to correct what the bundled study's row_norm takes
_ROW_NORM = 2.0  # about what a plan by such a pilot recommends for the bundled study of the rows suite
_STILL_SECONDS = 300.0


@dataclass(frozen=True)
class Asked:
    """What the demo collects, with how many providers, and which model it fits."""

    definition: StudyDefinition
    people: list[Answers]
    formula: str
    right: int
    left: int
    pilot: list[Answers] | None = None
    """Other people, by whom what shrinking rows takes is corrected."""
    own: bool = False
    """Whether it is the owner's study, of whom a plan says what it would take to see more."""


def run_demo(args: argparse.Namespace) -> int:
    """Everything, and clean up."""
    if args.study is None and args.suite is None:
        return _run_both(args)
    asked = _what(args, args.suite)
    # The folder holds every party's keys: it is removed whatever happens, Ctrl-C and SIGTERM included.
    with (
        tempfile.TemporaryDirectory(prefix="trimask-demo-", ignore_cleanup_errors=True) as folder,
        shown_steps() as progress,
    ):
        _keep_earlier(args.out)
        outcome = _collect(asked, Path(folder), args.out, progress)
    if args.json:
        print_json(outcome.to_dict())
    else:
        report.print_report(outcome, Console())
    return 0


def _run_both(args: argparse.Namespace) -> int:
    """The bundled study in both suites, of the same people."""
    asked = {suite: _what(args, suite) for suite in _BOTH}
    found: dict[SuiteName, report.Outcome] = {}
    _keep_earlier(args.out)
    with shown_steps() as progress:
        for suite, what in asked.items():
            with tempfile.TemporaryDirectory(prefix="trimask-demo-", ignore_cleanup_errors=True) as folder:
                found[suite] = _collect(what, Path(folder), args.out / suite, progress)
    both.save(found["rows"], found["moments"], args.out)
    if args.json:
        print_json(both.to_dict(found["rows"], found["moments"]))
    else:
        both.print_both(found["rows"], found["moments"], args.out, Console())
    return 0


def _keep_earlier(out: Path) -> None:
    kept = report.keep_earlier(out)
    if kept is not None:
        print(f"An earlier demo was in {out}; it is kept in {kept}", file=sys.stderr)


def _what(args: argparse.Namespace, suite: SuiteName | None) -> Asked:
    if (args.study is None) != (args.rows is None):
        raise ConfigError("give --study FILE.toml and --rows FILE.csv together")
    if args.pilot is not None and args.study is None:
        raise ConfigError("--pilot goes with --study and --rows; the bundled study has a pilot of its own")
    pilot = None
    if args.study is None:
        definition = load_definition(bundled_definition(suite or "rows"))
        people = blood_pressure_population(args.participants or 2048, args.seed)
        formula = args.formula or "systolic ~ age + bmi + salt + smoker + C(activity)"
        if not args.exact:
            pilot = blood_pressure_population(_PILOT, args.seed + 1)
            if definition.collection.suite == "rows":
                definition = definition.changed(row_norm=_ROW_NORM)
    else:
        definition = load_definition(args.study)
        table = read_people(args.rows, definition.schema, definition.form)
        people = table.answers[: args.participants]
        if table.unused:
            print(f"Not asked by the study, so left out: {', '.join(table.unused)}", file=sys.stderr)
        formula = args.formula or default_formula(definition.schema)
        if args.pilot is not None:
            pilot = read_people(args.pilot, definition.schema, definition.form).answers
    if suite not in (None, definition.collection.suite):
        own = definition.collection.suite
        raise ConfigError(f'{args.study} says suite = "{own}" under [collection]; change it there')
    definition = definition.changed(
        epsilon=args.epsilon,
        delta=args.delta,
        exact=args.exact or None,
        release_rows=args.release_size or len(people),
    )
    if definition.collection.suite == "moments":
        if (args.study is not None or args.suite == "moments") and (args.left or args.block_size):
            raise ConfigError(
                "the moments suite has no left providers and no blocks: leave out --left and --block-size"
            )
        if args.release_size:
            definition = definition.changed(several_releases=True)
        return Asked(definition, people, formula, args.right or 2, 0, pilot, args.study is not None)
    block = args.block_size or min(definition.collection.block_rows or len(people), len(people))
    if len(people) < block:
        raise ConfigError(f"{len(people)} participants are fewer than a block of {block}; give --block-size")
    left = 2 if args.left is None else args.left
    definition = definition.changed(block_rows=block)
    return Asked(definition, people, formula, args.right or 4, left, pilot, args.study is not None)


def _collect(asked: Asked, folder: Path, out: Path, progress: Steps) -> report.Outcome:
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
    if asked.pilot is not None:
        study = with_pilot(study, asked.pilot)
    signed = SignedStudy(study)
    for name in parties:
        signed = signed.with_approval(sign(study, keys / name, SystemClock().now_ms()))
    study_file = folder / "study.json"
    write_signed(study_file, signed, replace=False)

    suite = study.suite.name
    progress.begin(f"{suite}: start {nodes} nodes", nodes)
    with ProcessCluster(keys) as cluster:
        progress.reach(nodes)
        owner.open_study(signed, keys / "owner")
        before = cluster.cpu_seconds()
        verb = "mask" if suite == "rows" else "prove"
        progress.begin(f"{suite}: people {verb}, split, upload", len(asked.people))
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
        used = cluster.cpu_seconds()
        dataset.save(out)
    return report.make_outcome(
        study=study,
        dataset=trimask.Dataset.open(out, study_id=study.id),
        people=asked.people,
        formula=asked.formula,
        out=out,
        seconds={
            "submit": submit_seconds,
            "total": time.monotonic() - started,
            **({} if before is None or used is None else {"cpu": used - before}),
        },
        status=asdict(status),
        way_on=lambda: what_it_takes(asked),
    )


def what_it_takes(asked: Asked) -> str:
    """What `trimask plan` says of the same study; a few seconds."""
    definition = asked.definition
    if not (asked.own and definition.privacy.epsilon):
        return ""
    known = asked.formula == default_formula(definition.schema)
    population = Population(sample_of(asked.pilot or asked.people), asked.pilot is not None)
    parties = (asked.right, asked.left)
    return way_on(make_plan(definition, population, None if known else asked.formula, parties=parties))


def _wait_closed(study: Study, total: int, progress: Steps) -> None:
    done = "rows: blocks masked, pooled" if study.suite.name == "rows" else "moments: reports checked, added"
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
