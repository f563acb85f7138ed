"""SIGTERM under load: nothing acknowledged is lost, the rest is told to come again, tries are handed back, exit status 0."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from trimask_cli import owner
from trimask_client import Client
from trimask_client.grpc_channel import open_channel
from trimask_client.transport import Unreachable
from trimask_core.basics.errors import Refused
from trimask_patience import patience
from trimask_proto.v1 import node_pb2, node_pb2_grpc
from trimask_server.programs.node_lock import running
from trimask_server.programs.roles import CALLS_SECONDS, GRACE_SECONDS
from trimask_server.store.interface import StoreError
from trimask_server.suites.rows.attempt_shares import TELL_SECONDS

ANSWERS = {"hours": 7.5, "rested": True}


def _channel(lab: Any, name: str, to: str) -> Any:
    keys, party = lab.folder / name, lab.parties[to]
    return open_channel(
        party.peer_address, keys / "ca.pem", party.tls_name, keys / "tls.pem", keys / "tls.key"
    )


class Process:
    """One right provider in a process of its own, with a study the collector has registered there."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.signed = lab.new_study()
        self.log = (lab.folder / "R1" / "node.log").open("wb")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "trimask_terminal", "right"),
                *("--config", str(lab.folder / "R1" / "node.toml")),
            ],
            stdout=self.log,
            stderr=self.log,
            stdin=subprocess.DEVNULL,
        )
        study = self.signed.without_seed().to_json().encode()
        with _channel(lab, "collector", to="R1") as channel:
            node_pb2_grpc.NodeServiceStub(channel).RegisterStudy(
                node_pb2.RegisterStudyRequest(signed_study=study), timeout=patience(60), wait_for_ready=True
            )

    def text(self) -> str:
        return Path(self.log.name).read_text()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(patience(30))
        self.log.close()


@pytest.fixture
def right_process(keys_only: Any) -> Any:
    process = Process(keys_only)
    yield process
    process.end()


def _load(running: Process, stop: threading.Event, kept: list[bytes], seen: list[str]) -> None:
    """A device after another, R1's component alone, until the provider is gone."""
    with Client(running.signed, attempts=1, timeout_seconds=10) as client:
        while not stop.is_set():
            submission = client.prepare(ANSWERS)
            try:
                client.upload(submission, 1)
            except Refused as error:
                seen.append(error.reason if error.retry_after_ms else f"{error.reason} for ever")
            except Unreachable:
                seen.append("unreachable")
                return
            else:
                kept.append(submission.submission_id)


def test_sigterm_under_load(right_process: Process) -> None:
    running, stop = right_process, threading.Event()
    kept: list[bytes] = []
    seen: list[str] = []
    threads = [threading.Thread(target=_load, args=(running, stop, kept, seen)) for _ in range(4)]
    for thread in threads:
        thread.start()
    running.lab.until(lambda: len(kept) >= 60)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(GRACE_SECONDS + 5) == 0, running.text()
    stop.set()
    for thread in threads:
        thread.join(patience(30))
        assert not thread.is_alive()
    assert set(seen) <= {"draining", "unreachable"}
    with contextlib.closing(
        sqlite3.connect(running.lab.folder / "R1" / "data" / "right.sqlite3")
    ) as database:
        held = {row[0] for row in database.execute("SELECT submission_id FROM submissions")}
    assert set(kept) <= held
    assert "draining: takes no new work" in running.text()
    assert running.text().rstrip().endswith("stopped")


def test_a_second_signal_ends_it_at_once(right_process: Process) -> None:
    """A device holds a call open (its bytes stay away), so the first signal waits; the second does not."""
    running = right_process
    party = running.lab.parties["R1"]
    with open_channel(party.address, running.lab.folder / "owner" / "ca.pem", party.tls_name) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        states = iter(watch)
        assert next(states).status == health_pb2.HealthCheckResponse.SERVING
        running.process.send_signal(signal.SIGTERM)
        # Health is told first, and a watcher hears of it while the call is still open.
        assert next(states).status == health_pb2.HealthCheckResponse.NOT_SERVING
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(GRACE_SECONDS) == 128 + signal.SIGTERM
        watch.cancel()


@pytest.mark.parametrize("how", ["full", "away"])
def test_repro_a_node_whose_store_takes_nothing_stops_in_order(
    own_lab: Any, monkeypatch: Any, caplog: Any, how: str
) -> None:
    """A full disk, or a database server that does not answer: the peers are told and the folder is let go."""
    host = own_lab.node("R1").host
    monkeypatch.setattr("trimask_server.runtime.host._LAST_WORDS_SECONDS", 0.05)

    async def no_write(*_: Any, **__: Any) -> None:
        if how == "full":
            raise StoreError("database or disk is full")
        await asyncio.Event().wait()

    monkeypatch.setattr(host.context.database, "write", no_write)
    own_lab.on_loop(host.wind_down())
    own_lab.on_loop(host.stop(0))
    words = {"full": "database or disk is full", "away": "the store does not answer"}[how]
    assert f"cannot record that it drains: {words}" in caplog.text
    assert running(host.context.config) is None


def test_repro_refusals_are_saved_again_once_there_is_room(own_lab: Any, monkeypatch: Any) -> None:
    """The file of the log's head met a full disk, and nothing was saved for as long as the node ran."""
    audit = own_lab.node("R1").context.audit
    calls: list[str] = []

    async def save_head() -> None:
        calls.append("saved")
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(audit, "save_head", save_head)
    own_lab.until(lambda: len(calls) >= 3)


def test_a_draining_provider_refuses_what_is_new_and_answers_the_rest(own_lab: Any) -> None:
    signed = own_lab.open_study()
    own_lab.on_loop(own_lab.node("R1").context.drain.begin())
    with Client(signed, attempts=1) as client:
        submission = client.prepare(ANSWERS)
        with pytest.raises(Refused, match="try again soon") as caught:
            client.upload(submission, 1)
        assert caught.value.reason == "draining"
        assert caught.value.retry_after_ms == 5000
        client.upload(submission, 2)
    assert own_lab.get_json("R1", "/readyz")[0] == 503
    assert own_lab.metric("R1", "trimask_draining") == 1
    assert own_lab.node("R1").context.refusals.as_dict()["draining"] == 1
    status = owner.study_status(signed.study)
    assert status.refusals["R1"] == {"draining": 1}  # it still describes itself, and the owner sees why


def test_tries_are_handed_back_and_begun_again(own_lab: Any, monkeypatch: Any) -> None:
    """L1 is in the middle of masking when it drains: the collector hears of it, and the block is pooled after a restart."""
    signed = own_lab.open_study()
    left = own_lab.node("L1")
    masking = threading.Event()

    async def never(*_: Any, **__: Any) -> Any:
        masking.set()
        await __import__("asyncio").Event().wait()

    monkeypatch.setattr(left.context.workers, "run", never)
    with Client(signed) as client:
        for hour in range(32):
            client.submit({"hours": hour / 3, "rested": True})
    assert masking.wait(patience(60))
    own_lab.on_loop(left.host.wind_down())
    with _channel(own_lab, "owner", to="L1") as channel:  # at once, not when readiness is next looked at
        found = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=patience(10)
        )
    assert found.status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert own_lab.node("collector").context.refusals.as_dict()["attempt_draining"] == 1
    assert (
        left.context.metrics.registry.get_sample_value("trimask_attempts_total", {"outcome": "handed_back"})
        == 1
    )
    own_lab.cluster.stop("L1")
    own_lab.cluster.start("L1")
    own_lab.until(lambda: owner.study_status(signed.study).pooled_blocks == 1)
    assert owner.study_status(signed.study).failed_attempts >= 1


def test_repro_a_finished_try_is_not_handed_back(own_lab: Any, caplog: Any) -> None:
    """A left provider that stopped within 15 minutes of a block gave back what was pooled long ago, and warned."""
    signed = own_lab.open_study()
    left = own_lab.node("L1")

    def value(metric: str, **labels: str) -> float:
        return left.context.metrics.registry.get_sample_value(metric, labels) or 0

    with Client(signed) as client:
        for hour in range(32):
            client.submit({"hours": hour / 3, "rested": True})
    own_lab.until(lambda: owner.study_status(signed.study).pooled_blocks == 1)
    own_lab.until(lambda: value("trimask_attempts_total", outcome="done") >= 1)
    own_lab.on_loop(left.host.wind_down())
    assert value("trimask_attempts_total", outcome="handed_back") == 0
    assert "could not hand" not in caplog.text


def test_the_watchdog_leaves_room_for_the_service_manager() -> None:
    assert CALLS_SECONDS + TELL_SECONDS < GRACE_SECONDS - 0.5
