"""`trimask node init`, `card` and `doctor`: a node from nothing to in order."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import select
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography import x509

from trimask_cli.study_file import write_signed
from trimask_core.basics.errors import ConfigError
from trimask_core.crypto.keys import PUBLIC_KEY_BYTES
from trimask_core.study.party import fingerprint, load_party
from trimask_patience import patience
from trimask_postgres import LocalPostgres
from trimask_server.commands.doctor import examine
from trimask_server.local.cluster import ThreadCluster, free_base_port
from trimask_server.local.keys import issue_certificate, load_authority
from trimask_server.programs.node_lock import claim_node
from trimask_server.settings.config import StoreConfig, load_config
from trimask_server.store.database import open_store
from trimask_terminal.program import main

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "250")

    def command(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return command


def init(run: Run, folder: Path, name: str = "R2", **more: object) -> tuple[int, str]:
    options = [word for key, value in more.items() for word in (f"--{key.replace('_', '-')}", value)]
    return run(
        "node", "init", folder, "--name", name, "--dns", "r2.example.org", "--organisation", "A University", *options
    )  # fmt: skip


def doctor(run: Run, folder: Path, *more: object) -> tuple[int, dict[str, tuple[str, str]]]:
    """Level and fix by what was looked at."""
    status, text = run("node", "doctor", "--config", folder / "node.toml", "--json", *more)
    return status, {
        check["about"]: (check["level"], check["said"] + " -> " + check["fix"])
        for check in json.loads(text)["checks"]
    }


def test_a_node_is_made_once_and_completed_later(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    status, said = init(run, folder)
    assert status == 0
    keys = folder / "keys"
    for path in keys.rglob("*"):
        if path.suffix in (".key", ".keys"):
            assert path.stat().st_mode & 0o777 == 0o600, path
    request = x509.load_pem_x509_csr((keys / "tls.csr").read_bytes())
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["r2.example.org"]
    card = load_party(keys / "node.json")
    assert fingerprint(card) in said
    assert (card.name, card.address, card.peer_address) == (
        "R2",
        "r2.example.org:7400",
        "r2.example.org:7401",
    )

    before = {path: path.read_bytes() for path in keys.rglob("*") if path.is_file()}
    (keys / "moments.key").unlink()
    status, said = init(run, folder)
    assert status == 0
    assert f"made  {keys / 'moments.key'}" in said
    assert f"kept  {keys / 'identity.key'}" in said
    assert all(path.read_bytes() == was for path, was in before.items() if path.name != "moments.key")
    status, said = init(run, folder, name="R3")
    assert (status, "is the card of R2" in said) == (2, True)


@pytest.mark.parametrize(("option", "value", "words"), [
    ("dns", "r2 example", "'r2 example' is not a DNS name"),
    ("dns", "192.168.0.1", "never by an IP address"),
    ("dns", "R2.example.org", "in lower case"),
    ("listen", "7400", "listen = '7400' must be host:port"),
    ("http-listen", "::1:7402", "in brackets, as [::1]:7402"),
    ("organisation", " ", "the organisation must not be empty"),
    ("organisation", "A\x1b[2KB", "organisation has U+001B"),
])  # fmt: skip
def test_repro_what_no_node_can_be_known_by_is_refused_before_keys_are_made(
    run: Run, tmp_path: Path, option: str, value: str, words: str
) -> None:
    status, said = init(run, tmp_path / "etc", **{option.replace("-", "_"): value})
    assert (status, words in said) == (2, True), said
    assert not (tmp_path / "etc").exists()


def test_the_card_and_the_study_show_one_fingerprint(run: Run, ops_lab: Any, tmp_path: Path) -> None:
    status, said = run(
        "node", "card", "--config", ops_lab.folder / "R2" / "node.toml", "--out", tmp_path / "R2.json"
    )
    mark = fingerprint(ops_lab.parties["R2"])
    assert (status, mark in said) == (0, True)
    assert load_party(tmp_path / "R2.json") == ops_lab.parties["R2"]
    signed = ops_lab.open_study("Fingerprints")
    write_signed(tmp_path / "study.json", signed, replace=False)
    assert mark in run("study", "show", tmp_path / "study.json")[1]
    config = ops_lab.folder / "R1" / "node.toml"
    assert mark in run("node", "studies", signed.study.id.hex(), "--config", config)[1]
    digits = mark.replace(" ", "")
    assert (len(digits), digits.isdigit()) == (30, True)


def test_a_running_node_is_in_order(run: Run, ops_lab: Any) -> None:
    ops_lab.open_study("Doctor")
    status, found = doctor(run, ops_lab.folder / "R1")
    assert {level for level, _ in found.values()} == {"ok"}, found
    assert status == 0
    peers = [about for about in found if about.startswith(("collector (", "R2 (", "L1 ("))]
    assert len(peers) == 3  # of the study it has
    assert "the same time" in found[peers[0]][1]
    status, said = run("node", "doctor", "--config", ops_lab.folder / "R1" / "node.toml")
    assert (status, "R1: everything is in order." in said) == (0, True)


def test_what_is_wrong_has_a_fix(run: Run, keys_only: Any, tmp_path: Path) -> None:
    folder: Path = keys_only.folder / "R1"
    (folder / "sealing.key").chmod(0o640)
    (folder / "moments.key").unlink()
    issued = issue_certificate(load_authority(keys_only.folder / "authority"), "another.example.org")
    (folder / "tls.pem").write_bytes(issued.certificate)
    (folder / "tls.key").write_bytes(issued.private_key)
    status, found = doctor(run, folder, "--party", keys_only.folder / "R2" / "node.json")
    assert status == 1
    level, said = found[str(folder / "sealing.key")]
    assert (level, "chmod 0600" in said) == ("warning", True)
    assert "moments suite" in found[str(folder / "moments.key")][1]
    assert "does not carry r1.trimask.local" in found[str(folder / "tls.pem")][1]
    assert "does not run" in found["node"][1]
    (peer,) = (
        said for about, (level, said) in found.items() if about.startswith("R2 (") and level == "wrong"
    )
    assert "does not answer" in peer

    (folder / "tls.key").write_bytes((keys_only.folder / "R2" / "tls.key").read_bytes())
    status, found = doctor(run, folder)
    assert "tls.key does not belong" in found[f"TLS files in {folder}"][1]
    assert run("node", "doctor", "--config", tmp_path / "none.toml")[0] == 2


def test_a_provider_without_a_hybrid_key_is_told_how_to_make_one(run: Run, keys_only: Any) -> None:
    folder: Path = keys_only.folder / "R1"
    assert "sealing keys" not in doctor(run, folder)[1]
    (folder / "sealing-hybrid.key").unlink()  # as before there were such keys
    level, said = doctor(run, folder)[1]["sealing keys"]
    assert (level, "trimask node rotate-sealing-key" in said) == ("warning", True)
    assert run("node", "rotate-sealing-key", "--config", folder / "node.toml", "--overlap", "30d")[0] == 0
    assert "sealing keys" not in doctor(run, folder)[1]
    _, card = run("node", "card", "--config", folder / "node.toml", "--json")
    assert len(base64.b64decode(json.loads(card)["sealing_hybrid"])) == PUBLIC_KEY_BYTES["hybrid"]


def test_a_store_that_is_no_store(run: Run, keys_only: Any) -> None:
    folder: Path = keys_only.folder / "R1"
    (folder / "data").mkdir()
    (folder / "data" / "right.sqlite3").write_bytes(b"this is not a database" * 100)
    assert "not a database" in doctor(run, folder)[1]["store"][1]
    with (folder / "node.toml").open("a") as file:
        file.write('[store]\nurl = "postgresql://nobody@127.0.0.1:1/none"\n')
    level, said = doctor(run, folder)[1]["store"]
    assert (level, "store.url_file" in said) == ("wrong", True)


@pytest.mark.parametrize(
    "name", ["identity.key", "sealing.key", "moments.key", "storage.keys", "node.json", "operator/tls.pem"]
)
@pytest.mark.parametrize("content", ["", "garbage"])
def test_repro_a_key_file_that_holds_no_key_is_named(
    run: Run, keys_only: Any, name: str, content: str
) -> None:
    """The doctor found everything in order, and the node did not start, or not under its own control."""
    folder: Path = keys_only.folder / "R1"
    (folder / name).write_text(content)
    status, found = doctor(run, folder)
    assert (status, str(folder / name) in found) == (1, True), found
    assert found[str(folder / name)][0] in ("wrong", "warning")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
def test_repro_folders_of_another_user_are_named(keys_only: Any) -> None:
    """By another user's process: it was told of a file that is not there, and the doctor gave up."""
    config = keys_only.folder / "R1" / "node.toml"
    text = config.read_text()
    shared = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        shared.chmod(0o755)
        for name in ("keys", "data"):
            (shared / name).mkdir(mode=0o700)
        mine = shared / "node.toml"
        for keys, data, barred in (("keys", "fresh", "keys"), ("open", "data", "data")):
            if keys == "open":
                shutil.copytree(keys_only.folder / "R1", shared / "open")
                for path in (shared / "open", *(shared / "open").rglob("*")):
                    os.chown(path, 65534, 65534)
            lines = [line for line in text.splitlines() if not line.startswith(("keys", "data"))]
            mine.write_text("\n".join([*lines, f'keys = "{keys}"', f'data = "{data}"']) + "\n")
            mine.chmod(0o644)
            findings = _as_nobody(mine)
            (said,) = (item for item in findings if item["about"] == str(shared / barred))
            assert said["level"] == "wrong"
            assert "uid 65534" in said["said"]
    finally:
        shutil.rmtree(shared)


def _as_nobody(config: Path) -> list[dict[str, str]]:
    """What the doctor finds as user 65534. In a fork: another program might not be allowed to read this one's files."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            found = [finding.to_dict() for finding in examine(load_config(config, "right"), "right")]
            os.write(writing, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(child, 0)
    return list(json.loads(text))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_repro_what_root_rotates_stays_the_nodes(run: Run, keys_only: Any) -> None:
    """`sudo trimask node rotate-...` left files that the node's user could not read: the next start failed."""
    folder: Path = keys_only.folder / "R1"
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    for command in ("rotate-sealing-key", "rotate-storage-key"):
        assert run("node", command, "--config", folder / "node.toml")[0] == 0
    for name in ("sealing.keys", "storage.keys"):
        status = (folder / name).stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (65534, 65534, 0o600)


def test_repro_a_card_with_another_port_is_named(run: Run, keys_only: Any, ops_lab: Any) -> None:
    """The doctor found everything in order, and nobody of a study would have reached the node."""
    card = keys_only.folder / "R1" / "node.json"
    told = json.loads(card.read_text())
    port = int(told["peer_address"].rpartition(":")[2])
    elsewhere = free_base_port(1)
    card.write_text(json.dumps(told | {"peer_address": f"127.0.0.1:{elsewhere}"}))
    level, said = doctor(run, card.parent)[1][str(card)]
    assert (level, f"says 127.0.0.1:{elsewhere}, and peer_listen is 127.0.0.1:{port}" in said) == (
        "warning",
        True,
    )
    with ThreadCluster(keys_only.folder):
        status, found = doctor(run, card.parent)
        assert (status, found[str(card)][0]) == (1, "wrong")
        assert f"does not answer at 127.0.0.1:{elsewhere}" in found[str(card)][1]
        # Another node answers there: it shows another certificate.
        other = json.loads((ops_lab.folder / "R1" / "node.json").read_text())["peer_address"]
        card.write_text(json.dumps(told | {"peer_address": other}))
        assert doctor(run, card.parent)[1][str(card)][0] == "wrong"
        for swapped in ("address", "peer_address"):  # its own certificate, at the wrong one of its ports
            card.write_text(
                json.dumps(told | {swapped: told["peer_address" if swapped == "address" else "address"]})
            )
            assert doctor(run, card.parent)[1][str(card)][0] == "wrong"
        with forwarded(elsewhere, port):
            card.write_text(json.dumps(told | {"peer_address": f"127.0.0.1:{elsewhere}"}))
            status, found = doctor(run, card.parent)
        assert (status, found[str(card)][0]) == (0, "ok"), found


@contextlib.contextmanager
def forwarded(port: int, to: int) -> Iterator[None]:
    """What a router does with a port."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", to)) as inside, contextlib.suppress(OSError):
                ends = {self.request: inside, inside: self.request}
                while True:
                    for ready in select.select(list(ends), [], [])[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        ends[ready].sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", port), Forward) as server:
        threading.Thread(target=server.serve_forever).start()
        yield
        server.shutdown()


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def test_repro_a_read_only_file_system_is_named(keys_only: Any) -> None:
    """Before: "chown it ... or run the node as uid 0", as uid 0."""
    file = keys_only.folder / "R1" / "node.toml"
    data = load_config(file, "right").data
    data.mkdir()
    before = ["unshare", "-rm", "sh", "-c", READ_ONLY, str(data)]
    if shutil.which("unshare") is None or subprocess.run([*before, "true"], check=False).returncode:
        pytest.skip("this system lets us mount nothing")
    trimask = [*before, sys.executable, "-m", "trimask_terminal"]
    for command in (["right"], ["node", "doctor", "--json"]):
        done = subprocess.run(
            [*trimask, *command, "--config", str(file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(120),
        )
        assert done.returncode == (2 if command == ["right"] else 1)
        said = done.stdout + done.stderr
        assert "is on a read-only file system: mount it read-write" in said
        assert "chown" not in said


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_repro_root_does_not_start_another_users_node(keys_only: Any) -> None:
    config = load_config(keys_only.folder / "R1" / "node.toml", "right")
    Path(config.data).mkdir()
    os.chown(config.data, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to uid 65534, who could not use what root writes there"):
        claim_node("right", config)
    assert list(Path(config.data).iterdir()) == []


def test_repro_a_schema_the_account_may_not_use_is_named(
    run: Run, keys_only: Any, postgres_server: LocalPostgres
) -> None:
    """The doctor said that the server answers, and the start that something was denied."""
    url = postgres_server.create_database("doctors")
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE ROLE visitor LOGIN")
    visiting = re.sub(r"//[^@]*@", "//visitor@", url)
    with (keys_only.folder / "R1" / "node.toml").open("a") as file:
        file.write(f'[store]\nurl = "{visiting}"\n')
    level, said = doctor(run, keys_only.folder / "R1")[1]["store"]
    assert (level, "CREATE SCHEMA trimask_r1 AUTHORIZATION" in said) == ("wrong", True)
    config = load_config(keys_only.folder / "R1" / "node.toml", "right")
    with pytest.raises(ConfigError, match="CREATE SCHEMA trimask_r1 AUTHORIZATION"):
        open_store(config, "right")


def test_repro_a_right_provider_does_not_use_a_left_ones_schema(
    keys_only: Any, postgres_server: LocalPostgres
) -> None:
    """Their tables are the same, so it did; docs/operations.md says that it is refused."""
    url = postgres_server.create_database("kinds")
    store = StoreConfig(url=url, schema="shared")
    left, right = (
        replace(load_config(keys_only.folder / name / "node.toml", "left"), store=store)
        for name in ("L1", "R1")
    )
    open_store(left, "left").close()
    open_store(left, "left").close()
    with pytest.raises(ConfigError, match="schema shared is that of a left node, and this is a right node"):
        open_store(right, "right")
