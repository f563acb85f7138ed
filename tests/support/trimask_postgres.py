"""A private PostgreSQL server in a folder, for tests and trials; its creator starts, stops and removes it.

Anybody with an account on this machine can connect to it. An institution runs its own server instead.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from psycopg import sql

from trimask_core.basics.errors import ConfigError, TrimaskError
from trimask_patience import patience
from trimask_server.local.cluster import free_base_port

__all__ = ["LocalPostgres", "find_binaries"]

_USER = "trimask"


def find_binaries() -> Path:
    """The folder with initdb and postgres; Debian keeps it off the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    installed = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not installed:
        raise ConfigError("there is no PostgreSQL server here; install the package `postgresql`")
    return max(installed, key=lambda folder: int(folder.parent.name))


class LocalPostgres:
    """One server on a loopback port and a socket. `fsync=False` is quicker and survives no power cut; `usual`: with the
    memory and the vacuum of a server as it is installed, which short tests do without."""

    def __init__(self, *, fsync: bool = True, usual: bool = False) -> None:
        self.binaries = find_binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="trimask-postgres-"))
        self.data = self.folder / "data"
        self.port = free_base_port(1)
        self._fsync, self._usual = fsync, usual
        self._process: subprocess.Popen[bytes] | None = None
        # The server refuses to run as root.
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def __enter__(self) -> LocalPostgres:
        try:
            self._run("initdb", "--auth=trust", f"--username={_USER}", "--encoding=UTF8", "--no-locale",
                      "--no-sync", "-D", str(self.data))  # fmt: skip
            self.start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
            **self._as,
        )
        if done.returncode:
            raise TrimaskError(f"{program} failed: {done.stderr.strip()}")

    def url(self, database: str = "postgres") -> str:
        """The address of one of its databases."""
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if self._fsync else "off",
            "shared_buffers": "128MB" if self._usual else "32MB",
            "max_connections": "200",
            "autovacuum": "on" if self._usual else "off",
        }
        command = [str(self.binaries / "postgres"), "-D", str(self.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, **self._as
            )
        deadline = time.monotonic() + patience(60)
        while True:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url()):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise TrimaskError("PostgreSQL did not start: " + (self.folder / "log").read_text()[-2000:])
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End every connection and stop; with SIGQUIT as a crash would, to be recovered at the next start."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(patience(30))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop and start again."""
        self.stop(how)
        self.start()

    def create_database(self, name: str) -> str:
        """A new, empty database; its address."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def empty_database(self, url: str) -> None:
        """End everybody's sessions in a database and drop every schema in it."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid()"
            )
            schemas = connection.execute(
                "SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$|public$)'"
            ).fetchall()
            for (name,) in schemas:
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
