"""Taking submissions in: a right provider against a bare gRPC server and against bare SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from trimask_client import Client
from trimask_core.sealing import component_info, seal
from trimask_core.study import SignedStudy
from trimask_core.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse
from trimask_server.right.rows import RowStore
from trimask_server.store.database import Database
from trimask_server.store.schema import PROVIDER

from bench.cluster import Live, echo_server, live_cluster, process_seconds
from bench.example import answers
from bench.load import Target, Timing, drive
from bench.results import Result, Settings, share_of_limit

__all__ = ["bare_sqlite", "store", "submit"]

_ROWS = 256
_UNDER_WAY = 64
_GROUP = 128  # as many rows a commit as the store gathers
_LAST = 3  # R3 of K1 = 3 gets the vector, the others seeds


def _components(signed: SignedStudy, count: int) -> list[bytes]:
    """Messages for R3 that it will accept: one person's vector sealed again under fresh ids, quicker than new people."""
    study = signed.study
    with Client(signed) as client:
        vector = len(client.prepare(answers(np.random.default_rng(0))).sealed[-1])
    plain = b"\x02" + np.ones(study.columns, dtype="<i8").tobytes()
    public = study.right[_LAST - 1].sealing
    messages = []
    for _ in range(count):
        submission_id = np.random.default_rng().bytes(SUBMISSION_ID_BYTES)
        sealed = seal(public, plain, component_info(study.id, _LAST, submission_id))
        if len(sealed) != vector:
            raise AssertionError("what is timed must have the size of what devices send")
        messages.append(
            SubmitRequest(
                study_id=study.id, submission_id=submission_id, sealed_component=sealed
            ).SerializeToString()
        )
    return messages


def _timed(target: Target, messages: Sequence[bytes], under_way: int, marker: str) -> tuple[Timing, float]:
    """The timing, and the server's processor time a call in microseconds (NaN where it cannot be read)."""
    before = process_seconds(marker)
    timing = drive(target, messages, under_way)
    after = process_seconds(marker)
    if before is None or after is None:
        return timing, float("nan")
    return timing, 1e6 * (after - before) / len(messages)


def submit(settings: Settings) -> Iterator[Result]:
    """Submissions over TLS gRPC to R3, answered after the commit, by turns with an echo of the same bytes."""
    rounds, calls, single = (2, 300, 50) if settings.quick else (6, 1000, 200)
    with live_cluster() as live:
        signed = live.open(_ROWS, _ROWS)
        messages = _components(signed, rounds * (calls + single))
        answer = SubmitResponse(receive_time_ms=1 << 40, signature=bytes(64)).ByteSize()
        with echo_server(live, answer):
            yield from _compare(live, signed, messages, rounds, calls, single)


def _compare(
    live: Live, signed: SignedStudy, messages: list[bytes], rounds: int, calls: int, single: int
) -> Iterator[Result]:
    right, echo = live.target(signed.study, f"R{_LAST}"), live.echo_target()
    right_mark, echo_mark = str(live.folder / f"R{_LAST}" / "node.toml"), f"{live.folder / f'R{_LAST}'}\0"
    many: list[tuple[Timing, float, Timing, float]] = []
    one: list[tuple[Timing, Timing]] = []
    rows: list[float] = []
    position = 0
    for _ in range(rounds):
        batch = messages[position : position + calls]
        alone = messages[position + calls : position + calls + single]
        position += calls + single
        many.append(
            (*_timed(right, batch, _UNDER_WAY, right_mark), *_timed(echo, batch, _UNDER_WAY, echo_mark))
        )
        one.append((drive(right, alone, 1), drive(echo, alone, 1)))
        rows.append(bare_sqlite(live.folder / "bare", batch))
    best, best_echo = (max((turn[i] for turn in many), key=lambda t: t.per_second) for i in (0, 2))
    yield _rate("submit", f"{_UNDER_WAY} under way", best, best_echo, "a bare gRPC echo over TLS, same bytes")
    yield _rate("submit", f"{_UNDER_WAY} under way", best, max(rows), "bare SQLite inserts, 128 a commit")
    cpu, echo_cpu = (min(turn[i] for turn in many) for i in (1, 3))
    if cpu > 0 and echo_cpu > 0:
        yield share_of_limit(
            "submit", "provider's CPU a submission", cpu / 1e6, echo_cpu / 1e6, "echo server's CPU a call"
        )
    lone, lone_echo = (min((turn[i] for turn in one), key=lambda t: t.p50_ms) for i in (0, 1))
    for name, mine, theirs in (
        ("p50", lone.p50_ms, lone_echo.p50_ms),
        ("p99", min(turn[0].p99_ms for turn in one), min(turn[1].p99_ms for turn in one)),
    ):
        yield share_of_limit(
            "submit", f"latency {name}, one under way", mine / 1e3, theirs / 1e3, f"echo's {name}"
        )
    yield share_of_limit(
        "submit", f"latency p99, {_UNDER_WAY} under way",
        min(turn[0].p99_ms for turn in many) / 1e3, min(turn[2].p99_ms for turn in many) / 1e3, "echo's p99",
    )  # fmt: skip


def _rate(suite: str, name: str, timing: Timing, limit: Timing | float, against: str) -> Result:
    top = limit.per_second if isinstance(limit, Timing) else limit
    return Result(
        suite, name, "speed", timing.per_second, top, "/s", against, timing.per_second / top,
        detail={"p50_ms": timing.p50_ms, "p99_ms": timing.p99_ms},
    )  # fmt: skip


def bare_sqlite(folder: Path, payloads: Sequence[bytes]) -> float:
    """Rows a second of plain inserts, WAL and synchronous=FULL, a commit every 128 rows."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.monotonic_ns()}.sqlite3"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (id BLOB PRIMARY KEY, payload BLOB)")
    start = time.perf_counter()
    for first in range(0, len(payloads), _GROUP):
        connection.execute("BEGIN IMMEDIATE")
        for number, payload in enumerate(payloads[first : first + _GROUP], first):
            identity = number.to_bytes(SUBMISSION_ID_BYTES, "big")
            connection.execute("INSERT INTO rows VALUES (?, ?)", (identity, payload))
        connection.execute("COMMIT")
    elapsed = time.perf_counter() - start
    connection.close()
    return len(payloads) / elapsed


def store(settings: Settings) -> Iterator[Result]:
    """The row store with its checks and group commit, many at once, against plain inserts."""
    count = 512 if settings.quick else 4096
    payloads = [np.random.default_rng(i).bytes(9000) for i in range(count)]
    with tempfile.TemporaryDirectory(prefix="trimask-bench-") as name:
        folder = Path(name)
        turns = [
            (asyncio.run(_insert(folder / f"{i}.sqlite3", payloads)), bare_sqlite(folder / "bare", payloads))
            for i in range(settings.repeats(4))
        ]
    mine, limit = max(turn[0] for turn in turns), max(turn[1] for turn in turns)
    yield Result(
        "store", f"{count:,} rows of 9 KB", "speed", mine, limit, "/s", "bare SQLite inserts, 128 a commit",
        mine / limit,
    )  # fmt: skip


async def _insert(path: Path, payloads: list[bytes]) -> float:
    database = Database(path, PROVIDER)
    try:
        rows, study_id = RowStore(database), bytes(32)
        await database.write(lambda tx: tx.run("INSERT INTO studies VALUES (?, '', 'open', 0)", (study_id,)))
        start = time.perf_counter()
        await asyncio.gather(
            *(
                rows.insert(study_id, number.to_bytes(SUBMISSION_ID_BYTES, "big"), payload, 0)
                for number, payload in enumerate(payloads)
            )
        )
        return len(payloads) / (time.perf_counter() - start)
    finally:
        database.close()
