"""The tables of a local store, and how a store of an earlier version gets them."""

_TOKENS = """
CREATE TABLE IF NOT EXISTS tokens (key TEXT PRIMARY KEY, version TEXT, sealed TEXT, until INTEGER, expires_at INTEGER,
  accesses INTEGER DEFAULT 0, accessed_at INTEGER, renewed_until INTEGER);
"""
_KEY_VALUES = """
CREATE TABLE IF NOT EXISTS key_values (bucket TEXT, key TEXT, value TEXT, revision TEXT, expires_at INTEGER,
  PRIMARY KEY (bucket, key));
"""
_TRIGGERS = """
CREATE TABLE IF NOT EXISTS triggers (path TEXT, name TEXT, kind TEXT, version INTEGER, digest TEXT, enabled INTEGER,
  source TEXT, payload TEXT, state TEXT, revision TEXT, PRIMARY KEY (path, name));
CREATE TABLE IF NOT EXISTS firings (path TEXT, name TEXT, at INTEGER, occurrence TEXT, result TEXT, execution_id TEXT,
  reason TEXT, expires_at INTEGER, PRIMARY KEY (path, name, at, occurrence));
CREATE INDEX IF NOT EXISTS firings_by_end ON firings (expires_at);
CREATE TABLE IF NOT EXISTS refused (id TEXT PRIMARY KEY, path TEXT, name TEXT, kind TEXT, occurrence TEXT, at INTEGER,
  code TEXT, reason TEXT, facts TEXT, expires_at INTEGER);
"""
_TRIGGER_STARTS = "ALTER TABLE triggers ADD COLUMN starts TEXT;"
_HEAD_TRIGGER = "ALTER TABLE heads ADD COLUMN trigger TEXT;"
_LIMITS = """
CREATE TABLE IF NOT EXISTS rates (key TEXT PRIMARY KEY, free_at INTEGER, interval INTEGER);
CREATE TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, holders TEXT, most INTEGER, waiting INTEGER, revision INTEGER);
CREATE TABLE IF NOT EXISTS limit_waiters (key TEXT, place TEXT, holder TEXT, most INTEGER, cancels TEXT,
  PRIMARY KEY (key, place));
"""
_DISPLACED = "ALTER TABLE limits ADD COLUMN displaced TEXT DEFAULT '{}';"
_PATHS = """
CREATE TABLE IF NOT EXISTS paths (path TEXT PRIMARY KEY, revision INTEGER, record TEXT);
"""
_SNAPSHOTS = """
CREATE TABLE IF NOT EXISTS snapshots (execution_id TEXT, seq INTEGER, reducer INTEGER, state TEXT, expires_at INTEGER,
  PRIMARY KEY (execution_id, seq));
"""
_SEARCH = """
ALTER TABLE heads ADD COLUMN search TEXT;
ALTER TABLE heads ADD COLUMN searched TEXT DEFAULT '';
"""
SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS commits (execution_id TEXT, run_id TEXT, seq INTEGER, ts INTEGER, writer TEXT, wake INTEGER,
  lease_until INTEGER, expires_at INTEGER, v INTEGER, body BLOB, events INTEGER, in_vain INTEGER,
  aggregates TEXT, progress TEXT, PRIMARY KEY (execution_id, run_id, seq));
CREATE TABLE IF NOT EXISTS playbooks (path TEXT, version INTEGER, digest TEXT, source TEXT, registered_at INTEGER,
  PRIMARY KEY (path, version));
CREATE TABLE IF NOT EXISTS pinned (digest TEXT PRIMARY KEY, path TEXT, source TEXT, pinned_at INTEGER);
CREATE INDEX IF NOT EXISTS playbooks_by_digest ON playbooks (digest);
CREATE TABLE IF NOT EXISTS heads (execution_id TEXT PRIMARY KEY, status TEXT, path TEXT, version INTEGER, digest TEXT,
  started_at INTEGER, updated_at INTEGER, finished_at INTEGER, error TEXT, parent TEXT, expires_at INTEGER,
  trigger TEXT, search TEXT, searched TEXT DEFAULT '', labels TEXT, warnings INTEGER,
  redriven_at INTEGER);
CREATE INDEX IF NOT EXISTS heads_by_end ON heads (expires_at);
CREATE INDEX IF NOT EXISTS heads_by_start ON heads (started_at DESC, execution_id DESC);
CREATE INDEX IF NOT EXISTS heads_by_status ON heads (status, started_at DESC, execution_id DESC);
CREATE INDEX IF NOT EXISTS heads_by_path ON heads (path, started_at DESC, execution_id DESC);
CREATE TABLE IF NOT EXISTS due (execution_id TEXT PRIMARY KEY, due_at INTEGER, looks INTEGER);
CREATE INDEX IF NOT EXISTS due_by_time ON due (due_at);
CREATE TABLE IF NOT EXISTS gates (execution_id TEXT PRIMARY KEY, mode TEXT, stopped_runs TEXT);
"""
    + _TOKENS
    + _KEY_VALUES
    + _TRIGGERS
    + _TRIGGER_STARTS
    + _LIMITS
    + _DISPLACED
    + _PATHS
    + _SNAPSHOTS
)
UPGRADES = {
    1: """
ALTER TABLE commits ADD COLUMN events INTEGER;
ALTER TABLE commits ADD COLUMN in_vain INTEGER;
ALTER TABLE due ADD COLUMN looks INTEGER;
CREATE INDEX IF NOT EXISTS heads_by_status ON heads (status, started_at DESC, execution_id DESC);
CREATE INDEX IF NOT EXISTS heads_by_path ON heads (path, started_at DESC, execution_id DESC);
""",
    2: "ALTER TABLE commits ADD COLUMN aggregates TEXT;",
    3: _TOKENS,
    4: _KEY_VALUES,
    5: _HEAD_TRIGGER + _TRIGGERS,
    6: _LIMITS,
    7: _PATHS,
    8: _SEARCH,
    9: "ALTER TABLE heads ADD COLUMN labels TEXT;",
    10: _TRIGGER_STARTS,
    11: f"""
ALTER TABLE snapshots RENAME TO newest_snapshots;
{_SNAPSHOTS}
INSERT INTO snapshots SELECT execution_id, seq, reducer, state, expires_at FROM newest_snapshots;
DROP TABLE newest_snapshots;
""",
    12: _DISPLACED,
    13: "ALTER TABLE heads ADD COLUMN warnings INTEGER;",
    14: "ALTER TABLE commits ADD COLUMN progress TEXT;",
    15: "ALTER TABLE heads ADD COLUMN redriven_at INTEGER;",
}
"""Statements that upgrade a store from one version to the next."""
SCHEMA_VERSION = 16
