"""Health, readiness and metrics over HTTP, and gRPC health that says the same."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from trimask_client import Client
from trimask_client.grpc_channel import open_channel
from trimask_core.basics.errors import Refused
from trimask_patience import patience
from trimask_server.local.cluster import ThreadCluster
from trimask_server.runtime import http_port

ANSWERS = {"hours": 7.5, "rested": True}


def _grpc_health(lab: Any, name: str) -> int:
    party, keys = lab.parties[name], lab.folder / "owner"
    with open_channel(
        party.peer_address, keys / "ca.pem", party.tls_name, keys / "tls.pem", keys / "tls.key"
    ) as channel:
        status: int = (
            health_pb2_grpc.HealthStub(channel)
            .Check(health_pb2.HealthCheckRequest(), timeout=patience(5))
            .status
        )
    return status


@pytest.mark.parametrize("name", ["collector", "R1", "L1"])
def test_a_node_is_alive_and_ready(ops_lab: Any, name: str) -> None:
    assert ops_lab.get_json(name, "/healthz")[1]["node"] == name
    status, found = ops_lab.get_json(name, "/readyz")
    assert status == 200
    assert found["ready"]
    assert set(found["checks"]) == {"store", "disk", "draining", "ports", "certificate"}
    assert found["warnings"] == []
    assert _grpc_health(ops_lab, name) == health_pb2.HealthCheckResponse.SERVING


def test_a_store_that_does_not_answer_makes_a_node_unready(own_lab: Any, monkeypatch: Any) -> None:
    node = own_lab.node("R1")

    async def broken(_: Any) -> None:
        raise OSError("no such disk")

    monkeypatch.setattr(node.context.database, "read", broken)
    status, found = own_lab.get_json("R1", "/readyz")
    assert status == 503
    assert found["checks"]["store"] == {"ok": False, "detail": "does not answer (OSError)"}
    assert own_lab.get("R1", "/healthz")[0] == 200  # alive all the same: a restart would not help
    assert own_lab.metric("R1", "trimask_ready") == 0  # scraped all the same

    async def follow() -> None:
        await node.host.health.set(serving=(await node.host.readiness()).ready)

    own_lab.on_loop(follow())
    assert _grpc_health(own_lab, "R1") == health_pb2.HealthCheckResponse.NOT_SERVING
    monkeypatch.undo()
    own_lab.on_loop(follow())
    assert _grpc_health(own_lab, "R1") == health_pb2.HealthCheckResponse.SERVING


def test_metrics_of_a_submission_and_a_refusal(ops_lab: Any) -> None:
    signed = ops_lab.open_study("Metrics")
    rpc = {"rpc": "SubmissionService/Submit"}
    before = ops_lab.metric("R1", "trimask_requests_total", status="OK", **rpc) or 0
    refused = ops_lab.metric("R1", "trimask_refusals_total", reason="tampered_component") or 0
    with Client(signed) as client:
        client.submit(ANSWERS)
        good = client.prepare(ANSWERS)
        bad = type(good)(good.study_id, good.submission_id, (bytes(120), *good.sealed[1:]))
        with pytest.raises(Refused):
            client.send(bad)
    assert ops_lab.metric("R1", "trimask_requests_total", status="OK", **rpc) == before + 1
    assert ops_lab.metric("R1", "trimask_requests_total", status="INVALID_ARGUMENT", **rpc)
    assert ops_lab.metric("R1", "trimask_refusals_total", reason="tampered_component") == refused + 1
    study = signed.study.id.hex()[:12]
    assert ops_lab.metric("R1", "trimask_pending_rows", study=study) == 1
    assert (ops_lab.metric("R1", "trimask_request_seconds_count", **rpc) or 0) >= 2
    assert (ops_lab.metric("R1", "trimask_store_group_size_count") or 0) >= 1
    assert ops_lab.metric("R1", "trimask_store_queue_depth") == 0
    assert 390 < (ops_lab.metric("R1", "trimask_certificate_expiry_seconds") or 0) / 86400 < 398
    assert ops_lab.metric("R1", "trimask_build_info", role="right") == 1
    assert ops_lab.metric("R1", "trimask_ready") == 1


def test_metrics_of_blocks(ops_lab: Any) -> None:
    signed = ops_lab.open_study("Blocks")
    study = signed.study.id.hex()[:12]
    with Client(signed) as client:
        for hour in range(32):
            client.submit({"hours": hour / 3, "rested": False})
    ops_lab.until(lambda: ops_lab.metric("collector", "trimask_blocks", study=study, state="erased") == 1)
    assert ops_lab.metric("R1", "trimask_blocks", study=study, state="erased") == 1
    assert ops_lab.metric("R1", "trimask_pending_rows", study=study) == 16
    assert (ops_lab.metric("R1", "trimask_erased_rows_total", why="pooled") or 0) >= 16
    assert (ops_lab.metric("collector", "trimask_attempts_total", outcome="pooled") or 0) >= 1
    assert (ops_lab.metric("L1", "trimask_attempts_total", outcome="done") or 0) >= 1
    assert (ops_lab.metric("collector", "trimask_peer_calls_total", outcome="ok") or 0) >= 1


def test_an_http_address_that_cannot_be_is_named(keys_only: Any) -> None:
    """In a process of its own: gRPC's servers that never came up crash one that goes on with others."""
    path = keys_only.folder / "L1" / "node.toml"
    text = path.read_text()
    path.write_text(text.replace('http_listen = "127.0.0.1:', 'http_listen = "192.0.2.1:'))
    failed = subprocess.run(
        [sys.executable, "-m", "trimask_terminal", "left", "--config", path],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert failed.returncode == 2, failed.stderr
    assert "http_listen" in failed.stderr


def test_keys_with_http_ports(tmp_path: Any, capsys: Any) -> None:
    from trimask_server.settings.config import load_config
    from trimask_terminal.program import main

    assert (
        main(["keys", str(tmp_path / "k"), "--right", "2", "--left", "1", "--http", "--base-port", "9000"])
        == 0
    )
    found = [
        load_config(tmp_path / "k" / name / "node.toml", role).http_listen
        for name, role in (("collector", "collector"), ("R1", "right"), ("R2", "right"), ("L1", "left"))
    ]
    assert found == [f"127.0.0.1:{port}" for port in (9008, 9009, 9010, 9011)]


def test_repro_connections_that_say_nothing_leave_room_for_others(
    own_lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They had no end and no limit, and each holds one of the process's files."""
    monkeypatch.setattr(http_port, "_MOST_CONNECTIONS", 8)
    host, _, port = own_lab.http("R1").removeprefix("http://").rpartition(":")
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(12):
            held.append(
                stack.enter_context(socket.create_connection((host, int(port)), timeout=patience(20)))
            )
            held[-1].sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            # Answered on a connection of its own, so all before it are there by then.
            assert own_lab.get("R1", "/healthz")[0] == 200
        for connection in held[:4]:
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) == b""  # closed; a timeout would raise
        held[-1].sendall(b"x\r\nHost: x\r\n\r\n")
        assert held[-1].recv(100).startswith(b"HTTP/1.1 200")


def test_repro_a_head_that_never_ends_is_ended(keys_only: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "_IDLE_SECONDS", 0.3)
    with ThreadCluster(keys_only.folder) as keys_only.cluster:
        host, _, port = keys_only.http("R1").removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=patience(20)) as silent:
            silent.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            assert silent.recv(100) == b""  # closed; a timeout would raise
