"""2026-11-16. The tables of the first release.

A row's payload is sealed and encrypted; after its block is pooled the payload is NULL and the id and hash remain, so that
the submission cannot come a second time. A withdrawn row keeps its id alone. States of blocks and releases are in
`store/release_table.py` and `held_blocks.py`. At the collector a block's A X is never here: only the
release's running factor. `sequence` is the order in which rows came, blocks were planned and datasets were published.

Of a block that it unmasks a provider has its blinded component, encrypted, until the block is pooled; from the moment it is
`fixed` the node delivers these bytes and no others, and the mark stays.

Of a batch of the moments suite a provider has what was decided, signed, and its share of the sum of accepted reports;
`accepted` has a byte, 1 or 0, for each report in ascending order of ids (at the collector too, NULL in the rows suite);
moments_heads says how far the ledger of deliveries, kept beside the keys, had come; restored_ledgers, which studies were
here when the store was restored, and whether their ledger was `lost` then, for ever.

A row of the rows suite is in one check for ever: `verdict` is 1 if it was accepted, 0 if it was refused and erased;
`draw_number` is that of the draw which has fixed it, until it is in a block or goes back.
row_checks has, at a provider, which rows it bound and what was drawn to check them with; at the collector the check as far
as it has come, in the words of the wire. draws is the same of draws; a provider has the last one only.

One row of audit_head is what the log's writers queue at. A provider has the invitations that were used, each bound to the
first submission that came with it, and how many it signed; a collector has tokens by their hash, and the last audit head it
saw of every node. What is in the budget ledger counts for ever: the triggers hold even if the program does not.
"""

from __future__ import annotations

from trimask_server.store.interface import Migration, append_only, portable

_COMMON = """
CREATE TABLE refusals (reason TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE studies (
  study_id BLOB PRIMARY KEY,
  signed_study TEXT NOT NULL,
  state TEXT NOT NULL,
  turn INTEGER NOT NULL DEFAULT 0,
  registered_ms INTEGER NOT NULL,
  closed_ms INTEGER
);
CREATE TABLE proposals (
  study_id BLOB PRIMARY KEY,
  signed_study TEXT NOT NULL,
  decision TEXT NOT NULL,
  approval TEXT NOT NULL,
  reason TEXT NOT NULL,
  propose_time_ms INTEGER NOT NULL
);
CREATE TABLE data_keys (
  study_id BLOB NOT NULL,
  scope TEXT NOT NULL,
  master_id TEXT NOT NULL,
  wrapped BLOB NOT NULL,
  PRIMARY KEY (study_id, scope)
);
CREATE TABLE audit (
  sequence INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  details TEXT NOT NULL,
  previous BLOB NOT NULL,
  hash BLOB NOT NULL,
  signature BLOB NOT NULL
);
CREATE TABLE audit_head (id INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, hash BLOB NOT NULL);
"""
_AUDIT_STAYS = append_only("audit", "the audit log is append-only")

PROVIDER = (
    portable(
        "2026-11-16 initial, provider",
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
  withdrawn_ms INTEGER,
  check_id BLOB,
  verdict INTEGER,
  draw_number INTEGER,
  complete INTEGER NOT NULL DEFAULT 0,
  UNIQUE (study_id, submission_id)
);
CREATE INDEX submissions_pending ON submissions (study_id, sequence) WHERE block_id IS NULL;
CREATE INDEX submissions_block ON submissions (block_id) WHERE block_id IS NOT NULL;
CREATE TABLE blocks (
  block_id BLOB PRIMARY KEY,
  study_id BLOB NOT NULL,
  submission_ids BLOB NOT NULL,
  state TEXT NOT NULL
);
CREATE TABLE draws (
  study_id BLOB PRIMARY KEY,
  number INTEGER NOT NULL,
  own BLOB NOT NULL,
  lists BLOB,
  verdicts BLOB,
  votes BLOB,
  over INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE invitations_made (study_id BLOB PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE invitations (
  study_id BLOB NOT NULL,
  invitation_id BLOB NOT NULL,
  submission_id BLOB NOT NULL,
  PRIMARY KEY (study_id, invitation_id)
);
CREATE TABLE moments_batches (
  study_id BLOB NOT NULL,
  batch_id BLOB NOT NULL,
  state TEXT NOT NULL,
  accepted_hash BLOB NOT NULL,
  accepted_count INTEGER NOT NULL,
  accepted BLOB NOT NULL,
  refused TEXT NOT NULL,
  signature BLOB NOT NULL,
  total BLOB,
  release_number INTEGER,
  PRIMARY KEY (study_id, batch_id)
);
CREATE TABLE row_checks (
  study_id BLOB NOT NULL,
  check_id BLOB NOT NULL,
  submission_ids BLOB NOT NULL,
  held BLOB NOT NULL,
  commitments BLOB,
  seed BLOB,
  decided INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (study_id, check_id)
);
CREATE TABLE held_contents (
  study_id BLOB NOT NULL,
  block_id BLOB NOT NULL,
  component INTEGER NOT NULL,
  number INTEGER NOT NULL,
  plan_hash BLOB NOT NULL,
  row_count INTEGER NOT NULL,
  content BLOB,
  fixed INTEGER NOT NULL,
  PRIMARY KEY (study_id, block_id, component)
);
CREATE TABLE moments_heads (study_id BLOB PRIMARY KEY, entries INTEGER NOT NULL, digest BLOB NOT NULL);
CREATE TABLE restored_ledgers (study_id BLOB PRIMARY KEY, lost INTEGER NOT NULL);
""",
    )
    + _AUDIT_STAYS
)

_BUDGET_STAYS = Migration(
    "",
    """CREATE TRIGGER release_answers_stay BEFORE DELETE ON release_answers
WHEN OLD.state <> 'reserved'
BEGIN SELECT RAISE(ABORT, 'an answer stays in the ledger'); END;
CREATE TRIGGER release_answers_cost BEFORE UPDATE ON release_answers
WHEN OLD.state <> 'reserved' OR OLD.epsilon IS NOT NEW.epsilon OR OLD.delta IS NOT NEW.delta OR OLD.mu IS NOT NEW.mu
  OR OLD.study_id <> NEW.study_id OR OLD.request_id <> NEW.request_id OR OLD.fingerprint <> NEW.fingerprint
  OR OLD.question <> NEW.question
BEGIN SELECT RAISE(ABORT, 'what was paid does not change'); END;
""",
    """
CREATE FUNCTION release_answers_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.state <> 'reserved' THEN RAISE EXCEPTION 'an answer stays in the ledger'; END IF;
    RETURN OLD;
  END IF;
  IF OLD.state <> 'reserved' OR OLD.epsilon IS DISTINCT FROM NEW.epsilon OR OLD.delta IS DISTINCT FROM NEW.delta
    OR OLD.mu IS DISTINCT FROM NEW.mu OR OLD.study_id <> NEW.study_id OR OLD.request_id <> NEW.request_id
    OR OLD.fingerprint <> NEW.fingerprint OR OLD.question <> NEW.question
  THEN RAISE EXCEPTION 'what was paid does not change'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER release_answers_guard BEFORE UPDATE OR DELETE ON release_answers
FOR EACH ROW EXECUTE FUNCTION release_answers_guard();
""",
)

COLLECTOR = (
    portable(
        "2026-11-16 initial, collector",
        _COMMON
        + """
CREATE TABLE blocks (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  block_id BLOB NOT NULL UNIQUE,
  study_id BLOB NOT NULL,
  submission_ids BLOB NOT NULL,
  row_count INTEGER NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  why TEXT NOT NULL DEFAULT '',
  release_number INTEGER,
  accepted_count INTEGER,
  accepted BLOB,
  bound BLOB
);
CREATE INDEX blocks_study ON blocks (study_id, sequence);
CREATE INDEX blocks_state ON blocks (study_id, state, sequence);
CREATE TABLE row_checks (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  study_id BLOB NOT NULL,
  check_id BLOB NOT NULL UNIQUE,
  content BLOB NOT NULL,
  state TEXT NOT NULL
);
CREATE TABLE draws (
  study_id BLOB NOT NULL,
  number INTEGER NOT NULL,
  content BLOB NOT NULL,
  state TEXT NOT NULL,
  abandon_order BLOB,
  PRIMARY KEY (study_id, number)
);
CREATE TABLE releases (
  study_id BLOB NOT NULL,
  release_number INTEGER NOT NULL,
  row_count INTEGER NOT NULL,
  block_count INTEGER NOT NULL,
  factor BLOB,
  state TEXT NOT NULL,
  refused TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (study_id, release_number)
);
CREATE TABLE datasets (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  dataset_id TEXT NOT NULL UNIQUE,
  study_id BLOB NOT NULL,
  release_number INTEGER NOT NULL,
  manifest BLOB NOT NULL,
  signature BLOB NOT NULL
);
CREATE TABLE release_answers (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  study_id BLOB NOT NULL,
  request_id BLOB NOT NULL,
  fingerprint BLOB NOT NULL,
  question BLOB NOT NULL,
  mechanism TEXT NOT NULL,
  epsilon REAL,
  delta REAL,
  mu REAL,
  reserve_time_ms INTEGER NOT NULL,
  state TEXT NOT NULL,
  answer BLOB,
  signature BLOB,
  UNIQUE (study_id, request_id),
  UNIQUE (study_id, question)
);
CREATE TABLE notes (study_id BLOB PRIMARY KEY, note TEXT NOT NULL);
CREATE TABLE progress (
  study_id BLOB PRIMARY KEY,
  pending_rows INTEGER NOT NULL
);
CREATE TABLE refused_reports (
  study_id BLOB NOT NULL,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (study_id, reason)
);
CREATE TABLE provider_generations (
  study_id BLOB NOT NULL,
  role TEXT NOT NULL,
  generation BLOB NOT NULL,
  PRIMARY KEY (study_id, role)
);
CREATE TABLE jobs (
  kind TEXT NOT NULL,
  job_key BLOB NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  worker TEXT,
  due_ms INTEGER NOT NULL,
  PRIMARY KEY (kind, job_key)
);
CREATE INDEX jobs_due ON jobs (kind, due_ms) WHERE state = 'waiting';
CREATE TABLE tokens (
  token_hash BLOB PRIMARY KEY,
  study_id BLOB NOT NULL,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  create_time_ms INTEGER NOT NULL,
  expire_time_ms INTEGER NOT NULL,
  revoke_time_ms INTEGER NOT NULL
);
CREATE TABLE complete_by_day (
  study_id BLOB NOT NULL,
  day INTEGER NOT NULL,
  complete INTEGER NOT NULL,
  PRIMARY KEY (study_id, day)
);
CREATE TABLE invited (
  study_id BLOB NOT NULL,
  made_ms INTEGER NOT NULL,
  count INTEGER NOT NULL,
  expire_ms INTEGER NOT NULL
);
CREATE TABLE close_orders (study_id BLOB PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE scheduled_opens (study_id BLOB PRIMARY KEY, open_ms INTEGER NOT NULL, signed_study BLOB NOT NULL);
CREATE TABLE witnessed_heads (
  identity BLOB PRIMARY KEY,
  sequence INTEGER NOT NULL,
  hash BLOB NOT NULL,
  signature BLOB NOT NULL
);
""",
    )
    + _AUDIT_STAYS
    + _BUDGET_STAYS
)
