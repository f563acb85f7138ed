"""From every earlier revision, with data in it, to the newest, on both databases."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from trimask_core.errors import ConfigError
from trimask_server.store.interface import Transaction
from trimask_server.store.migration import Migration, append_only, portable
from trimask_server.store.schema import COLLECTOR, PROVIDER

ROLES = {"provider": PROVIDER, "collector": COLLECTOR}
STUDY = b"s" * 32
# What each revision could hold, as (step it came with, table, row). A new step with a table adds its own.
ROWS: dict[str, list[tuple[int, str, dict[str, Any]]]] = {
    "provider": [
        (1, "refusals", {"reason": "malformed", "count": 3}),
        (1, "studies", {"study_id": STUDY, "signed_study": "{}", "state": "open", "registered_ms": 1}),
        *(
            (1, "submissions",
             {"study_id": STUDY, "submission_id": bytes([i]) * 16, "payload": b"p", "payload_hash": b"h",
              "receive_time_ms": i, "block_id": b"b" * 16 if i < 2 else None})
            for i in range(4)
        ),
        (1, "blocks", {"block_id": b"b" * 16, "study_id": STUDY, "submission_ids": b"ids", "erased": 0}),
        (2, "data_keys", {"study_id": STUDY, "scope": "intake", "master_id": "m", "wrapped": b"w"}),
        (2, "jobs", {"kind": "k", "job_key": b"j", "state": "waiting", "attempts": 1, "fence": 1, "due_ms": 1}),
        (3, "submissions",
         {"study_id": STUDY, "submission_id": b"e" * 16, "payload": b"p", "payload_hash": b"h", "receive_time_ms": 9,
          "block_id": None, "encrypted": 1}),
        (4, "submissions",
         {"study_id": STUDY, "submission_id": b"w" * 16, "payload": None, "payload_hash": b"", "receive_time_ms": 9,
          "withdrawn_ms": 9}),
        (5, "audit",
         {"sequence": 1, "time_ms": 1, "kind": "k", "details": "{}", "previous": b"p", "hash": b"h", "signature": b"s"}),
        (5, "audit_head", {"id": 1, "sequence": 1, "hash": b"h"}),
        (5, "proposals",
         {"study_id": STUDY, "signed_study": "{}", "decision": "waiting", "approval": "", "reason": "",
          "propose_time_ms": 1}),
        (5, "invitations", {"study_id": STUDY, "invitation_id": b"i", "submission_id": b"s"}),
        (6, "closures", {"study_id": STUDY, "closed_ms": 7, "collected_ms": None}),
    ],
    "collector": [
        (1, "refusals", {"reason": "malformed", "count": 3}),
        (1, "studies", {"study_id": STUDY, "signed_study": "{}", "state": "open", "registered_ms": 1}),
        # Planned in an order that is not that of their ids.
        *(
            (1, "blocks",
             {"block_id": bytes([i]) * 16, "study_id": STUDY, "submission_ids": b"ids", "row_count": 9,
              "state": "planned", "attempts": 2, "release_number": None})
            for i in (5, 2, 8)
        ),
        (1, "releases",
         {"study_id": STUDY, "release_number": 1, "row_count": 9, "block_count": 1, "factor": b"f", "state": "open"}),
        *(
            (1, "datasets",
             {"dataset_id": name, "study_id": STUDY, "release_number": i, "manifest": b"{}", "signature": b"s"})
            for i, name in enumerate(("z-1", "a-2"))
        ),
        (1, "notes", {"study_id": STUDY, "note": "n"}),
        (2, "release_answers",
         {"study_id": STUDY, "request_id": b"r", "fingerprint": b"f", "mechanism": "sum", "epsilon": 0.5,
          "delta": 1e-7, "mu": None, "reserve_time_ms": 1, "state": "answered", "answer": b"a", "signature": b"s"}),
        (3, "data_keys", {"study_id": STUDY, "scope": "release:1", "master_id": "m", "wrapped": b"w"}),
        (3, "jobs", {"kind": "k", "job_key": b"j", "state": "waiting", "attempts": 1, "fence": 1, "due_ms": 1}),
        (3, "provider_generations", {"study_id": STUDY, "role": "R1", "generation": b"g"}),
        (4, "progress", {"study_id": STUDY, "pending_rows": 7}),
        (5, "audit",
         {"sequence": 1, "time_ms": 1, "kind": "k", "details": "{}", "previous": b"p", "hash": b"h", "signature": b"s"}),
        (5, "audit_head", {"id": 1, "sequence": 1, "hash": b"h"}),
        (5, "proposals",
         {"study_id": STUDY, "signed_study": "{}", "decision": "waiting", "approval": "", "reason": "",
          "propose_time_ms": 1}),
        (5, "invitations_made", {"study_id": STUDY, "count": 2}),
        (5, "tokens",
         {"token_hash": b"t", "study_id": STUDY, "name": "n", "scopes": "datasets", "create_time_ms": 1,
          "expire_time_ms": 2, "revoke_time_ms": 0}),
        (5, "witnessed_heads", {"identity": b"i", "sequence": 1, "hash": b"h", "signature": b"s"}),
        (6, "closures", {"study_id": STUDY, "closed_ms": 7, "collected_ms": None}),
    ],
}  # fmt: skip
# Released steps never change: the SHA-256 of what each runs. A step is added here with its release.
RELEASED = {
    ("provider", 1): "8564183ef3feafbd4b97f469b42ed4a17328563d5bcf02da99c76db27345f3ac",
    ("provider", 2): "9d313e2fcbea7742a0177e34fd99a0f04cb5a0053da6fcc9360cf5f4044f0544",
    ("provider", 3): "340d23e6e7b27864486dd771ee636efc63141543075f83d1c276e75be4e03f1a",
    ("provider", 4): "6a45d5f50106d90d4612e7c62492b31d3760373613a54fd9b0a124f9d3a441d6",
    ("provider", 5): "059622a8f0f84355f1d7e4eb3db91b327e6e90786433fa1bc1d27025886524d5",
    ("provider", 6): "94c7ee5501fa957670b0a06cf0c39526e1183524adfd35d3cd4889970f67f5ef",
    ("collector", 1): "2527d459c135cfce5e2e4c28c67e78fd2fd127a415a371fc36624dd3d23d0f36",
    ("collector", 2): "8a98c5c529438d11f977d23190c2b619f22e2027bf586e8653b2322e92d1878e",
    ("collector", 3): "9742836d9ae48bab003766a95026beb3d553fd58c0823244e259b227c8341072",
    ("collector", 4): "807d1979e338a48b3a736218b1d079476da33ef9c49cc1f61469bd03f971f016",
    ("collector", 5): "33fc579c8230f85528ebaac790ab2872c6025dc7bb583dc56a1bdec91d1a597c",
    ("collector", 6): "94c7ee5501fa957670b0a06cf0c39526e1183524adfd35d3cd4889970f67f5ef",
}


def _insert(tx: Transaction, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    tx.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))  # noqa: S608


@pytest.mark.parametrize("role", ROLES)
def test_every_earlier_revision_comes_to_the_newest_with_its_data(make_store: Any, role: str) -> None:
    steps = ROLES[role]
    assert {step for step, _, _ in ROWS[role]} == set(range(1, len(steps) + 1)), (
        "each step's tables are tried"
    )
    for revision in range(1, len(steps) + 1):
        schema = f"from_{revision}"
        old = make_store(steps[:revision], schema)
        held = [(table, row) for step, table, row in ROWS[role] if step <= revision]

        async def course(old: Any = old, held: Any = held, schema: str = schema) -> None:
            for table, row in held:
                await old.write(lambda tx, table=table, row=row: _insert(tx, table, row))
            old.close()
            new = make_store(steps, schema)
            for table, row in held:
                found = await new.read(
                    lambda tx, table=table, row=row: tx.rows(f"SELECT {', '.join(row)} FROM {table}")  # noqa: S608
                )
                assert tuple(row.values()) in found
                assert len(found) == sum(table == other for other, _ in held)
            if role == "collector":
                order = "SELECT {} FROM {} ORDER BY sequence"
                blocks = await new.read(lambda tx: tx.rows(order.format("block_id", "blocks")))
                assert [block[0][0] for block in blocks] == [5, 2, 8]
                datasets = await new.read(lambda tx: tx.rows(order.format("dataset_id", "datasets")))
                assert datasets == [("z-1",), ("a-2",)]

        asyncio.run(course())
        assert make_store(steps, schema).generation == make_store(steps, schema).generation


@pytest.mark.parametrize(("role", "number"), RELEASED)
def test_released_steps_are_never_edited(role: str, number: int) -> None:
    step = ROLES[role][number - 1]
    digest = hashlib.sha256((step.sqlite + step.postgresql).encode()).hexdigest()
    assert digest == RELEASED[role, number], "append a step instead"


@pytest.mark.parametrize("role", ROLES)
def test_steps_are_dated_and_in_order(role: str) -> None:
    names = [step.name for step in ROLES[role]]
    assert len(set(names)) == len(names)
    dates = [name.split(" ", 1)[0] for name in names]
    assert dates == sorted(dates)
    assert all(len(date) == 10 and date.startswith("20") for date in dates)


def test_two_programs_that_start_at_once_migrate_once(make_store: Any) -> None:
    def start(_: int) -> bytes:
        return bytes(make_store(PROVIDER).generation)

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(start, range(4)))) == 1


def test_a_step_that_fails_leaves_the_store_as_it_was(make_store: Any) -> None:
    make_store(["CREATE TABLE t (x INTEGER)"])
    broken = Migration(
        "broken", "CREATE TABLE u (x INTEGER); NONSENSE;", "CREATE TABLE u (x bigint); NONSENSE;"
    )
    with pytest.raises(Exception, match=r"(?i)nonsense"):
        make_store(["CREATE TABLE t (x INTEGER)", broken])
    store = make_store(["CREATE TABLE t (x INTEGER)", "CREATE TABLE u (x INTEGER)"])
    assert asyncio.run(store.read(lambda tx: tx.rows("SELECT * FROM u"))) == []


def test_an_append_only_table_stays(make_store: Any) -> None:
    step = portable("log", "CREATE TABLE log (x INTEGER);") + append_only("log", "the log stays")
    store = make_store([step])

    async def course() -> None:
        await store.write(lambda tx: tx.run("INSERT INTO log VALUES (1)"))
        for statement in ("UPDATE log SET x = 2", "DELETE FROM log"):
            with pytest.raises(Exception, match="the log stays"):
                await store.write(lambda tx, statement=statement: tx.run(statement))
        assert await store.read(lambda tx: tx.rows("SELECT x FROM log")) == [(1,)]

    asyncio.run(course())


def test_the_words_are_translated_whole() -> None:
    step = portable("x", "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, real_name BLOB, b REAL)")
    assert step.postgresql == (
        "CREATE TABLE t (a bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, real_name bytea, b double precision)"
    )


def test_a_newer_file_is_refused_by_name(make_store: Any) -> None:
    make_store([*COLLECTOR, "CREATE TABLE later (x INTEGER)"])
    with pytest.raises(ConfigError, match="newer version"):
        make_store(COLLECTOR)
