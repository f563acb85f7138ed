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

# 2026-11-16. The audit log (one row of audit_head is what its writers queue at), and studies on their way to approval.
_GOVERNANCE = """
CREATE TABLE audit (
  sequence INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  details TEXT NOT NULL,
  previous BLOB NOT NULL,
  hash BLOB NOT NULL,
  signature BLOB NOT NULL
);
CREATE TRIGGER audit_stays BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TABLE audit_head (id INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, hash BLOB NOT NULL);
CREATE TABLE proposals (
  study_id BLOB PRIMARY KEY,
  signed_study TEXT NOT NULL,
  decision TEXT NOT NULL,
  approval TEXT NOT NULL,
  reason TEXT NOT NULL,
  propose_time_ms INTEGER NOT NULL
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
    # 2026-11-16. An invitation belongs to the first submission that came with it, for ever.
    _GOVERNANCE
    + """
CREATE TABLE invitations (
  study_id BLOB NOT NULL,
  invitation_id BLOB NOT NULL,
  submission_id BLOB NOT NULL,
  PRIMARY KEY (study_id, invitation_id)
);
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
    # 2026-11-16. How many invitations were made; tokens by their hash; the last audit head of every node that was seen.
    _GOVERNANCE
    + """
CREATE TABLE invitations_made (study_id BLOB PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE tokens (
  token_hash BLOB PRIMARY KEY,
  study_id BLOB NOT NULL,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  create_time_ms INTEGER NOT NULL,
  expire_time_ms INTEGER NOT NULL,
  revoke_time_ms INTEGER NOT NULL
);
CREATE TABLE witnessed_heads (
  identity BLOB PRIMARY KEY,
  sequence INTEGER NOT NULL,
  hash BLOB NOT NULL,
  signature BLOB NOT NULL
);
""",
)
