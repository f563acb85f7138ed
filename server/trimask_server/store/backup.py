"""Backing a node's store up to a file, and restoring it.

A backup is one file: SQLite's own online backup, or pg_dump's custom format (`postgres_backup`). It
has no keys in it: what it holds of rows and factors can be read only with the `storage.keys` of the node it was made at.

A restored store is given a new generation, by which the collector notices and tells a right provider of every block
again before it plans anything (`collector.driver`). A restored collector cannot be told what it published and answered
since the backup; so it discards the factors it had then, because otherwise the same rows could be published or paid for
twice. Nor can a right provider be told what it delivered: without the ledger it last ran with it delivers nothing more of
the studies it had then. All of this is done in the transaction that restores (`after_restore`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SystemRandom
from trimask_server.store.after_restore import Kept, renewal
from trimask_server.store.database import sqlite_path

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeConfig, NodeRole


class Keeper(Protocol):
    """How one kind of store is backed up and restored."""

    def back_up(self, file: Path) -> None:
        """Write one state of the store, while nodes use it, to a file that does not exist yet."""
        ...

    def holds_anything(self) -> bool:
        """Whether there is a store with a study in it."""
        ...

    def restore(self, file: Path, role: NodeRole, kept: Kept) -> None:
        """Replace the store by the backup's, renewed, in one step. Nobody may be using it."""
        ...


def _keeper(config: NodeConfig, role: NodeRole) -> Keeper:
    if not config.store.url:
        return SqliteKeeper(sqlite_path(config, role))
    from trimask_server.store.postgres_backup import PostgresKeeper
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


_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True)
class SqliteKeeper:
    """The store in one file."""

    path: Path

    def back_up(self, file: Path) -> None:
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
        if not self.path.exists():
            return False
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            try:
                return connection.execute("SELECT 1 FROM studies LIMIT 1").fetchone() is not None
            except sqlite3.OperationalError:  # no such table
                return False

    def restore(self, file: Path, role: NodeRole, kept: Kept) -> None:
        with file.open("rb") as opened:
            if opened.read(len(_MAGIC)) != _MAGIC:
                raise ConfigError(
                    f"{file} is not a backup of a SQLite store; one of PostgreSQL is restored with [store] url set"
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
