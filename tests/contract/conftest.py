"""The same suite over both stores: `make_store` opens one, again after a crash or a second time at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from trimask_server.store.interface import Store
from trimask_server.store.migration import Migration
from trimask_server.store.postgres import PostgresStore
from trimask_server.store.sqlite import SqliteStore

KINDS = ("sqlite", "postgresql")


class MakeStore(Protocol):
    """Opens the test's store; every call opens the same one."""

    kind: str

    def __call__(self, migrations: Sequence[Migration | str], schema: str = "trimask_r1") -> Store:
        """One more handle on it, closed at the end of the test at the latest."""
        ...


class _Maker:
    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place
        self._open: list[Store] = []

    def __call__(self, migrations: Sequence[Migration | str], schema: str = "trimask_r1") -> Store:
        store: Store
        if self.kind == "sqlite":
            store = SqliteStore(Path(self.place) / f"{schema}.sqlite3", migrations)
        else:
            store = PostgresStore(self.place, schema, migrations)
        self._open.append(store)
        return store

    def close(self) -> None:
        for store in self._open:
            store.close()
        self._open.clear()


@pytest.fixture(params=KINDS)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_Maker]:
    """Opens stores of one kind after the other."""
    place = str(tmp_path) if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    maker = _Maker(request.param, place)
    yield maker
    maker.close()


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine to its end."""
    return asyncio.run
