-- Format 3, with `schema2.sql` and `search.sql`. `docs/format.md` says what the columns mean.

CREATE TABLE rethread_sessions (
    owner          text    NOT NULL,
    id             uuid    NOT NULL,
    name           text    NOT NULL,
    header         text    NOT NULL,
    archived       boolean NOT NULL,
    workspace_hash bytea,
    parent         uuid,
    continues      boolean NOT NULL,
    last_at        bigint  NOT NULL,
    first_message  bytea   NOT NULL,
    indexed        bigint  NOT NULL,
    fence          bigint  NOT NULL,
    holder         text,
    until          bigint,
    trashed        bigint,
    PRIMARY KEY (owner, id)
);

CREATE UNIQUE INDEX rethread_sessions_name ON rethread_sessions (owner, name);
CREATE INDEX rethread_sessions_recent ON rethread_sessions (owner, archived, last_at, id);
CREATE INDEX rethread_sessions_workspace
    ON rethread_sessions (owner, workspace_hash, archived, last_at, id);
CREATE INDEX rethread_sessions_parent ON rethread_sessions (owner, parent);

CREATE TABLE rethread_entries (
    owner            text   NOT NULL,
    session          uuid   NOT NULL,
    seq              bigint NOT NULL,
    at               bigint NOT NULL,
    id               text   NOT NULL,
    kind             text,
    hash             bytea  NOT NULL,
    tokens           bigint NOT NULL,
    thinking         bigint,
    size             bigint,
    t_messages       bigint NOT NULL,
    t_queries        bigint NOT NULL,
    t_tokens         bigint NOT NULL,
    t_first          bigint,
    t_turn           bigint,
    t_system         bigint,
    t_started        bigint,
    t_summary        bigint,
    t_clear          bigint,
    t_clear_messages bigint,
    t_clear_tokens   bigint,
    body             bytea  NOT NULL,
    PRIMARY KEY (owner, session, seq)
);

CREATE UNIQUE INDEX rethread_entries_id ON rethread_entries (owner, session, id);

-- The key itself may be longer than an index allows, so it is found by its SHA-256.
CREATE TABLE rethread_keys (
    owner    text  NOT NULL,
    key_hash bytea NOT NULL,
    key      text  NOT NULL,
    session  uuid  NOT NULL,
    PRIMARY KEY (owner, key_hash)
);

CREATE INDEX rethread_keys_session ON rethread_keys (owner, session);

-- Sessions written to since `last_at` was brought up to date.
CREATE TABLE rethread_fresh (
    owner   text NOT NULL,
    session uuid NOT NULL,
    PRIMARY KEY (owner, session)
);

-- Sessions with entries after `indexed`, which are not in the search index yet.
CREATE TABLE rethread_unsearched (
    owner   text NOT NULL,
    session uuid NOT NULL,
    PRIMARY KEY (owner, session)
);
