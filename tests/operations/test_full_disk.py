"""A disk without room, or a database that is away, under a running node: it says so everywhere, in a line an event, and
goes on when that has passed.

Once with a small file system of its own (where the system lets us mount one), once with a limit on the size of files, which
runs everywhere, and once with a PostgreSQL that is stopped.
"""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from trimask_client import Client
from trimask_core.basics.errors import Refused
from trimask_patience import patience
from trimask_postgres import LocalPostgres
from trimask_server.settings.config import load_config

ANSWERS = {"hours": 7.5, "rested": True}
MIB = 1 << 20
MOUNT = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64m tmpfs "$0" && exec "$@"']


class Node:
    """R1 as a process, with JSON logs, whose lines are kept."""

    def __init__(self, config: Path, before: list[str]) -> None:
        command = [*before, sys.executable, "-m", "trimask_terminal", "right", "--config", str(config)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.lines.extend(lines)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(patience(30))
        self._reading.join()
        return status


class Room:
    """A file that fills the file system that only the node sees."""

    words = "full"

    def __init__(self, pid: int, data: Path) -> None:
        self._file = Path(f"/proc/{pid}/root") / data.relative_to("/") / "fill"

    def take(self) -> None:
        with self._file.open("wb", buffering=0) as file:
            size = MIB
            while size:
                try:
                    file.write(bytes(size))
                except OSError:
                    size //= 2

    def give(self) -> None:
        self._file.unlink()


class Limit:
    """No file may become larger than it is."""

    words = "disk I/O error"

    def __init__(self, pid: int, _: Path) -> None:
        self._pid = pid
        self._before = resource.prlimit(pid, resource.RLIMIT_FSIZE)

    def take(self) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (1, self._before[1]))

    def give(self) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, self._before)


class Away:
    """The node's database server is stopped."""

    words = "unreachable"

    def __init__(self, server: LocalPostgres) -> None:
        self.take, self.give = server.stop, server.start


@pytest.fixture(params=[Room, Limit, Away])
def running(own_lab: Any, request: pytest.FixtureRequest) -> Iterator[tuple[Node, Any]]:
    own_lab.stop("R1")
    file = own_lab.folder / "R1" / "node.toml"
    file.write_text('log_format = "json"\n' + file.read_text())
    with contextlib.ExitStack() as stack:
        if request.param is Away:
            server = stack.enter_context(LocalPostgres(fsync=False))
            with file.open("a") as settings:
                settings.write(f'\n[store]\nurl = "{server.create_database("away")}"\n')
            disk: Any = lambda *_: Away(server)  # noqa: E731
        else:
            disk = request.param
        yield from _run(own_lab, file, disk)


def _run(own_lab: Any, file: Path, disk: Any) -> Iterator[tuple[Node, Any]]:
    data = load_config(file, "right").data.absolute()
    before = [*MOUNT, str(data)] if disk is Room else []
    if before and (
        shutil.which("unshare") is None
        or subprocess.run([*before, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this system lets us mount nothing; the other way runs everywhere")
    node = Node(file, before)
    try:
        own_lab.until(lambda: _state(own_lab) == (200, "answers"))
        yield node, disk(node.process.pid, data)
    finally:
        node.process.kill()
        node.end()


def _state(lab: Any) -> tuple[int, str]:
    """What /readyz says: its status, and how the store is; 0 and nothing while nobody answers."""
    try:
        status, found = lab.get_json("R1", "/readyz")
    except OSError:
        return 0, ""
    return status, found["checks"]["store"]["detail"]


def _cannot_write(lab: Any, words: str) -> bool:
    status, said = _state(lab)
    return status == 503 and said.startswith("cannot be written: ") and words in said


def _serving(lab: Any) -> bool:
    with lab.channel_as("owner", "R1") as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=patience(5)
        )
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def test_repro_a_store_that_takes_nothing_is_said_everywhere_and_passes(own_lab: Any, running: Any) -> None:
    """Before, /readyz said ready while every submission was refused, with a traceback each."""
    node, disk = running
    signed = own_lab.open_study("Room")
    until: Callable[..., Any] = own_lab.until
    with Client(signed) as client:
        client.submit(ANSWERS)
        assert own_lab.metric("R1", "trimask_ready") == 1
        disk.take()
        until(lambda: _cannot_write(own_lab, disk.words))
        until(lambda: not _serving(own_lab))
        submissions = [client.prepare(ANSWERS) for _ in range(5)]
        for submission in submissions:
            with pytest.raises(Refused) as refused:
                client.send(submission)
            assert refused.value.reason == "store_unavailable"
        assert own_lab.metric("R1", "trimask_ready") == 0
        assert own_lab.metric("R1", "trimask_free_bytes") is not None
        assert (own_lab.metric("R1", "trimask_refusals_total", reason="store_unavailable") or 0) >= 5
        disk.give()
        until(lambda: _state(own_lab) == (200, "answers"))
        until(lambda: _serving(own_lab))
        for submission in submissions:
            client.send(submission)
    assert node.end() == 0
    entries = [json.loads(line) for line in node.lines]  # nothing else is on standard error
    assert not [entry for entry in entries if "traceback" in entry]
    told = [entry["message"].partition(":")[0] for entry in entries]
    assert told.count("not ready") == told.count("ready again") == 1
    failed = [
        entry for entry in entries if entry["message"] in ("failed", "refused") and "Submit" in entry["rpc"]
    ]
    assert len(failed) == len({entry["request_id"] for entry in failed}) >= 5
    assert {entry["reason"] for entry in failed} == {"store_unavailable"}
    assert all(entry["why"] for entry in failed)
