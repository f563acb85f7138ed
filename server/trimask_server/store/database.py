"""Which store a node has: a SQLite file in its data folder, or a schema on a PostgreSQL server if one is configured.

The tables of each kind of node are ordered steps: append, never edit. The name of a first step says for which kind of node
it is, so that a node refuses the schema of another kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trimask_core.basics.errors import ConfigError
from trimask_server.store.interface import Migration, Store
from trimask_server.store.migrations import m20261116_initial, m20261119_sent_together
from trimask_server.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeConfig, NodeRole


PROVIDER: tuple[Migration, ...] = (m20261116_initial.PROVIDER, m20261119_sent_together.PROVIDER)

COLLECTOR: tuple[Migration, ...] = (m20261116_initial.COLLECTOR,)


def sqlite_path(config: NodeConfig, role: NodeRole) -> Path:
    """The embedded store's file."""
    return Path(config.data) / f"{role}.sqlite3"


def open_store(config: NodeConfig, role: NodeRole) -> Store:
    """Open a node's store, made or brought up to date as needed."""
    migrations = COLLECTOR if role == "collector" else PROVIDER
    if not config.store.url:
        return SqliteStore(sqlite_path(config, role), migrations)
    try:
        from trimask_server.store.postgres import PostgresStore
        from trimask_server.store.postgres_schema import schema_of
    except ImportError:
        raise ConfigError(
            "[store] url names a PostgreSQL server; install what it takes with `pip install 'trimask-server[postgres]'`"
        ) from None
    schema = config.store.schema or schema_of(config.name)
    return PostgresStore(config.store.url, schema, migrations, role=role)
