"""A node's log through rsyslog, as deploy/ has it, to a server that speaks TLS. Slow: needs `rsyslog-gnutls`."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from trimask_patience import until
from trimask_server.local.keys import issue_certificate, make_authority

SETTINGS = Path(__file__).parents[2] / "deploy" / "rsyslog-trimask.conf"
DRIVERS = list(Path("/usr/lib").glob("*/rsyslog/lmnsd_gtls.so"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DRIVERS or shutil.which("rsyslogd") is None, reason="no rsyslog with TLS here"),
]


class Server(threading.Thread):
    """A collecting server: every line that comes over TLS."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        authority = make_authority()
        issued = issue_certificate(authority, "logs.example.org")
        (folder / "ca.pem").write_bytes(authority.certificate)
        (folder / "tls.pem").write_bytes(issued.certificate)
        (folder / "tls.key").write_bytes(issued.private_key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "tls.pem", folder / "tls.key")
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.lines: list[str] = []

    def run(self) -> None:
        with self.listening:
            taken, _ = self.listening.accept()
        with self.context.wrap_socket(taken, server_side=True) as secured, secured.makefile("r") as file:
            self.lines.extend(iter(file.readline, ""))  # one after another, as they come


def test_what_a_node_says_arrives_as_it_was_said(keys_only: Any, tmp_path: Path) -> None:
    folder = tmp_path / "rsyslog"
    folder.mkdir()
    server = Server(folder)
    settings = SETTINGS.read_text(encoding="utf-8")
    for theirs, ours in {
        "/etc/ssl/certs/ca-certificates.crt": str(folder / "ca.pem"),
        "/var/spool/rsyslog": str(folder),
        'target="logs.example.org"': 'target="127.0.0.1"',
        "6514": str(server.port),
    }.items():
        assert theirs in settings
        settings = settings.replace(theirs, ours)
    taking = folder / "socket"
    ours = f'module(load="imuxsock" SysSock.Use="off")\ninput(type="imuxsock" Socket="{taking}" useSpecialParser="off")\n'
    (folder / "rsyslog.conf").write_text(ours + settings)
    settings_of_node = keys_only.folder / "L1" / "node.toml"
    settings_of_node.write_text('log_format = "json"\n' + settings_of_node.read_text())
    program = [Path(sys.executable).with_name("trimask"), "left", "--config", str(settings_of_node)]
    rsyslog = ["rsyslogd", "-n", "-f", str(folder / "rsyslog.conf"), "-i", str(folder / "pid")]
    with subprocess.Popen(rsyslog) as shipping:
        until(taking.exists)
        with subprocess.Popen(program, stderr=subprocess.PIPE) as node:
            logger = ["logger", "--socket", str(taking), "--tag", "trimask"]
            with subprocess.Popen(logger, stdin=node.stderr) as passing_on:
                server.start()
                until(
                    lambda: any('"ready"' in line for line in list(server.lines)),
                    else_say=lambda: server.lines,
                )
                node.terminate()
                assert node.wait() == 0
                passing_on.wait()
        until(lambda: any('"stopped"' in line for line in list(server.lines)), else_say=lambda: server.lines)
        shipping.terminate()
    server.join()
    entries = [json.loads(line) for line in server.lines]
    assert {entry["node"] for entry in entries} == {"trimask.L1"}
    assert {"ready", "stopped"} <= {entry["message"] for entry in entries}
