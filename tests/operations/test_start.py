"""What a node refuses to start with, what it warns of, and that a start that fails leaves no trace in its log."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import errno
import os
import re
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import ConfigError
from trimask_patience import patience
from trimask_server.local.keys import issue_certificate, load_authority
from trimask_server.programs.node_lock import claim_node
from trimask_server.programs.roles import start_node
from trimask_server.runtime.host import skew_seconds, skew_words, warn_of_skew
from trimask_server.runtime.key_files import look_at_keys
from trimask_server.settings.config import NodeConfig, NodeRole, StoreConfig, load_config
from trimask_server.store.interface import StoreError
from trimask_terminal.program import main

NOW = dt.datetime.now(dt.UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def settings(lab: Any, name: str) -> NodeConfig:
    return load_config(lab.folder / name / "node.toml", "left")


def start(role: NodeRole, config: NodeConfig) -> None:
    """Start and stop; errors of the start come out."""

    async def course() -> None:
        node = await start_node(role, config)
        await node.host.stop(0)

    asyncio.run(course())


def audit_kinds(config: NodeConfig, role: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(config.data / f"{role}.sqlite3")) as store:
        return [row[0] for row in store.execute("SELECT kind FROM audit ORDER BY sequence")]


@contextlib.contextmanager
def somebody_on(address: str) -> Iterator[None]:
    host, _, port = address.rpartition(":")
    with socket.socket() as other:
        other.bind((host, int(port)))
        other.listen()
        yield


def test_repro_a_second_process_is_refused_with_the_pid_of_the_first(ops_lab: Any) -> None:
    config = settings(ops_lab, "R1")
    before = audit_kinds(config, "right")
    with pytest.raises(ConfigError, match=rf"R1 runs already: process {os.getpid()} uses .*data"):
        start("right", config)
    assert audit_kinds(config, "right") == before


def test_the_pid_is_that_of_another_process(keys_only: Any) -> None:
    """And a process that was killed has let go."""
    config = settings(keys_only, "R1")
    program = (
        "import sys; from pathlib import Path; from trimask_server.programs.node_lock import claim_node;"
        "from trimask_server.settings.config import load_config;"
        "claim_node('right', load_config(Path(sys.argv[1]), 'right')); print('mine', flush=True); sys.stdin.read()"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", program, str(keys_only.folder / "R1" / "node.toml")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"mine\n"
        with pytest.raises(ConfigError, match=f"process {first.pid} uses"):
            claim_node("right", config)
        first.kill()
    claim_node("right", config).release()


def test_workers_on_one_database_share_the_folder_and_nobody_else(keys_only: Any) -> None:
    alone = replace(
        settings(keys_only, "R1"), store=StoreConfig(url="postgresql://nowhere/none"), http_listen=""
    )
    first, second = (replace(alone, worker_listen=f"127.0.0.1:{port}") for port in (0, 0))
    one, two = claim_node("right", first), claim_node("right", second)
    with pytest.raises(
        ConfigError, match=f"{os.getpid()} .*give each worker of the node a `--worker-listen`"
    ):
        claim_node("right", alone)
    one.release()
    two.release()
    single = claim_node("right", alone)
    with pytest.raises(ConfigError, match="start it as a worker too"):
        claim_node("right", first)
    single.release()


def test_a_port_is_refused_with_the_process_that_has_it(ops_lab: Any, tmp_path: Path) -> None:
    """Another folder with the same ports: gRPC alone would share them and take half of the calls."""
    config = replace(settings(ops_lab, "R1"), data=tmp_path)
    with pytest.raises(ConfigError, match=rf"listen = .*in use by process {os.getpid()}"):
        start("right", config)


@pytest.mark.parametrize(("name", "role", "words"), [
    ("R1", "left", "R1 is a right provider: start it with `trimask right`"),
    ("R2", "collector", "R2 is a right provider"),
    ("collector", "right", "collector is the collector: start it with `trimask collector`"),
])  # fmt: skip
def test_repro_a_wrong_role_is_refused_before_it_writes(
    keys_only: Any, name: str, role: NodeRole, words: str
) -> None:
    config = settings(keys_only, name)
    files = sorted(config.keys.rglob("*"))
    with pytest.raises(ConfigError, match=words):
        start(role, config)
    assert sorted(config.keys.rglob("*")) == files


def test_another_node_s_data_folder_is_refused(ops_lab: Any, keys_only: Any) -> None:
    config = replace(settings(keys_only, "L1"), data=settings(ops_lab, "R1").data)
    with pytest.raises(ConfigError, match=r"right.sqlite3 is the store of a right provider"):
        start("left", config)
    assert not (config.data / "left.sqlite3").exists()


STARTED_APART = """
import asyncio, sys
from pathlib import Path
from trimask_core.basics.errors import ConfigError
from trimask_server.programs import node_lock
from trimask_server.programs.roles import start_node
from trimask_server.settings.config import load_config

async def course():
    node = await start_node(sys.argv[1], load_config(Path(sys.argv[2]), "left"))
    await node.host.stop(0)

node_lock._refuse_ports = lambda *_, **__: None  # so that it comes as far as it can
try:
    asyncio.run(course())
except ConfigError as error:
    sys.exit(str(error))
"""


def start_apart(lab: Any, role: NodeRole, name: str) -> subprocess.CompletedProcess[str]:
    """Start and stop in a process of its own: gRPC's servers that never came up crash one that goes on with others."""
    return subprocess.run(
        [sys.executable, "-c", STARTED_APART, role, str(lab.folder / name / "node.toml")],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )


def test_repro_failed_starts_leave_nothing_in_the_log(keys_only: Any) -> None:
    cases: list[tuple[str, NodeRole, str]] = [
        ("R1", "right", "listen"), ("R2", "right", "peer_listen"), ("L1", "left", "http_listen"),
    ]  # fmt: skip
    for name, role, setting in cases:
        config = settings(keys_only, name)
        address = getattr(config, setting)
        with somebody_on(address):
            failed = start_apart(keys_only, role, name)
        assert failed.returncode == 1, failed.stderr
        assert re.search(rf"cannot listen on .*{re.escape(address)}", failed.stderr), failed.stderr
        assert audit_kinds(config, role) == []
    started = start_apart(keys_only, "right", "R1")
    assert started.returncode == 0, started.stderr
    assert audit_kinds(settings(keys_only, "R1"), "right") == ["node_started", "node_stopped"]


@pytest.mark.parametrize(("file", "content", "words"), [
    ("tls.pem", b"garbage", "tls.pem is not a certificate in PEM form"),
    ("tls.key", b"garbage", "tls.key is not an unencrypted private key"),
    ("ca.pem", b"garbage", "ca.pem holds no certificates"),
    ("tls.key", None, "tls.key does not belong to the certificate in tls.pem"),
])  # fmt: skip
def test_repro_tls_errors_name_the_file_and_the_reason(
    keys_only: Any, file: str, content: bytes | None, words: str
) -> None:
    config = settings(keys_only, "R1")
    other = (keys_only.folder / "R2" / file).read_bytes()
    (config.keys / file).write_bytes(other if content is None else content)
    with pytest.raises(ConfigError, match=words) as raised:
        start("right", config)
    assert str(config.keys) in str(raised.value)
    assert not (config.data / "right.sqlite3").exists()


@pytest.mark.parametrize(("content", "words"), [
    (b"garbage, no store", "file is not a database; `trimask node restore` puts a backup in its place"),
    (None, "unable to open database file; uid .* must be able to write it"),
])  # fmt: skip
def test_repro_a_store_that_cannot_be_used_is_named(
    keys_only: Any, content: bytes | None, words: str
) -> None:
    config = settings(keys_only, "R1")
    path = config.data / "right.sqlite3"
    config.data.mkdir(parents=True)
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"cannot use the store {path}: {words}"):
        start("right", config)


def test_repro_a_full_disk_is_named(
    keys_only: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the lock, and later in the store: a line each, no traceback."""
    path = keys_only.folder / "R1" / "node.toml"

    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_room)
        assert main(["right", "--config", str(path)]) == 2
    assert "node.lock: No space left on device; make room on its disk" in capsys.readouterr().err

    async def full(*_: Any, **__: Any) -> None:
        raise StoreError("database or disk is full")

    monkeypatch.setattr("trimask_server.runtime.audit.AuditLog.load", full)
    assert main(["right", "--config", str(path)]) == 2
    assert re.search(r"cannot write the store of R1 in .*: database or disk is full", capsys.readouterr().err)


def test_repro_a_store_is_its_owners_alone(keys_only: Any) -> None:
    """SQLite would let everybody read it where the folder does not keep them out."""
    config = settings(keys_only, "R1")
    start("right", config)
    assert stat.S_IMODE((config.data / "right.sqlite3").stat().st_mode) == 0o600


@pytest.mark.parametrize(("address", "words"), [
    ("::1:7400", r"an IPv6 address is written in brackets, as \[::1\]:7400"),
    ("192.0.2.1:7400", "192.0.2.1 is not an address of this machine"),
    (f"{'a' * 70}:7400", "is not an address of this machine"),
])  # fmt: skip
def test_repro_an_address_that_cannot_be_says_why(keys_only: Any, address: str, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"listen = .*{words}"):
        start("right", replace(settings(keys_only, "R1"), listen=address))


def test_repro_a_port_below_1024_says_what_it_takes(keys_only: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(ConfigError, match=r"Permission denied: a port below 1024 takes CAP_NET_BIND_SERVICE"):
        start("right", replace(settings(keys_only, "R1"), listen="127.0.0.1:443"))


def test_a_missing_tls_file_is_named(keys_only: Any) -> None:
    config = settings(keys_only, "R1")
    (config.keys / "tls.pem").unlink()
    with pytest.raises(ConfigError, match=r"cannot read .*R1/tls.pem: No such file"):
        start("right", config)


def test_what_is_weak_is_said_and_no_more(keys_only: Any) -> None:
    folder: Path = keys_only.folder / "R1"
    assert look_at_keys(folder, NOW_MS) == []
    (folder / "identity.key").chmod(0o644)
    (said,) = look_at_keys(folder, NOW_MS)
    assert "identity.key: has mode 0644: others may read it; chmod 0600" in said
    (folder / "identity.key").chmod(0o600)
    authority = load_authority(keys_only.folder / "authority")
    for days, words in ((3, "expires in 3.0 days"), (-2, "expired 2.0 days ago")):
        issued = issue_certificate(
            authority, "r1.trimask.local", NOW - dt.timedelta(days=30), NOW + dt.timedelta(days=days)
        )
        (folder / "tls.pem").write_bytes(issued.certificate)
        (folder / "tls.key").write_bytes(issued.private_key)
        (said,) = look_at_keys(folder, NOW_MS)
        assert words in said
    start("right", settings(keys_only, "R1"))  # so that a new one can be put in its place
    issued = issue_certificate(authority, "another.example.org")
    (folder / "tls.pem").write_bytes(issued.certificate)
    (folder / "tls.key").write_bytes(issued.private_key)
    (said,) = look_at_keys(folder, NOW_MS)
    assert "does not carry r1.trimask.local" in said
    shutil.copy(keys_only.folder / "R2" / "operator" / "tls.pem", folder / "ca.pem")
    assert any("comes from no authority in ca.pem" in line for line in look_at_keys(folder, NOW_MS))


def test_skew_is_what_cannot_be_the_way() -> None:
    assert skew_seconds(1_000, 1_500, 2_000) == 0  # answered while we waited
    assert skew_seconds(1_000, 62_000, 2_000) == 60
    assert skew_seconds(101_000, 1_000, 102_000) == -100
    assert skew_seconds(1_000, 0, 2_000) == 0  # a node of a version that does not say
    assert skew_words("R2", 4.9) == ""
    assert "R2 is 60 seconds ahead of ours" in skew_words("R2", 60)


def test_peers_with_other_clocks_are_named(own_lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    own_lab.open_study()
    context = own_lab.node("R1").context
    own_lab.on_loop(warn_of_skew(context))
    assert "the clock of" not in caplog.text
    object.__setattr__(own_lab.node("L1").context, "clock", ManualClock(NOW_MS + 90_000_000))
    own_lab.on_loop(warn_of_skew(context))
    assert "the clock of L1 (l1.trimask.local) is" in caplog.text
    assert "ahead of ours" in caplog.text
    assert "the clock of R2" not in caplog.text
