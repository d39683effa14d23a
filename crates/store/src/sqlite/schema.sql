-- Format 3. `docs/format.md` says what the columns mean.

CREATE TABLE sessions (
    n             INTEGER PRIMARY KEY,
    id            BLOB NOT NULL,
    owner         TEXT NOT NULL,
    name          TEXT NOT NULL,
    header        TEXT NOT NULL,
    archived      INTEGER NOT NULL,
    workspace     TEXT,
    parent        BLOB,
    continues     INTEGER NOT NULL,
    last_at       INTEGER NOT NULL,
    first_message TEXT NOT NULL,
    fence         INTEGER NOT NULL DEFAULT 0,
    holder        TEXT,
    until         INTEGER,
    trashed       INTEGER
) STRICT;

CREATE UNIQUE INDEX sessions_id ON sessions (id);
CREATE UNIQUE INDEX sessions_name ON sessions (owner, name);
CREATE INDEX sessions_recent ON sessions (owner, archived, last_at, id);
CREATE INDEX sessions_workspace ON sessions (owner, workspace, archived, last_at, id);
CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL;

CREATE TABLE entries (
    rid       INTEGER PRIMARY KEY,
    session   INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    id        ANY NOT NULL,
    kind      TEXT,
    hash      BLOB NOT NULL,
    tokens    INTEGER NOT NULL,
    thinking  INTEGER,
    t_messages  INTEGER NOT NULL,
    t_queries   INTEGER NOT NULL,
    t_tokens    INTEGER NOT NULL,
    t_first     INTEGER,
    t_turn      INTEGER,
    t_system    INTEGER,
    t_started   INTEGER,
    t_summary   INTEGER,
    t_clear     INTEGER,
    t_clear_messages INTEGER,
    t_clear_tokens   INTEGER,
    size      INTEGER,
    body      BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX entries_seq ON entries (session, seq);
-- The id first: ids made from the time all fall on the same few pages, regardless of the writer.
CREATE UNIQUE INDEX entries_id ON entries (id, session);

CREATE TABLE keys (
    owner   TEXT NOT NULL,
    key     TEXT NOT NULL,
    session INTEGER NOT NULL,
    UNIQUE (owner, key)
) STRICT;

CREATE INDEX keys_session ON keys (session);

-- What each model was charged in a session since it was started: derived from its entries.
CREATE TABLE usage (
    session     INTEGER NOT NULL,
    model       TEXT NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    ms          INTEGER NOT NULL,
    PRIMARY KEY (session, model)
) STRICT, WITHOUT ROWID;

-- A body that is shorter than its size is packed.
CREATE TABLE blobs (
    rid     INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    hash    BLOB NOT NULL,
    size    INTEGER NOT NULL,
    body    BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX blobs_hash ON blobs (session, hash);

-- How far what is derived has followed the entries: up to which rid.
CREATE TABLE progress (
    what TEXT PRIMARY KEY,
    rid  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO progress VALUES ('folded', 0), ('searched', 0);

-- The terms are made by rethread-core, which also marks adjacent terms. So the index splits at
-- spaces and stores no positions, which would double its size.
CREATE VIRTUAL TABLE search USING fts5 (
    terms, content = '', detail = none, tokenize = "ascii"
);
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
-- Merging its pieces is most of the work of a full-text index: let them be larger, and fewer.
INSERT INTO search (search, rank) VALUES ('hashsize', 8388608);
INSERT INTO search (search, rank) VALUES ('automerge', 16);
