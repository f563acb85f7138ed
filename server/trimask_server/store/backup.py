"""Backing a node's store up to a file, and restoring it.

A backup is one file: SQLite's own, or pg_dump's custom format. It has no keys in it: what it holds of rows and factors can
be read only with the `storage.keys` of the node it was made at.

A restored store is given a new generation, by which the collector notices and tells a right provider of every block
again before it plans anything (`collector.restores`). A restored collector cannot be told what it published and answered
since the backup; so it discards the factors it had then, because otherwise the same rows could be published or paid for
twice. Nor can a right provider be told what it delivered: without the ledger it last ran with it delivers nothing more of
the studies it had then.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trimask_core.errors import ConfigError
from trimask_server.store.database import sqlite_path
from trimask_server.store.renewal import Kept

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeConfig, NodeRole

__all__ = ["Keeper", "back_up", "restore"]


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
        from trimask_server.store.sqlite_keeper import SqliteKeeper

        return SqliteKeeper(sqlite_path(config, role))
    from trimask_server.store.postgres_keeper import PostgresKeeper
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
