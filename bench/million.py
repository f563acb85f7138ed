"""Many people in one study, through SubmitMany: `python -m bench.million --people 1000000 --store own`.

With `--suite rows` until the release is published, blocks and all; its cost is spread over all people in the last column.

With `--store`, an empty PostgreSQL database (`own`: of a server started for this, as tests do), every node has two workers
on it; else one and SQLite. Some people's submissions are made anew, the others are those sealed again under fresh ids, which
costs the nodes the same. At each point the driver waits until all that was sent is checked and added up; processor time and
memory are of each node with all its workers, and of the database's server if it runs here. Memory is shared out (PSS). At
the end the dataset is pulled and held against what was sent: who is counted in it, and every second moment up to its noise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

import trimask
from bench.cluster import Live, Usage, live_cluster, tree_usage
from bench.example import answers
from bench.load import Many
from trimask_client.grpc_channel import open_channel
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import SUBMISSION_ID_BYTES, SealedSubmission, seal_payloads
from trimask_core.suites import payloads_of
from trimask_proto.v1.study_pb2 import GetStudyStatusRequest
from trimask_proto.v1.study_pb2_grpc import StudyServiceStub

__all__ = ["main", "people_of"]

_BLOCK = 256
_MADE = 512
_AT_ONCE, _TOLD = 2_000, 20_000
_POINTS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_PATIENCE_SECONDS = 3600.0
_FARTHEST = 6.0  # standard deviations of its noise that a published second moment may lie from what was sent


def people_of(
    signed: SignedStudy, first: Sequence[SealedSubmission], people: int
) -> Iterator[SealedSubmission]:
    """Submissions of some people, and the same shared and sealed again: providers cannot tell, and do the same work."""
    study, source = signed.verify(), SystemRandom()
    yield from first[:people]
    everybody = [
        payloads_of(study).payloads(study, _again(i), source) for i in range(min(people, len(first)))
    ]
    for i in range(people - len(first)):
        yield seal_payloads(study, everybody[i % len(everybody)], source)


def _again(i: int) -> dict[str, object]:
    return answers(np.random.default_rng([i, 7]))


def _sent_moments(study: Study, made: int, people: int) -> tuple[NDArray[np.float64], float]:
    """Second moments of the answers of `people_of`; and how many times the variance of the noise is that of as many people
    who each draw their own: in the rows suite those who are sent again have the noise that they had."""
    rng, later = np.random.default_rng(made), Counter(i % made for i in range(people - made))
    everybody = [(answers(rng), 1) for _ in range(made)] + [(_again(i), n) for i, n in later.items()]
    rows = np.array([study.schema.encode(one) for one, _ in everybody])
    times = np.array([n for _, n in everybody], dtype=float)
    repeated = float(times @ times / people) if study.suite.name == "rows" else 1.0
    return rows.T @ (rows * times[:, None]), repeated


def _hold(live: Live, study: Study, ids: set[bytes], made: int) -> None:
    """The published dataset against what was sent; AssertionError if it is something else."""
    sent, repeated = _sent_moments(study, made, len(ids))
    party, roots = study.collector, live.folder / "authority" / "ca.pem"
    with trimask.connect(party.address, roots=roots, tls_name=party.tls_name, cache=live.folder) as there:
        (info,) = there.datasets(study.id)
        data = there.dataset(info.id, study_id=study.id)
    counted, width = set[bytes](), len(sent)
    for block in data.counted.blocks:
        each = zip(range(0, len(block.ids), SUBMISSION_ID_BYTES), block.accepted, strict=True)
        counted.update(block.ids[at : at + SUBMISSION_ID_BYTES] for at, good in each if good)
    cells = np.eye(width * width).reshape(width, width, width, width)[np.triu_indices(width)]
    noise = np.sqrt(repeated * data.moments.law.variance((cells + cells.transpose(0, 2, 1)) / 2))
    off = np.abs(data.moments.gram - sent)[np.triu_indices(width)]
    far = max(
        (one / sd if sd else float(one > 1e-6 * len(ids)) * 1e9) for one, sd in zip(off, noise, strict=True)
    )
    print(
        f"published: {data.rows:,} people; counted {len(counted):,} of {len(ids):,} sent, {len(counted - ids)} others; "
        f"second moments at most {far:.2f} standard deviations of their noise from those sent "
        f"({off.max():.3g} of {np.abs(sent).max():.3g})",
        flush=True,
    )
    if counted != ids or far > _FARTHEST:
        raise AssertionError("what was published is not what was sent")


@dataclass
class _Meter:
    """What every node, and the database, has used."""

    markers: dict[str, str]

    def read(self) -> dict[str, Usage]:
        return {name: tree_usage(marker, shared_out=True) for name, marker in self.markers.items()}


def _checked(live: Live, signed: SignedStudy) -> Callable[[], int]:
    """How many people's rows are in a total or a release so far."""
    party = signed.study.collector
    channel = open_channel(party.address, live.roots, party.tls_name)
    stub, request = StudyServiceStub(channel), GetStudyStatusRequest(study_id=signed.study.id)

    def ask() -> int:
        status = stub.GetStudyStatus(request, timeout=60)
        if status.note:
            print(status.note, flush=True)
        return int(status.pooled_rows + status.published_rows)

    return ask


def _run(
    live: Live, markers: dict[str, str], size: Callable[[], float], options: argparse.Namespace
) -> list[dict[str, Any]]:
    signed = live.open(_BLOCK, options.people)
    study, meter, points = signed.study, _Meter(markers), [p for p in _POINTS if p < options.people]
    points.append(options.people)
    checked = _checked(live, signed)
    first = live.prepare(signed, min(_MADE, options.people))
    coming, done, found = people_of(signed, first, options.people), 0, []
    ids = set[bytes]()
    senders = {
        k: [Many(live.target(study, f"R{k}"), study.id) for _ in range(options.connections)]
        for k in range(1, live.right + 1)
    }
    before = meter.read()
    with ThreadPoolExecutor(live.right * options.connections) as pool:
        for point in points:
            start, last = time.perf_counter(), done
            while done < point:
                some = [one for _, one in zip(range(min(_AT_ONCE, point - done)), coming, strict=False)]
                ids.update(one.submission_id for one in some)
                tasks = [
                    pool.submit(
                        sender.send, [(one.submission_id, one.sealed[k - 1]) for one in some[at :: len(each)]]
                    )
                    for k, each in senders.items()
                    for at, sender in enumerate(each)
                ]
                for task in tasks:
                    task.result()
                done += len(some)
                if done % _TOLD == 0:
                    print(
                        f"{done:,} sent, {(time.perf_counter() - start):.0f} s", file=sys.stderr, flush=True
                    )
            _wait(checked, point, live)
            now = meter.read()
            found.append(_point(point, point - last, before, now, time.perf_counter() - start))
            before = now
            found[-1]["disk_mb"] = round(size())
            print(json.dumps(found[-1]), flush=True)
    seconds = live.close_and_wait(study)
    now = meter.read()
    found.append(
        {"people": options.people, "closing_seconds": seconds}
        | _point(options.people, options.people, before, now, seconds)
        | {"disk_mb": round(size())}
    )
    print(json.dumps(found[-1]), flush=True)
    _print_growth(found)
    _hold(live, study, ids, len(first))
    return found


def _print_growth(points: Sequence[dict[str, Any]]) -> None:
    """The points side by side: microseconds a person, since the point before, and megabytes, of each node."""
    places = [f"{one['people']:,}" + (" closed" if "closing_seconds" in one else "") for one in points]
    for what, key in (("us CPU a person", "cpu_us_a_person"), ("MB", "memory_mb")):
        rows = {name: [one[key][name] for one in points] for name in points[0][key]}
        rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
        print(f"{what:16}" + "".join(f"{place:>18}" for place in places))
        for name, values in rows.items():
            print(f"{name:16}" + "".join(f"{value:18,.0f}" for value in values))
    print(f"{'MB on disk':16}" + "".join(f"{one['disk_mb']:18,}" for one in points), flush=True)


def _wait(checked: Callable[[], int], people: int, live: Live) -> None:
    """Until all but what waits for a full batch is added up."""
    waiting = 256 if live.suite == "moments" else 2 * _BLOCK
    deadline, seen = time.monotonic() + _PATIENCE_SECONDS, -1
    while (now := checked()) < people - waiting:
        if now > seen:
            seen, deadline = now, time.monotonic() + _PATIENCE_SECONDS / 6
        if time.monotonic() > deadline:
            raise AssertionError(f"{now} of {people} are checked, and nothing moves")
        time.sleep(2.0)  # each is a call that the collector answers inside what is measured


def _point(
    people: int, fresh: int, before: dict[str, Usage], now: dict[str, Usage], seconds: float
) -> dict[str, Any]:
    cpu = {name: round(1e6 * (now[name].seconds - before[name].seconds) / fresh, 1) for name in now}
    return {
        "people": people,
        "seconds": round(seconds, 1),
        "cpu_us_a_person": cpu,
        "all_us": round(sum(cpu.values()), 1),
        "memory_mb": {name: round(usage.megabytes) for name, usage in now.items()},
    }


def _own_database(stack: ExitStack) -> str:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    server = stack.enter_context(import_module("trimask_postgres").LocalPostgres(usual=True))
    url: str = server.create_database("million")
    return url


def _database(url: str) -> tuple[dict[str, str], Callable[[], float]]:
    """What stands on its server's command line, and its megabytes."""

    def size() -> float:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            return float(row[0]) / 2**20 if row else 0.0

    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    return {"database": str(row[0])} if row else {}, size


def _files(live: Live) -> float:
    """Megabytes of the nodes' stores."""
    return sum(path.stat().st_size for path in live.folder.rglob("*.sqlite3*")) / 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    """One study, points on the way, a JSON file."""
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=__doc__)
    parser.add_argument("--people", type=int, default=100_000, metavar="N", help="default %(default)s")
    parser.add_argument("--suite", choices=("moments", "rows"), default="moments")
    parser.add_argument("--store", metavar="URL|own", help="an empty PostgreSQL database; two workers a node")
    parser.add_argument("--workers", type=int, default=2, help="with --store (default %(default)s)")
    parser.add_argument(
        "--connections", type=int, default=4, help="to each right provider (default %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/million.json"), metavar="FILE")
    options = parser.parse_args(arguments)
    workers = options.workers if options.store else 1
    with ExitStack() as stack:
        store = _own_database(stack) if options.store == "own" else options.store or ""
        live = stack.enter_context(live_cluster(options.suite, store=store, workers=workers))
        markers = dict(live.worker_markers)
        extra, size = _database(store) if store else ({}, lambda: _files(live))
        points = _run(live, markers | extra, size, options)
    whole = [point["all_us"] for point in points[:-1]]
    print(f"CPU a person, largest over smallest: {max(whole) / min(whole):.2f}", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
