"""Studies that closed long ago: what is left of them goes, what forbids a second time and what was published stays."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import sqlite3
from typing import Any

import pytest

import trimask
from trimask_cli import owner
from trimask_client import Client
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import Refused
from trimask_core.crypto.keys import SealingKey
from trimask_server.programs.roles import erasers_of
from trimask_server.right.sealing_keys import RingKey, SealingRing, load_ring, save_ring
from trimask_server.runtime.host import collect_forever, collect_garbage
from trimask_server.store.interface import StoreError

NODES = ("collector", "R1", "R2", "L1")
DAY = 24 * 3600 * 1000


def _tables(lab: Any, name: str) -> dict[str, list[tuple[Any, ...]]]:
    file = "collector" if name == "collector" else "left" if name == "L1" else "right"
    with contextlib.closing(sqlite3.connect(lab.folder / name / "data" / f"{file}.sqlite3")) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in names}  # noqa: S608


def _collect(lab: Any, name: str, days: float = 0.0) -> list[bytes]:
    """A round of a node whose clock is so many days ahead; the studies that went."""
    node = lab.node(name)
    later = ManualClock(node.context.clock.now_ms() + round(days * DAY))
    context = dataclasses.replace(node.context, clock=later)
    erasers = erasers_of(context.role)
    found: list[bytes] = lab.on_loop(collect_garbage(context, erasers, node.services.after_collection))
    return found


def test_repro_a_round_that_fails_is_not_the_last(own_lab: Any) -> None:
    """One full disk ended garbage collection until the next restart."""
    rounds = 0

    async def after(_: int) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise StoreError("database or disk is full")
        raise asyncio.CancelledError  # seen enough

    context = own_lab.node("R1").context
    context = dataclasses.replace(context, clock=_AtOnce(context.clock.now_ms()))
    with pytest.raises((asyncio.CancelledError, concurrent.futures.CancelledError)):
        own_lab.on_loop(collect_forever(context, erasers_of("right"), after))
    assert rounds == 2


class _AtOnce(ManualClock):
    async def sleep(self, seconds: float) -> None:
        """Not at all."""


def test_a_closed_study_goes_and_does_not_come_back(own_lab: Any) -> None:
    signed, other = own_lab.open_study(access="token"), own_lab.open_study("Still open")
    study, owner_folder = signed.study, own_lab.folder / "owner"
    text, made = owner.new_token(study, owner_folder, "Grace", ["datasets"], 1 << 60, None)
    _, ended = owner.new_token(study, owner_folder, "Ada", ["datasets"], 1 << 60, None)
    owner.revoke_token(study, owner_folder, ended["id"])
    with Client(signed) as client:
        for hour in range(32):
            client.submit({"hours": hour / 3, "rested": True})
        late = client.prepare({"hours": 1.0, "rested": True})
    owner.close_study(study, owner_folder)
    own_lab.until(lambda: owner.study_status(study).state == "closed")
    assert len(_tables(own_lab, "R1")["submissions"]) == 32
    for name in NODES:
        node = own_lab.node(name)
        if name == "L1":  # it keeps no row, and is not told that a study closed
            own_lab.on_loop(node.context.studies.set_state(study.id, "closed"))
        assert _collect(own_lab, name) == []
        assert _collect(own_lab, name, 29) == []
        assert _collect(own_lab, name, 31) == [study.id]
        assert _collect(own_lab, name, 31) == []
        assert [item.id for item in node.context.studies.all()] == [other.study.id]
        kept = {row[0]: row for row in _tables(own_lab, name)["studies"]}
        assert kept[study.id][1:3] == ("", "collected")
    assert _tables(own_lab, "R1")["submissions"] == []
    assert _tables(own_lab, "R1")["blocks"] == _tables(own_lab, "collector")["blocks"] == []
    assert own_lab.metric("R1", "trimask_collected_studies_total") == 1
    # A second time is refused: by the provider to a device, and by everybody to the owner, also after a restart.
    with Client(signed, attempts=1) as client, pytest.raises(Refused, match="does not know that study"):
        client.send(late)
    own_lab.cluster.stop("R1")
    own_lab.cluster.start("R1")
    with pytest.raises(trimask.errors.Refused, match="cannot begin again"):
        owner.open_study(signed, owner_folder)
    # What was published is still there, and still verifies; a token for it still opens it, and can still be revoked.
    party = study.collector
    with trimask.connect(
        party.address,
        roots=study.tls_roots,
        tls_name=party.tls_name,
        cache=own_lab.folder / "cache",
        token=text,
    ) as connection:
        (info,) = connection.datasets(study.id)
        assert connection.dataset(info.id).rows == 32
        assert owner.tokens(study, owner_folder) == [made]
        owner.revoke_token(study, owner_folder, made["id"])
        with pytest.raises(trimask.errors.Refused, match="revoked"):
            connection.datasets(study.id)


def test_nothing_of_a_study_with_unfinished_releases_goes(own_lab: Any) -> None:
    signed = own_lab.open_study()
    node = own_lab.node("collector")
    own_lab.on_loop(node.context.studies.set_state(signed.study.id, "closed"))

    def answerable(tx: Any) -> None:
        tx.run(
            "INSERT INTO releases (study_id, release_number, row_count, block_count, factor, state)"
            " VALUES (?, 1, 32, 2, ?, 'answerable')",
            (signed.study.id, b"factor"),
        )

    own_lab.on_loop(node.context.database.write(answerable))
    _collect(own_lab, "collector")
    assert _collect(own_lab, "collector", 365) == []
    assert _tables(own_lab, "collector")["releases"][0][4] == b"factor"


def test_an_expired_key_is_destroyed_once_no_row_needs_it(own_lab: Any) -> None:
    node, folder = own_lab.node("R1"), own_lab.folder / "R1"
    signed = own_lab.open_study()
    with Client(signed) as client:
        client.submit({"hours": 1.0, "rested": True})
    now = node.context.clock.now_ms()
    old = dataclasses.replace(load_ring(folder).keys[0], expire_ms=now + DAY)
    node.key_ring.ring = SealingRing([RingKey(SealingKey.generate(), now), old])
    save_ring(folder, node.key_ring.ring)
    secret = old.key.secret_bytes().hex()
    _collect(own_lab, "R1", 2)
    assert secret in (folder / "sealing.keys").read_text()  # a row still needs it
    own_lab.on_loop(node.context.database.write(lambda tx: tx.run("UPDATE submissions SET payload = NULL")))
    _collect(own_lab, "R1", 2)
    assert secret not in (folder / "sealing.keys").read_text()
    assert len(node.key_ring.ring.keys) == 1
