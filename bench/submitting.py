"""Taking submissions in: a right provider against a bare gRPC server and against bare SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.cluster import Live, echo_server, live_cluster, process_seconds
from bench.example import answers
from bench.load import Target, Timing, drive
from bench.results import Result, Settings, share_of_limit
from trimask_client import Client
from trimask_core.payload import VECTOR
from trimask_core.sealing import component_info, seal
from trimask_core.signed_study import SignedStudy
from trimask_core.submission import SUBMISSION_ID_BYTES
from trimask_core.suites import payloads_of
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse
from trimask_server.right.rows import RowStore
from trimask_server.store.data_keys import Vault
from trimask_server.store.master_keys import KeyRing
from trimask_server.store.schema import PROVIDER
from trimask_server.store.sqlite import SqliteStore

__all__ = ["bare_sqlite", "components", "store", "submit"]

_ROWS = 256
_GROUP = 128  # as many rows a commit as the store gathers
_UNDER_WAY = _GROUP  # enough callers for a commit to be full


def components(signed: SignedStudy, count: int) -> list[bytes]:
    """Messages for the last right provider that it will accept: one vector sealed again under fresh ids, quicker than
    new people."""
    study, last = signed.verify(), len(signed.study.right)
    with Client(signed) as client:
        vector = len(client.prepare(answers(np.random.default_rng(0))).sealed[-1])
    form = payloads_of(study).form_of(study, last)
    plain = VECTOR + np.ones(form.values, dtype="<i8").tobytes() + bytes(form.more)
    public = study.right[last - 1].sealing
    messages = []
    for _ in range(count):
        submission_id = np.random.default_rng().bytes(SUBMISSION_ID_BYTES)
        sealed = seal(public, plain, component_info(study.binding, last, submission_id))
        if len(sealed) != vector:
            raise AssertionError("what is timed must have the size of what devices send")
        messages.append(
            SubmitRequest(
                study_id=study.id, submission_id=submission_id, sealed_component=sealed
            ).SerializeToString()
        )
    return messages


@dataclass(frozen=True)
class _Turn:
    """One turn of one server: many calls under way, then one at a time."""

    many: Timing
    cpu_us: float | None
    one: Timing


def _turn(target: Target, messages: Sequence[bytes], single: int, marker: str) -> _Turn:
    before = process_seconds(marker)
    many = drive(target, messages[single:], _UNDER_WAY)
    after = process_seconds(marker)
    cpu = None if before is None or after is None else 1e6 * (after - before) / len(messages[single:])
    return _Turn(many, cpu, drive(target, messages[:single], 1))


def submit(settings: Settings, suite: str = "rows") -> Iterator[Result]:
    """Submissions over TLS gRPC to the last right provider, answered after the commit, by turns with an echo of the same
    bytes."""
    rounds, calls, single = (2, 384, 50) if settings.quick else (6, 1280, 200)
    with live_cluster(suite) as live:
        signed = live.open(_ROWS, _ROWS)
        messages = components(signed, rounds * (calls + single))
        answer = SubmitResponse(receive_time_ms=1 << 40, signature=bytes(64)).ByteSize()
        with echo_server(live, answer):
            yield from _compare(live, signed, messages, rounds, single)


def _compare(
    live: Live, signed: SignedStudy, messages: list[bytes], rounds: int, single: int
) -> Iterator[Result]:
    last = f"R{live.right}"
    right_keys = live.folder / last
    right, echo, rows = [], [], []
    each = len(messages) // rounds
    for first in range(0, rounds * each, each):
        batch = messages[first : first + each]
        target = live.target(signed.study, last)
        right.append(_turn(target, batch, single, str(right_keys / "node.toml")))
        echo.append(_turn(live.echo_target(), batch, single, f"{right_keys}\0"))
        rows.append(bare_sqlite(live.folder / "bare", batch))
    echo_rate = max(turn.many.per_second for turn in echo)
    yield _rate(right, echo_rate, "a bare gRPC echo over TLS, same bytes", required=0.5)
    yield _rate(right, max(rows), f"bare SQLite inserts, {_GROUP} a commit")
    cpu, echo_cpu = (
        min((turn.cpu_us for turn in turns if turn.cpu_us), default=None) for turns in (right, echo)
    )
    if cpu and echo_cpu:
        yield share_of_limit(
            "submit", "provider's CPU a submission", cpu / 1e6, echo_cpu / 1e6, "echo server's CPU a call"
        )
    for name, mine, theirs in (
        ("p50, one under way", [t.one.p50_ms for t in right], [t.one.p50_ms for t in echo]),
        ("p99, one under way", [t.one.p99_ms for t in right], [t.one.p99_ms for t in echo]),
        (f"p50, {_UNDER_WAY} under way", [t.many.p50_ms for t in right], [t.many.p50_ms for t in echo]),
        (f"p99, {_UNDER_WAY} under way", [t.many.p99_ms for t in right], [t.many.p99_ms for t in echo]),
    ):
        yield share_of_limit("submit", name, min(mine) / 1e3, min(theirs) / 1e3, "the echo's")


def _rate(turns: Sequence[_Turn], limit: float, against: str, required: float | None = None) -> Result:
    rate = max(turn.many.per_second for turn in turns)
    return Result(
        "submit",
        f"submissions, {_UNDER_WAY} under way",
        "speed",
        rate,
        limit,
        "/s",
        against,
        rate / limit,
        required,
    )


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
        "store", f"{count:,} rows of 9 KB, encrypted", "speed", mine, limit, "/s", "bare SQLite inserts, 128 a commit",
        mine / limit,
    )  # fmt: skip


async def _insert(path: Path, payloads: list[bytes]) -> float:
    database = SqliteStore(path, PROVIDER)
    try:
        rows, study_id = RowStore(database, Vault(KeyRing.generate())), bytes(32)
        statement = (
            "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, '', 'open', 0)"
        )
        await database.write(lambda tx: tx.run(statement, (study_id,)))
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
