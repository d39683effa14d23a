-- The terms of entries. This part is specific to PostgreSQL: everything in it can be rebuilt.

CREATE TABLE rethread_search (
    owner   text     NOT NULL,
    session uuid     NOT NULL,
    seq     bigint   NOT NULL,
    at      bigint   NOT NULL,
    speaker smallint NOT NULL,
    words   tsvector NOT NULL,
    PRIMARY KEY (owner, session, seq)
);

CREATE INDEX rethread_search_words ON rethread_search USING gin (words) WITH (fastupdate = off);
