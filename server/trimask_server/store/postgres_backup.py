"""Backups of a store on PostgreSQL, through pg_dump, pg_restore and psql."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psycopg
from psycopg import conninfo

from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SystemRandom
from trimask_server.store.after_restore import Kept, renewal
from trimask_server.store.postgres_schema import connect, in_use_key, shown_url

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeRole


_MAGIC = b"PGDMP"
_VARIABLES = {
    "dbname": "PGDATABASE",
    "hostaddr": "PGHOSTADDR",
    "options": "PGOPTIONS",
    **{name: f"PG{name.upper()}" for name in (
        "host", "port", "user", "password", "passfile", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl",
        "channelbinding", "target_session_attrs",
    )},
}  # fmt: skip


@dataclass(frozen=True)
class PostgresKeeper:
    """The store in one schema."""

    url: str = field(repr=False)
    schema: str

    def back_up(self, file: Path) -> None:
        with file.open("wb") as written:
            self._run(
                ["pg_dump", "--format=custom", f"--schema={self.schema}", "--no-owner", "--no-privileges"],
                stdout=written,
            )

    def holds_anything(self) -> bool:
        try:
            with connect(self.url, self.schema) as connection:
                if connection.execute("SELECT to_regclass('studies')").fetchone() == (None,):
                    return False
                return connection.execute("SELECT 1 FROM studies LIMIT 1").fetchone() is not None
        except psycopg.Error as error:
            raise ConfigError(
                f"cannot use the store at {shown_url(self.url)}: {' '.join(str(error).split())}"
            ) from None

    def restore(self, file: Path, role: NodeRole, kept: Kept) -> None:
        with file.open("rb") as opened:
            if opened.read(len(_MAGIC)) != _MAGIC:
                raise ConfigError(
                    f"{file} is not a backup of a PostgreSQL store; one of SQLite is restored without [store] url"
                )
        script = self._run(["pg_restore", "--no-owner", "--no-privileges", "--file=-", str(file)])
        self._refuse_other(script, role)
        with connect(self.url, self.schema) as connection:
            # Held until the end, and by every running node, shared.
            held = connection.execute(
                "SELECT pg_try_advisory_lock(%s)", (in_use_key(self.schema),)
            ).fetchone()
            if held != (True,):
                raise ConfigError(
                    f"the store's schema {self.schema} is in use; stop the node before restoring"
                )
            generation = SystemRandom().read(16).hex()
            after = [
                f"SET search_path = {self.schema}",
                f"UPDATE store_facts SET value = '\\x{generation}' WHERE name = 'generation'",  # noqa: S608 - hexadecimal
                "DELETE FROM store_writers",
                *renewal(role, kept),
            ]
            # One transaction, so that nobody ever sees the backup's store as it was.
            self._run(
                ["psql", "--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"],
                given=f"DROP SCHEMA IF EXISTS {self.schema} CASCADE;\n".encode()
                + script
                + "".join(f"\n{statement};" for statement in after).encode(),
            )

    def _refuse_other(self, script: bytes, role: NodeRole) -> None:
        def creates(table: str) -> bool:
            return f"CREATE TABLE {self.schema}.{table} ".encode() in script

        if not creates("store_facts"):
            raise ConfigError(f"that backup is not one of the schema {self.schema}")
        if creates("releases") != (role == "collector"):
            raise ConfigError(f"that backup is not one of a {role} node")

    def _run(
        self, command: list[str], *, given: bytes | None = None, stdout: int | IO[bytes] = subprocess.PIPE
    ) -> bytes:
        """Run one of PostgreSQL's programs; the password goes in the environment, which other users cannot see."""
        program = find_program(command[0])
        done = subprocess.run(
            [program, *command[1:]],
            input=given,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=os.environ | self._environment(),
            check=False,
        )
        if done.returncode:
            raise ConfigError(
                f"{command[0]} failed: {' '.join(done.stderr.decode(errors='replace').split())}"
            )
        return bytes(done.stdout or b"")

    def _environment(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in conninfo.conninfo_to_dict(self.url).items():
            if key in _VARIABLES and value is not None:
                found[_VARIABLES[key]] = str(value)
        return found


def find_program(name: str) -> str:
    """One of PostgreSQL's programs; Debian keeps the newest server's off the path."""
    found = shutil.which(name)
    if found is None:
        installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        if not installed:
            raise ConfigError(f"{name} is not installed; it comes with PostgreSQL's client programs")
        found = str(installed[-1])
    return found
