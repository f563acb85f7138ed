"""Every change of a state that is not drawn raises, and changes nothing; every one that is drawn is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from trimask_server.store import held_blocks, release_table
from trimask_server.store.database import COLLECTOR, PROVIDER
from trimask_server.store.held_blocks import HeldState
from trimask_server.store.interface import IllegalTransition, State, Transaction
from trimask_server.store.release_table import BlockState, ReleaseState

STUDY, BLOCK = b"s" * 32, b"b" * 16
Move = Callable[[Transaction, Any], None]


def _set_collectors(tx: Transaction, state: State) -> None:
    release_table.plan_block(tx, STUDY, BLOCK, b"i" * 16)
    tx.run("UPDATE blocks SET state = ?", (state.value,))


def _set_release(tx: Transaction, state: State) -> None:
    tx.run("DELETE FROM releases")
    sql = "INSERT INTO releases (study_id, release_number, row_count, block_count, state) VALUES (?, 1, 9, 1, ?)"
    tx.run(sql, (STUDY, state.value))


def _set_providers(tx: Transaction, state: State) -> None:
    held_blocks.erase_study(tx, STUDY)
    held_blocks.put(tx, STUDY, [(BLOCK, b"i" * 16)], HeldState(state))


@pytest.mark.parametrize(
    ("states", "schema", "table", "put", "move"),
    [
        (BlockState, COLLECTOR, "blocks", _set_collectors, lambda tx, to: release_table.move_block(tx, STUDY, BLOCK, to)),
        (ReleaseState, COLLECTOR, "releases", _set_release, lambda tx, to: release_table.move(tx, STUDY, 1, to)),
        (HeldState, PROVIDER, "blocks", _set_providers, lambda tx, to: held_blocks.move(tx, BLOCK, to)),
    ],
    ids=["block", "release", "held block"],
)  # fmt: skip
def test_only_changes_that_are_drawn_are_made(
    make_store: Any, states: type[State], schema: Any, table: str, put: Move, move: Move
) -> None:
    async def course() -> None:
        store = make_store(schema)
        for old in states:
            assert set(old.after) <= set(states)
            for new in states:
                await store.write(lambda tx, old=old: put(tx, old))
                if new in old.after:
                    await store.write(lambda tx, new=new: move(tx, new))
                else:
                    with pytest.raises(IllegalTransition, match=f"{old}.*{new}"):
                        await store.write(lambda tx, new=new: move(tx, new))
                (found,) = await store.read(lambda tx: tx.rows(f"SELECT state FROM {table}"))  # noqa: S608
                assert found == (new if new in old.after else old,)

    asyncio.run(course())
