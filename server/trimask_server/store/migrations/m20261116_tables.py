"""2026-11-16. The first tables.

A row's payload stays sealed on disk; after its block is pooled the payload is NULL and the id and hash remain, so that
the submission cannot come a second time. At the collector a block's A X is never here: only the release's running factor.
"""

from __future__ import annotations

from trimask_server.store.migration import portable

__all__ = ["COLLECTOR", "PROVIDER"]

_COMMON = """
CREATE TABLE refusals (reason TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE studies (
  study_id BLOB PRIMARY KEY,
  signed_study TEXT NOT NULL,
  state TEXT NOT NULL,
  registered_ms INTEGER NOT NULL
);
"""

PROVIDER = portable(
    "2026-11-16 tables",
    _COMMON
    + """
CREATE TABLE submissions (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  study_id BLOB NOT NULL,
  submission_id BLOB NOT NULL,
  payload BLOB,
  payload_hash BLOB NOT NULL,
  receive_time_ms INTEGER NOT NULL,
  block_id BLOB,
  UNIQUE (study_id, submission_id)
);
CREATE INDEX submissions_pending ON submissions (study_id, sequence) WHERE block_id IS NULL;
CREATE INDEX submissions_block ON submissions (block_id) WHERE block_id IS NOT NULL;
CREATE TABLE blocks (
  block_id BLOB PRIMARY KEY,
  study_id BLOB NOT NULL,
  submission_ids BLOB NOT NULL,
  erased INTEGER NOT NULL DEFAULT 0
);
""",
)

COLLECTOR = portable(
    "2026-11-16 tables",
    _COMMON
    + """
CREATE TABLE blocks (
  block_id BLOB PRIMARY KEY,
  study_id BLOB NOT NULL,
  submission_ids BLOB NOT NULL,
  row_count INTEGER NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  release_number INTEGER
);
CREATE TABLE releases (
  study_id BLOB NOT NULL,
  release_number INTEGER NOT NULL,
  row_count INTEGER NOT NULL,
  block_count INTEGER NOT NULL,
  factor BLOB,
  state TEXT NOT NULL,
  PRIMARY KEY (study_id, release_number)
);
CREATE TABLE datasets (
  dataset_id TEXT PRIMARY KEY,
  study_id BLOB NOT NULL,
  release_number INTEGER NOT NULL,
  manifest BLOB NOT NULL,
  signature BLOB NOT NULL
);
CREATE TABLE notes (study_id BLOB PRIMARY KEY, note TEXT NOT NULL);
""",
)
