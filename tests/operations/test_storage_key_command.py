"""A node whose master key a command prints: a real PKCS#11 module (softhsm2), and what goes wrong with commands."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Client
from trimask_core.basics.errors import ConfigError
from trimask_server.commands.doctor import examine
from trimask_server.local.cluster import ThreadCluster
from trimask_server.settings.config import load_config
from trimask_server.store.data_keys import FILE_NAME, KeyRing
from trimask_terminal.program import main

MODULE = "/usr/lib/softhsm/libsofthsm2.so"
SCRIPT = Path(__file__).parents[2] / "deploy" / "storage-key-pkcs11"
NEW, OLD = "ab" * 32, "cd" * 32


def run(*arguments: object) -> None:
    subprocess.run([str(argument) for argument in arguments], check=True, capture_output=True)


def answer(signed: Any) -> None:
    with Client(signed) as client:
        assert client.submit({"hours": 7.5, "rested": True})


def printing(folder: Path, *lines: str) -> list[str]:
    (folder / "printed").write_text("\n".join(lines) + "\n")
    return ["/bin/cat", str(folder / "printed")]


def wrapped_by(lab: Any, name: str) -> set[str]:
    with contextlib.closing(sqlite3.connect(lab.folder / name / "data" / "right.sqlite3")) as store:
        return {row[0] for row in store.execute("SELECT master_id FROM data_keys")}


@pytest.fixture
def hsm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command of deploy/, over a token with an RSA key and 32 random bytes that are encrypted to it."""
    folder = tmp_path / "hsm"
    (folder / "tokens").mkdir(parents=True)
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder / 'tokens'}\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(folder / "softhsm2.conf"))
    monkeypatch.setenv("HSM_PIN", "1234")
    tool = ("pkcs11-tool", "--module", MODULE, "--token-label", "node")
    run("softhsm2-util", "--init-token", "--free", "--label", "node", "--pin", "1234", "--so-pin", "5678")
    run(*tool, "--login", "--pin", "1234", "--keypairgen", "--key-type", "rsa:2048", "--id", "01")
    run(*tool, "--read-object", "--type", "pubkey", "--id", "01", "--output-file", folder / "public.der")
    (folder / "key").write_bytes(os.urandom(32))
    run(
        "openssl", "pkeyutl", "-encrypt", "-pubin", "-keyform", "DER", "-inkey", folder / "public.der",
        "-pkeyopt", "rsa_padding_mode:oaep", "-in", folder / "key", "-out", folder / "storage.wrapped",
    )  # fmt: skip
    (folder / "key").unlink()
    program = folder / "storage-key"
    program.write_text(SCRIPT.read_text().replace("/etc/trimask", str(folder)))
    program.chmod(0o700)
    return [str(program)]


def use(lab: Any, name: str, command: list[str]) -> Path:
    """Set a node's command; its settings."""
    path: Path = lab.folder / name / "node.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("storage_key_command")]
    path.write_text("\n".join([f"storage_key_command = {command}".replace("'", '"'), *lines]) + "\n")
    return path


def test_a_node_runs_on_a_key_that_only_the_module_has(keys_only: Any, hsm: list[str]) -> None:
    lab = keys_only
    settings = use(lab, "R1", hsm)
    (lab.folder / "R1" / FILE_NAME).unlink()
    with ThreadCluster(lab.folder) as lab.cluster:
        signed = lab.open_study()
        answer(signed)
        config = load_config(settings, "right")
        assert not [
            check for check in examine(config, "right") if "storage" in check.about and check.level != "ok"
        ]
    ring = KeyRing.open(config.keys, config.storage_key_command)
    assert wrapped_by(lab, "R1") == {ring.active.key_id}
    assert not (lab.folder / "R1" / FILE_NAME).exists()
    secret = ring.active.secret
    for path in (lab.folder / "R1").rglob("*"):
        assert path.is_dir() or not {secret, secret.hex().encode()} & {path.read_bytes()}, path
    with ThreadCluster(lab.folder) as lab.cluster:  # as after a restart of the machine
        answer(signed)


def test_a_store_moves_from_the_file_to_the_command(
    keys_only: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = keys_only
    with ThreadCluster(lab.folder) as lab.cluster:
        signed = lab.open_study()
        answer(signed)
    before = wrapped_by(lab, "R1")
    settings = use(lab, "R1", printing(tmp_path, OLD))
    rotate = ["node", "rotate-storage-key", "--config", str(settings), "--destroy-retired"]
    with ThreadCluster(lab.folder) as lab.cluster:
        assert main(rotate) == 0
        assert "destroyed: 1" in capsys.readouterr().out
        answer(signed)
    assert not (lab.folder / "R1" / FILE_NAME).exists()
    after = wrapped_by(lab, "R1")
    assert len(after) == 1
    assert not after & before
    # Rotation in the module: the new key first.
    use(lab, "R1", printing(tmp_path, NEW, OLD))
    with ThreadCluster(lab.folder) as lab.cluster:
        assert main(rotate[:-1]) == 0
    assert not wrapped_by(lab, "R1") & after
    use(lab, "R1", printing(tmp_path, NEW))
    with ThreadCluster(lab.folder) as lab.cluster:
        answer(signed)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/bin/false"], "ended with status 1"),
        (["/bin/sh", "-c", "echo token is locked >&2; exit 3"], "ended with status 3: token is locked"),
        (["/nowhere/at-all"], "cannot be run: No such file"),
        (["/bin/echo", "abcd"], "64 hexadecimal digits a line"),
        (["/bin/echo", NEW + "zz"], "64 hexadecimal digits a line"),
        (["/bin/true"], "64 hexadecimal digits a line"),
    ],
)
def test_a_command_that_prints_no_key_stops_the_start(tmp_path: Path, command: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        KeyRing.open(tmp_path, command)
    assert "storage_key_command" in str(caught.value)
    assert NEW not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_no_printed_key_is_shown(tmp_path: Path) -> None:
    ring = KeyRing.open(tmp_path, printing(tmp_path, NEW, OLD))
    assert NEW not in repr(ring) + repr(ring.keys)
    assert [key.state for key in ring.keys] == ["retired", "active"]
    assert ring.active.secret.hex() == NEW
    assert ring.add() == ring.active
