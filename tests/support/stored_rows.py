"""A row in every table of a node's store, for a study, and what a store holds, whichever database is behind it."""

from __future__ import annotations

from typing import Any

from trimask_server.store.interface import Transaction

__all__ = ["OWN_TABLES", "insert", "read_store", "rows_of"]

Row = dict[str, Any]
# What a store keeps about itself.
OWN_TABLES = {"store_facts", "store_migrations", "store_writers"}
# Where `sequence` is a fact and not the database's own count.
_SEQUENCE_IS_DATA = {"audit", "audit_head", "witnessed_heads"}


def rows_of(role: str, study_id: bytes, sequence: int = 1, state: str = "closed") -> list[tuple[str, Row]]:
    """(table, row) for every table. Two studies differ by their ids' first bytes, and by `sequence`."""
    short = study_id[:16]
    common: list[tuple[str, Row]] = [
        ("refusals", {"reason": f"malformed{sequence}", "count": 3}),
        ("studies",
         {"study_id": study_id, "signed_study": "{}", "state": state, "registered_ms": 1, "closed_ms": None}),
        ("proposals",
         {"study_id": study_id, "signed_study": "{}", "decision": "approved", "approval": "{}", "reason": "",
          "propose_time_ms": 1}),
        ("data_keys", {"study_id": study_id, "scope": "intake", "master_id": "m", "wrapped": b"w"}),
        ("audit",
         {"sequence": sequence, "time_ms": 1, "kind": "study_closed", "details": f'{{"study":"{study_id.hex()}"}}',
          "previous": b"p", "hash": b"h", "signature": b"s"}),
        ("audit_head", {"id": sequence, "sequence": sequence, "hash": b"h"}),
    ]  # fmt: skip
    return common + (_collector(study_id, short) if role == "collector" else _provider(study_id, short))


def _provider(study_id: bytes, short: bytes) -> list[tuple[str, Row]]:
    rows: list[tuple[str, Row]] = [
        ("submissions",
         {"study_id": study_id, "submission_id": bytes([i]) * 16, "payload": b"p" if i else None, "payload_hash": b"h",
          "receive_time_ms": i, "block_id": short if i == 1 else None, "withdrawn_ms": None if i else 9})
        for i in range(3)
    ]  # fmt: skip
    rows += [
        ("blocks",
         {"block_id": short, "study_id": study_id, "submission_ids": bytes([1]) * 16, "state": "started"}),
        ("invitations_made", {"study_id": study_id, "count": 2}),
        ("sent_together", {"study_id": study_id, "part": 0, "count": 2}),
        ("invitations", {"study_id": study_id, "invitation_id": b"i" * 32, "submission_id": bytes([1]) * 16}),
        ("moments_batches",
         {"study_id": study_id, "batch_id": short, "state": "added", "accepted_hash": b"h", "accepted_count": 1,
          "accepted": b"\1", "refused": "{}", "signature": b"s", "total": b"t", "release_number": None}),
        ("row_checks",
         {"study_id": study_id, "check_id": short, "submission_ids": bytes([1]) * 16, "held": b"\1", "commitments": b"c",
          "seed": b"s"}),
        ("draws", {"study_id": study_id, "number": 1, "own": b"o"}),
        ("held_contents",
         {"study_id": study_id, "block_id": short, "component": 1, "number": 1, "plan_hash": b"h", "row_count": 1,
          "content": b"c", "fixed": 1}),
        ("moments_heads", {"study_id": study_id, "entries": 1, "digest": b"d"}),
        ("restored_ledgers", {"study_id": study_id, "lost": 0}),
    ]  # fmt: skip
    return rows


def _collector(study_id: bytes, short: bytes) -> list[tuple[str, Row]]:
    # Planned and published in an order that is not that of their ids.
    rows: list[tuple[str, Row]] = [
        ("blocks",
         {"block_id": bytes([i]) + short[1:], "study_id": study_id, "submission_ids": b"ids", "row_count": 9,
          "state": "erased", "attempts": 2, "release_number": 1, "accepted_count": None, "accepted": None})
        for i in (5, 2, 8)
    ]  # fmt: skip
    rows += [
        ("datasets",
         {"dataset_id": f"{name}-{short.hex()}", "study_id": study_id, "release_number": i, "manifest": b"{}",
          "signature": b"s"})
        for i, name in enumerate(("z", "a"))
    ]  # fmt: skip
    rows += [
        ("tokens",
         {"token_hash": name.encode() + short, "study_id": study_id, "name": name, "scopes": scopes,
          "create_time_ms": 1, "expire_time_ms": 1 << 60, "revoke_time_ms": revoked})
        for name, scopes, revoked in (
            ("live", "datasets,releases", 0), ("revoked", "datasets", 5), ("asker", "releases", 0)
        )
    ]  # fmt: skip
    rows += [
        ("complete_by_day", {"study_id": study_id, "day": 20000, "complete": 5}),
        ("invited", {"study_id": study_id, "made_ms": 1, "count": 9, "expire_ms": 2}),
        ("close_orders", {"study_id": study_id, "content": b"order"}),
        ("scheduled_opens", {"study_id": study_id, "open_ms": 3, "signed_study": b"{}"}),
    ]
    return [
        *rows,
        ("releases",
         {"study_id": study_id, "release_number": 1, "row_count": 9, "block_count": 1, "factor": b"f",
          "state": "published"}),
        ("release_answers",
         {"study_id": study_id, "request_id": b"r", "fingerprint": b"f", "mechanism": "sum", "epsilon": 0.5,
          "delta": 1e-7, "mu": None, "reserve_time_ms": 1, "state": "answered", "answer": b"a", "signature": b"s",
          "question": b"q"}),
        ("row_checks",
         {"study_id": study_id, "check_id": short, "content": b"c", "state": "open"}),
        ("draws", {"study_id": study_id, "number": 1, "content": b"c", "state": "open"}),
        ("notes", {"study_id": study_id, "note": "n"}),
        ("progress", {"study_id": study_id, "pending_rows": 7}),
        ("refused_reports", {"study_id": study_id, "reason": "bad_bits", "count": 2}),
        ("provider_generations", {"study_id": study_id, "role": "R1", "generation": b"g"}),
        ("jobs",
         {"kind": "drive", "job_key": study_id, "state": "done", "attempts": 1, "fence": 1, "worker": None, "due_ms": 1}),
        ("witnessed_heads", {"identity": b"i" + short, "sequence": 1, "hash": b"h", "signature": b"s"}),
    ]  # fmt: skip


def insert(tx: Transaction, rows: list[tuple[str, Row]]) -> None:
    """Write the rows."""
    for table, row in rows:
        marks = ", ".join("?" * len(row))
        tx.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))  # noqa: S608


def read_store(tx: Transaction, kind: str) -> dict[str, list[Row]]:
    """Every table's rows, without the numbers the database gave them."""
    if kind == "sqlite":
        columns = tx.rows(
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
            " WHERE m.type = 'table' AND m.name <> 'sqlite_sequence' ORDER BY m.name, c.cid"
        )
    else:
        columns = tx.rows(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
            " ORDER BY table_name, ordinal_position"
        )
    tables: dict[str, list[str]] = {}
    for table, column in columns:
        tables.setdefault(table, []).append(column)
    found = {}
    for table, names in tables.items():
        order = " ORDER BY sequence" if "sequence" in names else ""
        counted = set() if table in _SEQUENCE_IS_DATA else {"sequence"}
        rows = tx.rows(f"SELECT {', '.join(names)} FROM {table}{order}")  # noqa: S608
        found[table] = [
            {name: value for name, value in zip(names, row, strict=True) if name not in counted}
            for row in rows
        ]
    return found
