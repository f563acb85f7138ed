"""The tables of each kind of node, as ordered migrations: append, never edit."""

from __future__ import annotations

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

# 2026-11-16. A row's payload stays sealed on disk; after its block is pooled the payload is NULL and the id and hash
# remain, so that the submission cannot come a second time.
PROVIDER = (
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
    # 2026-11-16. Withdrawal. A withdrawn row keeps its id alone. A plan that another provider declined is cancelled, but
    # never one whose masking has begun here; of plans from before this was written down, that is assumed.
    """
ALTER TABLE submissions ADD COLUMN withdrawn_ms INTEGER;
ALTER TABLE blocks ADD COLUMN started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE blocks ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
UPDATE blocks SET started = 1;
""",
)

# 2026-11-16. A block's A X is never here: only the release's running factor.
COLLECTOR = (
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
    # 2026-11-16. The budget ledger. What is in it counts for ever: the triggers hold even if the program does not.
    """
CREATE TABLE release_answers (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  study_id BLOB NOT NULL,
  request_id BLOB NOT NULL,
  fingerprint BLOB NOT NULL,
  mechanism TEXT NOT NULL,
  epsilon REAL,
  delta REAL,
  mu REAL,
  reserve_time_ms INTEGER NOT NULL,
  state TEXT NOT NULL,
  answer BLOB,
  signature BLOB,
  UNIQUE (study_id, request_id)
);
CREATE TRIGGER release_answers_stay BEFORE DELETE ON release_answers WHEN OLD.state <> 'reserved'
BEGIN SELECT RAISE(ABORT, 'an answer stays in the ledger'); END;
CREATE TRIGGER release_answers_cost BEFORE UPDATE ON release_answers
WHEN OLD.state <> 'reserved' OR OLD.epsilon IS NOT NEW.epsilon OR OLD.delta IS NOT NEW.delta OR OLD.mu IS NOT NEW.mu
  OR OLD.study_id <> NEW.study_id OR OLD.request_id <> NEW.request_id OR OLD.fingerprint <> NEW.fingerprint
BEGIN SELECT RAISE(ABORT, 'what was paid does not change'); END;
""",
)
