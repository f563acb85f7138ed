"""Renewed certificates are taken over without a restart, and broken ones are not."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from trimask_cli import owner
from trimask_client import Client
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import ConfigError
from trimask_patience import patience
from trimask_server.local.keys import issue_certificate, load_authority, make_authority
from trimask_server.runtime.tls import Certificates, read_material

NOW = dt.datetime.now(dt.UTC)


def _served(lab: Any, name: str, *, peer: bool = False) -> int:
    """The serial number of the certificate a new connection sees."""
    party = lab.parties[name]
    host, _, port = (party.peer_address if peer else party.address).rpartition(":")
    context = ssl.create_default_context(cafile=lab.folder / "owner" / "ca.pem")
    context.load_cert_chain(lab.folder / "owner" / "tls.pem", lab.folder / "owner" / "tls.key")
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port)), timeout=patience(10)) as plain:
        with context.wrap_socket(plain, server_hostname=party.tls_name) as secure:
            return x509.load_der_x509_certificate(secure.getpeercert(True) or b"").serial_number


def _serial(pem: bytes) -> int:
    return x509.load_pem_x509_certificate(pem).serial_number


def _renew(lab: Any, name: str, **changes: Any) -> int:
    """A new certificate of the same authority in the node's files, put there as renewal programs do."""
    authority = changes.pop("authority", None) or load_authority(lab.folder / "authority")
    issued = issue_certificate(authority, changes.pop("dns", f"{name.lower()}.trimask.local"), **changes)
    for file, content in (("tls.pem", issued.certificate), ("tls.key", issued.private_key)):
        fresh = lab.folder / name / f"{file}.new"
        fresh.write_bytes(content)
        fresh.replace(lab.folder / name / file)
    return _serial(issued.certificate)


async def _reload(node: Any) -> bool:
    found: bool = node.host.reload_keys()
    return found


def test_new_connections_see_the_new_certificate_and_old_ones_live_on(own_lab: Any) -> None:
    party = own_lab.parties["R1"]
    roots = (own_lab.folder / "owner" / "ca.pem").read_bytes()
    options = [("grpc.ssl_target_name_override", party.tls_name)]
    with grpc.secure_channel(party.address, grpc.ssl_channel_credentials(roots), options) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(iter(watch)).status == 1  # a call that stays open on the old connection
        before = _served(own_lab, "R1")
        renewed = _renew(own_lab, "R1")
        assert _served(own_lab, "R1") == before != renewed
        assert own_lab.on_loop(_reload(own_lab.node("R1")))
        assert _served(own_lab, "R1") == _served(own_lab, "R1", peer=True) == renewed
        assert watch.is_active()
        assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status == 1
        watch.cancel()
    assert own_lab.metric("R1", "trimask_reloads_total", outcome="taken") == 1


def test_peers_are_called_with_the_new_certificate(own_lab: Any) -> None:
    """The old authority is taken from everybody: only calls with renewed certificates on both sides can work."""
    signed = own_lab.open_study()
    # Everybody can be asked; on a busy machine an answer may be too late for one status.
    own_lab.until(
        lambda: all(counts is not None for counts in owner.study_status(signed.study).refusals.values())
    )
    fresh = make_authority(common_name="Another authority")
    old = (own_lab.folder / "authority" / "ca.pem").read_bytes()
    nodes = ("collector", "R1", "R2", "L1")
    for name in nodes:  # both are trusted while certificates are being replaced
        (own_lab.folder / name / "ca.pem").write_bytes(old + fresh.certificate)
        assert own_lab.on_loop(_reload(own_lab.node(name)))
    for name in nodes:
        _renew(own_lab, name, authority=fresh)
        (own_lab.folder / name / "ca.pem").write_bytes(fresh.certificate)
        assert own_lab.on_loop(_reload(own_lab.node(name)))
    driver_sees = own_lab.on_loop(_describe(own_lab.node("collector"), signed.study))
    assert driver_sees == {"R1", "R2", "L1"}


async def _describe(node: Any, study: Any) -> set[str]:
    from trimask_proto.v1 import node_pb2
    from trimask_proto.v1.node_pb2_grpc import NodeServiceStub

    found = set()
    for role, party in study.parties.items():
        if role != "collector":
            stub = NodeServiceStub(node.context.peers.channel(party))
            await node.context.peers.call(stub.DescribeNode, node_pb2.DescribeNodeRequest(), patience(5))
            found.add(role)
    return found


def _break(lab: Any, how: str) -> None:
    folder: Path = lab.folder / "R1"
    if how == "not a certificate":
        (folder / "tls.pem").write_text("renewal failed\n")
    elif how == "another key":
        (folder / "tls.key").write_bytes((lab.folder / "R2" / "tls.key").read_bytes())
    elif how == "another name":
        _renew(lab, "R1", dns="elsewhere.trimask.local")
    elif how == "expired":
        _renew(lab, "R1", not_before=NOW - dt.timedelta(days=3), not_after=NOW - dt.timedelta(days=1))
    elif how == "no roots":
        (folder / "ca.pem").write_text("")
    else:
        (folder / "tls.key").unlink()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("not a certificate", "not a certificate in PEM form"),
        ("another key", "does not belong"),
        ("another name", r"lacks the name r1\.trimask\.local"),
        ("expired", "not now"),
        ("no roots", r"ca\.pem holds no certificates"),
        ("missing", "cannot read"),
    ],
)
def test_unusable_files_change_nothing(keys_only: Any, how: str, words: str) -> None:
    folder = keys_only.folder / "R1"
    held = Certificates(read_material(folder), folder)
    before = held.material
    _break(keys_only, how)
    assert held.changed()
    assert not held.changed()  # once is enough: the log is not filled with the same failure
    with pytest.raises(ConfigError, match=words):
        held.reload(int(NOW.timestamp() * 1000))
    assert held.material is before


def test_a_broken_file_is_refused_and_counted_and_the_node_serves_on(own_lab: Any, caplog: Any) -> None:
    signed = own_lab.open_study()
    before = _served(own_lab, "R1")
    _break(own_lab, "another key")
    assert not own_lab.on_loop(_reload(own_lab.node("R1")))
    assert _served(own_lab, "R1") == before
    assert own_lab.metric("R1", "trimask_reloads_total", outcome="refused") == 1
    assert own_lab.node("R1").context.refusals.as_dict()["bad_certificate_file"] == 1
    assert "kept the old certificate: tls.key does not belong" in caplog.text
    with Client(signed) as client:
        client.submit({"hours": 8.0, "rested": True})


def test_a_changed_file_is_noticed_without_a_signal(keys_only: Any) -> None:
    """The watcher of a real process, told to look every 50 ms; SIGHUP does the same at once."""
    import signal
    import subprocess
    import sys

    path = keys_only.folder / "L1" / "node.toml"
    path.write_text(path.read_text() + "reload_seconds = 0.05\n")
    with (keys_only.folder / "L1" / "node.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "trimask_terminal", "left", "--config", str(path)], stdout=log, stderr=log
        )
    try:
        keys_only.until(lambda: "ready role=left" in Path(log.name).read_text())
        renewed = _renew(keys_only, "L1")
        keys_only.until(lambda: _served(keys_only, "L1", peer=True) == renewed)
        process.send_signal(signal.SIGHUP)  # nothing new: nothing happens, and it does not end the process
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience(30)) == 0
    finally:
        process.kill()
        process.wait()
    assert Path(log.name).read_text().count("loaded a renewed certificate") >= 1


def test_a_certificate_that_runs_out_is_said(own_lab: Any) -> None:
    _renew(own_lab, "R1", not_after=NOW + dt.timedelta(days=5))
    assert own_lab.on_loop(_reload(own_lab.node("R1")))
    status, found = own_lab.get_json("R1", "/readyz")
    assert status == 200
    assert "expires in 5.0 days" in found["warnings"][0]
    assert own_lab.metric("R1", "trimask_certificate_expiry_seconds") == pytest.approx(5 * 86400, abs=3600)
    (own_lab.folder / "R1" / "https.pem").write_bytes((own_lab.folder / "R2" / "tls.pem").read_bytes())
    for_browsers = own_lab.metric("R1", "trimask_certificate_expiry_seconds", file="https.pem")
    assert 390 * 86400 < for_browsers < 398 * 86400


def test_grpc_is_told_of_a_certificate_once(keys_only: Any, monkeypatch: Any) -> None:
    """Or it ends the process when many handshakes time out; see `server_credentials`."""
    fetchers: list[Any] = []
    monkeypatch.setattr(
        grpc, "dynamic_ssl_server_credentials", lambda _, fetch, **__: fetchers.append(fetch) or object()
    )
    folder = keys_only.folder / "R1"
    held = Certificates(read_material(folder), folder)
    held.server_credentials(mutual=False)
    held.server_credentials(mutual=True)
    assert [fetch() for fetch in fetchers * 2] == [None] * 4
    _renew(keys_only, "R1")
    assert held.reload(int(NOW.timestamp() * 1000))
    assert [fetch() is None for fetch in fetchers * 2] == [False, False, True, True]  # each port once


def test_secrets_stay_out_of_representations(keys_only: Any) -> None:
    material = read_material(keys_only.folder / "R1")
    assert "PRIVATE" not in repr(material)
    assert (keys_only.folder / "R1" / "tls.key").stat().st_mode & 0o077 == 0


def test_repro_a_certificate_that_is_not_valid_yet_is_not_ready(own_lab: Any) -> None:
    host = own_lab.node("R1").host
    begins = host.context.certificates.begins_ms
    object.__setattr__(host.context, "clock", ManualClock(begins - 1000))
    found = own_lab.on_loop(host.readiness())
    assert found.checks["certificate"] == (False, "not valid yet")
    assert not found.ready
