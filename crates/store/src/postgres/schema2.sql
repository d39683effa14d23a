-- What format 2 added to format 1: a new database gets it as well.

-- What each model was charged in a session since it was started: derived from its entries.
CREATE TABLE IF NOT EXISTS rethread_usage (
    owner       text   NOT NULL,
    session     uuid   NOT NULL,
    model       text   NOT NULL,
    input       bigint NOT NULL,
    output      bigint NOT NULL,
    cache_read  bigint NOT NULL,
    cache_write bigint NOT NULL,
    ms          bigint NOT NULL,
    PRIMARY KEY (owner, session, model)
);

-- A body that is shorter than its size is packed.
CREATE TABLE IF NOT EXISTS rethread_blobs (
    owner   text   NOT NULL,
    session uuid   NOT NULL,
    hash    bytea  NOT NULL,
    size    bigint NOT NULL,
    body    bytea  NOT NULL,
    PRIMARY KEY (owner, session, hash)
);
