"""2026-11-16. The budget ledger. What is in it counts for ever: the triggers hold even if the program does not."""

from __future__ import annotations

from trimask_server.store.migration import Migration, portable

__all__ = ["COLLECTOR"]

COLLECTOR = portable(
    "2026-11-16 budget ledger",
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
""",
) + Migration(
    "",
    """CREATE TRIGGER release_answers_stay BEFORE DELETE ON release_answers WHEN OLD.state <> 'reserved'
BEGIN SELECT RAISE(ABORT, 'an answer stays in the ledger'); END;
CREATE TRIGGER release_answers_cost BEFORE UPDATE ON release_answers
WHEN OLD.state <> 'reserved' OR OLD.epsilon IS NOT NEW.epsilon OR OLD.delta IS NOT NEW.delta OR OLD.mu IS NOT NEW.mu
  OR OLD.study_id <> NEW.study_id OR OLD.request_id <> NEW.request_id OR OLD.fingerprint <> NEW.fingerprint
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
    OR OLD.fingerprint <> NEW.fingerprint
  THEN RAISE EXCEPTION 'what was paid does not change'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER release_answers_guard BEFORE UPDATE OR DELETE ON release_answers
FOR EACH ROW EXECUTE FUNCTION release_answers_guard();
""",
)
