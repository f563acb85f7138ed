"""Backing a node's store up to a file, and restoring it.

A backup is one file: SQLite's own online backup, or pg_dump's custom format. It has no keys in it: what it holds of rows
and factors can be read only with the `storage.keys` of the node it was made at.

A restored store is given a new generation, by which the collector notices and tells a right provider of every block
again before it plans anything (`collector.driver`). A restored collector cannot be told what it published and answered
since the backup; so it discards the factors it had then, because otherwise the same rows could be published or paid for
twice. Nor can a right provider be told what it delivered: without the ledger it last ran with it delivers nothing more of
the studies it had then. All of this is done in the transaction that restores (`renewal`).

psycopg comes with the extra `postgres`: it is imported where a store is on a server.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SystemRandom
from trimask_server.settings.config import NodeConfig, NodeRole
from trimask_server.store import data_keys, release_table
from trimask_server.store.database import sqlite_path


def _keeper(config: NodeConfig, role: NodeRole) -> SqliteKeeper | PostgresKeeper:
    if not config.store.url:
        return SqliteKeeper(sqlite_path(config, role))
    from trimask_server.store.postgres_schema import schema_of

    return PostgresKeeper(config.store.url, config.store.schema or schema_of(config.name))


def back_up(config: NodeConfig, role: NodeRole, file: Path) -> int:
    """Back a node's store up, running or not, to a new file only its owner can read; its size in bytes."""
    if file.exists():
        raise ConfigError(f"{file} exists already; give the backup a name of its own")
    part = file.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        _keeper(config, role).back_up(part)
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)
    return file.stat().st_size


def restore(
    config: NodeConfig, role: NodeRole, file: Path, *, force: bool = False, kept: Kept | None = None
) -> None:
    """Replace a stopped node's store by a backup's."""
    if not file.is_file():
        raise ConfigError(f"there is no backup {file}")
    keeper = _keeper(config, role)
    if keeper.holds_anything() and not force:
        raise ConfigError(
            "this node's store is not empty: everything in it would be lost; give --force to do it"
        )
    keeper.restore(file, role, kept or Kept())


def _require_magic(file: Path, magic: bytes, of: str) -> None:
    with file.open("rb") as opened:
        if opened.read(len(magic)) != magic:
            raise ConfigError(f"{file} is not a backup of {of}")


@dataclass(frozen=True)
class SqliteKeeper:
    """The store in one file."""

    path: Path

    def back_up(self, file: Path) -> None:
        """Write one state of the store, while nodes use it, to an empty file."""
        if not self.path.exists():
            raise ConfigError(f"there is no store {self.path} to back up")
        with (
            contextlib.closing(sqlite3.connect(self.path)) as source,
            contextlib.closing(sqlite3.connect(file)) as target,
        ):
            source.execute("PRAGMA busy_timeout=10000")
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")  # one file, without companions

    def holds_anything(self) -> bool:
        """Whether there is a store with a study in it."""
        if not self.path.exists():
            return False
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            try:
                return connection.execute("SELECT 1 FROM studies LIMIT 1").fetchone() is not None
            except sqlite3.OperationalError:  # no such table
                return False

    def restore(self, file: Path, role: NodeRole, kept: Kept) -> None:
        """Replace the store by the backup's, renewed, in one step. Nobody may be using it."""
        _require_magic(
            file,
            b"SQLite format 3\0",
            "a SQLite store; one of PostgreSQL is restored with [store] url set",
        )
        self._refuse_while_in_use()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(self.path.name + ".restoring")
        fresh.touch(mode=0o600)
        shutil.copyfile(file, fresh)
        try:
            _renew(fresh, role, kept)
            with fresh.open("rb+") as written:
                os.fsync(written.fileno())
            fresh.replace(self.path)
        finally:
            fresh.unlink(missing_ok=True)

    def _refuse_while_in_use(self) -> None:
        """Leaving WAL mode takes a file nobody else has open; it also leaves no log for the next file to be read with."""
        if not self.path.exists():
            return
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
            except sqlite3.OperationalError:
                mode = "locked"
            except sqlite3.DatabaseError:
                mode = "delete"  # not a database: to be replaced
        if mode != "delete":
            raise ConfigError(f"{self.path} is in use; stop the node before restoring")


def _renew(path: Path, role: NodeRole, kept: Kept) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("BEGIN IMMEDIATE")
        try:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if "store_facts" not in tables or ("releases" in tables) != (role == "collector"):
                raise ConfigError(f"that backup is not one of a {role} node")  # noqa: TRY301 - rolled back
            connection.execute(
                "UPDATE store_facts SET value = ? WHERE name = 'generation'", (SystemRandom().read(16),)
            )
            for statement in renewal(role, kept):
                connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


@dataclass(frozen=True)
class Kept:
    """What the operator says of a restore: a collector's factors may stay; a right provider's ledger is the live one."""

    factors: bool = False
    ledger: bool = False


def renewal(role: NodeRole, kept: Kept) -> list[str]:
    """Statements that make a restored store safe to use, beside a new generation; part of the restoring transaction."""
    if role == "right":
        # What this store holds may have been delivered since: docs/theory/verified-moments.md#noise-once.
        again = "DO NOTHING" if kept.ledger else "(study_id) DO UPDATE SET lost = 1"
        marked = f"SELECT study_id, {int(not kept.ledger)} FROM studies WHERE state <> 'collected'"  # noqa: S608
        return [f"INSERT INTO restored_ledgers (study_id, lost) {marked} ON CONFLICT {again}"]
    if role != "collector" or kept.factors:
        return []
    return [*release_table.after_restore(), data_keys.AFTER_RESTORE]


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
    """The store in one schema; it does as `SqliteKeeper` does."""

    url: str = field(repr=False)
    schema: str

    def back_up(self, file: Path) -> None:
        with file.open("wb") as written:
            self._run(
                ["pg_dump", "--format=custom", f"--schema={self.schema}", "--no-owner", "--no-privileges"],
                stdout=written,
            )

    def holds_anything(self) -> bool:
        import psycopg

        from trimask_server.store.postgres_schema import connect, shown_url

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
        from trimask_server.store.postgres_schema import connect, in_use_key

        _require_magic(file, b"PGDMP", "a PostgreSQL store; one of SQLite is restored without [store] url")
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
        from psycopg import conninfo

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
