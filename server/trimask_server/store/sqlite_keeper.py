"""Backups of the embedded store: SQLite's online backup, and a file put in the place of another."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_core.errors import ConfigError
from trimask_core.randomness import SystemRandom
from trimask_server.store.renewal import Kept, renewal

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeRole

__all__ = ["SqliteKeeper"]

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
