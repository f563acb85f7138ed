"""2026-11-16. The audit log, studies on their way to approval, invitations and tokens.

One row of audit_head is what the log's writers queue at. A provider has the invitations that were used, each bound to the
first submission that came with it, for ever; a collector has how many it made, tokens by their hash, and the last audit
head it saw of every node.
"""

from __future__ import annotations

from trimask_server.store.migration import append_only, portable

__all__ = ["COLLECTOR", "PROVIDER"]

_NAME = "2026-11-16 governance"
_COMMON = """
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
CREATE TABLE proposals (
  study_id BLOB PRIMARY KEY,
  signed_study TEXT NOT NULL,
  decision TEXT NOT NULL,
  approval TEXT NOT NULL,
  reason TEXT NOT NULL,
  propose_time_ms INTEGER NOT NULL
);
"""
_STAYS = append_only("audit", "the audit log is append-only")

PROVIDER = (
    portable(
        _NAME,
        _COMMON
        + """
CREATE TABLE invitations (
  study_id BLOB NOT NULL,
  invitation_id BLOB NOT NULL,
  submission_id BLOB NOT NULL,
  PRIMARY KEY (study_id, invitation_id)
);
""",
    )
    + _STAYS
)

COLLECTOR = (
    portable(
        _NAME,
        _COMMON
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
    + _STAYS
)
