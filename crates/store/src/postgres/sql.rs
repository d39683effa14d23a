//! All statements of the store, except those of search.
//!
//! They use only what PostgreSQL and compatible distributed engines have in common: keys that begin
//! with the owner, row locks, and no state outside of rows. A test next to this file checks them.
//!
//! The parameter `now` is the time in milliseconds, or NULL for the clock of the server.

/// The tables.
pub(super) const SCHEMA: &str = include_str!("schema.sql");

/// The tables that format 2 added.
pub(super) const SCHEMA_2: &str = include_str!("schema2.sql");

/// The column that format 2 added.
pub(super) const ADD_TRASHED: &str =
    "ALTER TABLE rethread_sessions ADD COLUMN IF NOT EXISTS trashed bigint";

/// What identifies a database as a store, and the lock for setting it up.
pub(super) const CREATE_STORE: &str = "CREATE TABLE IF NOT EXISTS rethread_store (
    what text PRIMARY KEY, format bigint NOT NULL)";

/// The row that says that nothing has been set up yet.
pub(super) const BEGIN_STORE: &str = "INSERT INTO rethread_store (what, format) \
    VALUES ('store', 0) ON CONFLICT (what) DO NOTHING";

/// The format.
pub(super) const FORMAT: &str = "SELECT format FROM rethread_store WHERE what = 'store'";

/// The format, with the setup lock held.
pub(super) const LOCK_FORMAT: &str =
    "SELECT format FROM rethread_store WHERE what = 'store' FOR UPDATE";

/// Changes nothing, but is on disk when it returns.
pub(super) const SAME_FORMAT: &str =
    "UPDATE rethread_store SET format = format WHERE what = 'store'";

/// Records that the store is set up.
pub(super) const SET_FORMAT: &str = "UPDATE rethread_store SET format = $1 WHERE what = 'store'";

/// At most this long; less if the role, the database or the URL says so.
macro_rules! at_most {
    ($setting:literal, $most:literal) => {
        concat!(
            "SELECT set_config('",
            $setting,
            "', CASE WHEN current_setting('",
            $setting,
            "')::interval BETWEEN '1 ms' AND '",
            $most,
            "' THEN current_setting('",
            $setting,
            "') ELSE '",
            $most,
            "' END, false); "
        )
    };
}

/// The settings of every connection. A statement or a lock that takes longer than this is stuck, or
/// slower than any caller waits; an abandoned transaction must not keep its locks. Acknowledged
/// data is on disk, however the server is configured for others; a stricter setting is kept.
pub(super) const SETTINGS: &str = concat!(
    at_most!("statement_timeout", "30s"),
    at_most!("lock_timeout", "10s"),
    at_most!("idle_in_transaction_session_timeout", "60s"),
    "SET jit = off; SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') \
      WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)"
);

/// For upkeep, which reads everything.
pub(super) const NO_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";

pub(super) const BEGIN: &str = "BEGIN";
pub(super) const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// The columns of an entry, in the order `row::stored` reads them.
macro_rules! columns {
    () => {
        "seq, at, id, kind, tokens, thinking, size, body, t_messages, t_queries, t_tokens, \
         t_first, t_turn, t_system, t_started, t_summary, t_clear, t_clear_messages, \
         t_clear_tokens, hash"
    };
}

/// The current time.
macro_rules! now {
    ($parameter:literal) => {
        concat!(
            "coalesce(",
            $parameter,
            "::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
        )
    };
}

/// Whether a log ends after the entry `$6` at `$5 - 1`.
macro_rules! ends_there {
    () => {
        "($5::bigint = 0 OR EXISTS (SELECT 1 FROM rethread_entries p \
           WHERE p.owner = $1 AND p.session = $2 AND p.seq = $5 - 1 AND p.id = $6))"
    };
}

/// Adds to what each model was charged in the session that `place` finds.
macro_rules! spend {
    () => {
        "INSERT INTO rethread_usage (owner, session, model, input, output, cache_read, \
           cache_write, ms) SELECT place.owner, place.id, u.* FROM place, unnest($27::text[], \
           $28::bigint[], $29::bigint[], $30::bigint[], $31::bigint[], $32::bigint[]) AS u \
         ON CONFLICT (owner, session, model) DO UPDATE SET \
           input = least(rethread_usage.input + excluded.input, $33), \
           output = least(rethread_usage.output + excluded.output, $33), \
           cache_read = least(rethread_usage.cache_read + excluded.cache_read, $33), \
           cache_write = least(rethread_usage.cache_write + excluded.cache_write, $33), \
           ms = least(rethread_usage.ms + excluded.ms, $33::bigint)"
    };
}

/// Writes entries to the session that `place` finds, if it finds one.
macro_rules! append {
    ($place:expr, $returning:literal) => {
        concat!(
            "WITH place AS (",
            $place,
            "), fresh AS (INSERT INTO rethread_fresh (owner, session) SELECT owner, id FROM place \
               ON CONFLICT (owner, session) DO NOTHING), \
             unsearched AS (INSERT INTO rethread_unsearched (owner, session) \
               SELECT owner, id FROM place ON CONFLICT (owner, session) DO NOTHING), \
             spent AS (",
            spend!(),
            ") INSERT INTO rethread_entries (owner, session, seq, at, id, kind, hash, tokens, \
               thinking, size, body, t_messages, t_queries, t_tokens, t_first, t_turn, t_system, \
               t_started, t_summary, t_clear, t_clear_messages, t_clear_tokens) \
             SELECT place.owner, place.id, e.* FROM place, unnest($7::bigint[], $8::bigint[], \
               $9::text[], $10::text[], $11::bytea[], $12::bigint[], $13::bigint[], $14::bigint[], \
               $15::bytea[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], \
               $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], \
               $25::bigint[], $26::bigint[]) AS e",
            $returning
        )
    };
}

/// Appends, if the writer is allowed to and the log ends at the expected position: after the entry
/// `$6` at `$5 - 1`. The lock on the session prevents it from being leased or deleted in the
/// meantime; the primary key prevents others from taking the same position, and the index of ids
/// prevents storing an entry twice.
///
/// `$1` owner, `$2` session, `$3` fence, `$4` now, `$5` head, `$6` the id of the last entry, then
/// the columns of the entries, those of what models were charged, and the most a sum may be.
pub(super) const APPEND: &str = append!(
    concat!(
        "SELECT s.owner, s.id FROM rethread_sessions s WHERE s.owner = $1 AND s.id = $2 \
           AND s.trashed IS NULL AND (s.fence = $3 OR ($3 IS NULL AND (s.until IS NULL OR s.until <= ",
        now!("$4"),
        "))) AND ",
        ends_there!(),
        " FOR UPDATE OF s"
    ),
    ""
);

/// The same, and also releases the lease.
pub(super) const APPEND_GIVING_BACK: &str = append!(
    concat!(
        "UPDATE rethread_sessions SET holder = NULL, until = NULL WHERE owner = $1 AND id = $2 \
           AND trashed IS NULL AND fence = $3 AND $4::bigint IS NOT DISTINCT FROM $4 AND ",
        ends_there!(),
        " RETURNING owner, id"
    ),
    ""
);

/// The same, and also takes the lease: for `$34`, for `$35` milliseconds. Returns the fence and the
/// expiry. `$3` is ignored.
pub(super) const APPEND_TAKING: &str = append!(
    concat!(
        "UPDATE rethread_sessions SET fence = fence + CASE WHEN until IS NULL OR until <= ",
        now!("$4"),
        " THEN 1 ELSE 0 END, holder = $34::text, until = $35::bigint + ",
        now!("$4"),
        " WHERE owner = $1 AND id = $2 AND $3::bigint IS NULL AND trashed IS NULL \
           AND (until IS NULL OR holder = $34 OR until <= ",
        now!("$4"),
        ") AND ",
        ends_there!(),
        " RETURNING owner, id, fence, until"
    ),
    " RETURNING (SELECT fence FROM place), (SELECT until FROM place)"
);

/// Earlier charges belong to another session.
pub(super) const FORGET_USAGE: &str =
    "DELETE FROM rethread_usage WHERE owner = $1 AND session = $2";

/// The total that a model was charged.
pub(super) const SET_USAGE: &str = "INSERT INTO rethread_usage (owner, session, model, input, \
    output, cache_read, cache_write, ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

pub(super) const PUT_BLOB: &str = "INSERT INTO rethread_blobs (owner, session, hash, size, body) \
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, session, hash) DO NOTHING";

pub(super) const BLOB: &str =
    "SELECT size, body FROM rethread_blobs WHERE owner = $1 AND session = $2 AND hash = $3";

pub(super) const BLOBS: &str =
    "SELECT hash, size FROM rethread_blobs WHERE owner = $1 AND session = $2 ORDER BY hash";

pub(super) const EXISTS: &str =
    "SELECT 1 FROM rethread_sessions WHERE owner = $1 AND id = $2 AND trashed IS NULL";

/// Sets the holder of a session. `$3` fence, `$4` holder, `$5` until.
pub(super) const SET_LEASE: &str = "UPDATE rethread_sessions SET fence = $3, holder = $4, \
    until = $5 WHERE owner = $1 AND id = $2";

/// A session's lease and the time, with the session locked, in the trash or not. `$3` now.
pub(super) const LOCK_ANY_PLACE: &str = concat!(
    "SELECT fence, holder, until, ",
    now!("$3"),
    " FROM rethread_sessions WHERE owner = $1 AND id = $2 FOR UPDATE"
);

/// The same, if it has been in the trash since a given time, or if no time is given.
pub(super) const LOCK_TO_DELETE: &str = concat!(
    "SELECT fence, holder, until, ",
    now!("$3"),
    " FROM rethread_sessions WHERE owner = $1 AND id = $2 \
      AND ($4::bigint IS NULL OR trashed = $4) FOR UPDATE"
);

/// The same of a session that is not in the trash.
pub(super) const LOCK_PLACE: &str = concat!(
    "SELECT fence, holder, until, ",
    now!("$3"),
    " FROM rethread_sessions WHERE owner = $1 AND id = $2 AND trashed IS NULL FOR UPDATE"
);

/// The same without a lock.
pub(super) const PLACE: &str = concat!(
    "SELECT fence, holder, until, ",
    now!("$3"),
    " FROM rethread_sessions WHERE owner = $1 AND id = $2 AND trashed IS NULL"
);

/// The tally of a session's last entry, and its id.
pub(super) const END: &str = "SELECT seq, id, t_messages, t_queries, t_tokens, t_first, t_turn, \
    t_system, t_started, t_summary, t_clear, t_clear_messages, t_clear_tokens \
    FROM rethread_entries WHERE owner = $1 AND session = $2 ORDER BY seq DESC LIMIT 1";

/// The positions of these ids, and what is stored there. Each is looked up separately: otherwise a
/// planner that underestimates the size of a session reads all of it.
pub(super) const IDS: &str = "SELECT w.id, e.seq, e.hash FROM unnest($3::text[]) AS w (id) \
    CROSS JOIN LATERAL (SELECT l.seq, l.hash FROM rethread_entries l \
      WHERE l.owner = $1 AND l.session = $2 AND l.id = w.id LIMIT 1) e";

/// What a list shows of a session's first question.
pub(super) const SET_FIRST: &str =
    "UPDATE rethread_sessions SET first_message = $3 WHERE owner = $1 AND id = $2";

/// A session with its keys and the tally of its last entry, in the order `read::session` reads it.
macro_rules! session {
    ($sessions:expr) => {
        concat!(
            "SELECT s.id, s.header, s.last_at, s.first_message, ARRAY(SELECT k.key \
               FROM rethread_keys k WHERE k.owner = s.owner AND k.session = s.id), \
               e.at, e.seq, e.t_messages, e.t_queries, e.t_tokens, e.t_first, e.t_turn, \
               e.t_system, e.t_started, e.t_summary, e.t_clear, e.t_clear_messages, \
               e.t_clear_tokens, ARRAY(SELECT u.model FROM rethread_usage u \
                 WHERE u.owner = s.owner AND u.session = s.id ORDER BY u.model), \
               ARRAY(SELECT unnest(ARRAY[u.input, u.output, u.cache_read, u.cache_write, u.ms]) \
                 FROM rethread_usage u WHERE u.owner = s.owner AND u.session = s.id \
                 ORDER BY u.model) FROM ",
            $sessions,
            " s LEFT JOIN LATERAL (SELECT * FROM rethread_entries l WHERE l.owner = s.owner \
               AND l.session = s.id ORDER BY l.seq DESC LIMIT 1) e ON true"
        )
    };
}

/// One session.
pub(super) const SESSION: &str =
    concat!(session!("rethread_sessions"), " WHERE s.owner = $1 AND s.id = $2");

/// Leaves out sessions that are continued by another one, if the parameter says so. It is written
/// this way, here and below, because planners handle the alternatives badly: `NOT EXISTS` may be
/// evaluated by reading a whole table, and `IS NULL` is assumed to be rare, so everything is read
/// to find it.
macro_rules! newest {
    ($parameter:literal) => {
        concat!(
            "coalesce((SELECT NOT ",
            $parameter,
            "::boolean FROM rethread_sessions c WHERE c.owner = s.owner AND c.parent = s.id \
               AND c.continues AND NOT c.archived AND c.trashed IS NULL LIMIT 1), true)"
        )
    };
}

/// The sessions of a page: those with up-to-date times, in order, before anything else about them
/// is looked up.
macro_rules! page {
    ($workspace:literal) => {
        session!(concat!(
            "(SELECT s.* FROM rethread_sessions s WHERE s.owner = $1 ",
            $workspace,
            " AND s.archived = $2 AND (s.trashed IS NOT NULL) = $7::boolean \
               AND (s.last_at, s.id) < ($3, $4) \
               AND coalesce((SELECT false FROM rethread_fresh f WHERE f.owner = s.owner \
                 AND f.session = s.id LIMIT 1), true) AND ",
            newest!("$5"),
            " ORDER BY s.last_at DESC, s.id DESC LIMIT $6)"
        ))
    };
}

/// Sessions with up-to-date times, newest first. `$2` archived, `$3`, `$4` the cursor, `$5` only
/// the newest of a chain, `$6` how many, `$7` those in the trash.
pub(super) const PAGE: &str = page!("");

/// The same of one workspace, `$8`.
pub(super) const PAGE_OF_WORKSPACE: &str = page!("AND s.workspace_hash = $8");

/// A page is planned for its actual length, because the number of rows decides which plan is best.
pub(super) const PLAN_ANEW: &str = "SET LOCAL plan_cache_mode = force_custom_plan";

/// Sessions whose times are out of date. `$2` archived or not, `$3` the workspace, if one is given;
/// `$4` only the newest of a chain; `$5` the maximum number.
pub(super) const FRESH: &str = concat!(
    session!("rethread_sessions"),
    " WHERE s.owner = $1 AND s.id IN (SELECT f.session FROM rethread_fresh f WHERE f.owner = $1 \
       ORDER BY f.session LIMIT $5) \
     AND ($2::boolean IS NULL OR s.archived = $2) \
     AND ($3::bytea IS NULL OR s.workspace_hash = $3) \
     AND (s.trashed IS NOT NULL) = $6::boolean AND ",
    newest!("$4")
);

/// Some of an owner's sessions whose times are out of date.
pub(super) const SOME_FRESH: &str =
    "SELECT session FROM rethread_fresh WHERE owner = $1 ORDER BY session LIMIT $2";

/// Locks sessions, always in the same order.
pub(super) const LOCK_SESSIONS: &str = "SELECT id FROM rethread_sessions \
    WHERE owner = $1 AND id = ANY($2) ORDER BY id FOR UPDATE";

/// Brings the times of sessions up to date.
pub(super) const FOLD: &str = "UPDATE rethread_sessions s SET last_at = coalesce((SELECT e.at \
    FROM rethread_entries e WHERE e.owner = s.owner AND e.session = s.id \
    ORDER BY e.seq DESC LIMIT 1), s.last_at) WHERE s.owner = $1 AND s.id = ANY($2)";

/// Marks them as up to date.
pub(super) const FOLDED: &str = "DELETE FROM rethread_fresh WHERE owner = $1 AND session = ANY($2)";

pub(super) const NAMED: &str =
    "SELECT id FROM rethread_sessions WHERE owner = $1 AND name = $2 AND trashed IS NULL";

pub(super) const WITH_PREFIX: &str = "SELECT id FROM rethread_sessions \
    WHERE owner = $1 AND id >= $2 AND id <= $3 AND (trashed IS NOT NULL) = false \
    ORDER BY id LIMIT $4";

pub(super) const RESOLVE: &str =
    "SELECT session FROM rethread_keys WHERE owner = $1 AND key_hash = $2";

/// The same, locked.
pub(super) const LOCK_KEY: &str =
    "SELECT session FROM rethread_keys WHERE owner = $1 AND key_hash = $2 FOR UPDATE";

/// Inserts a key that is not bound to anything.
pub(super) const NEW_KEY: &str =
    "INSERT INTO rethread_keys (owner, key_hash, key, session) VALUES ($1, $2, $3, $4)";

/// Binds it, if it is still not bound.
pub(super) const CLAIM_KEY: &str = "INSERT INTO rethread_keys (owner, key_hash, key, session) \
    VALUES ($1, $2, $3, $4) ON CONFLICT (owner, key_hash) DO NOTHING";

/// All keys of a session.
pub(super) const RELEASE_KEYS: &str = "DELETE FROM rethread_keys WHERE owner = $1 AND session = $2";

pub(super) const MOVE_KEY: &str =
    "UPDATE rethread_keys SET session = $3 WHERE owner = $1 AND key_hash = $2";

pub(super) const DROP_KEY: &str = "DELETE FROM rethread_keys WHERE owner = $1 AND key_hash = $2";

pub(super) const ENTRIES: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM rethread_entries WHERE owner = $1 AND session = $2 AND seq >= $3 AND seq < $4 \
      ORDER BY seq"
);

pub(super) const CREATE: &str = "INSERT INTO rethread_sessions (owner, id, name, header, archived, \
    workspace_hash, parent, continues, last_at, first_message, trashed, indexed, fence) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, 0)";

/// The header of a session, in the trash or not, with the session locked.
pub(super) const LOCK_HEADER: &str =
    "SELECT header FROM rethread_sessions WHERE owner = $1 AND id = $2 FOR UPDATE";

/// Locks a session that is not in the trash.
pub(super) const LOCK_SESSION: &str =
    "SELECT 1 FROM rethread_sessions WHERE owner = $1 AND id = $2 AND trashed IS NULL FOR UPDATE";

pub(super) const UPDATE: &str = "UPDATE rethread_sessions SET name = $3, header = $4, \
    archived = $5, workspace_hash = $6, parent = $7, continues = $8, trashed = $9 \
    WHERE owner = $1 AND id = $2";

/// Takes, renews or releases a lease, unless someone else has it. `$3` holder, `$4` how long, `$5`
/// now.
pub(super) const LEASE: &str = concat!(
    "UPDATE rethread_sessions SET \
       fence = fence + CASE WHEN $4::bigint > 0 AND (until IS NULL OR until <= ",
    now!("$5"),
    ") THEN 1 ELSE 0 END, \
       holder = CASE WHEN $4 > 0 THEN $3::text END, \
       until = CASE WHEN $4 > 0 THEN $4 + ",
    now!("$5"),
    " END WHERE owner = $1 AND id = $2 AND trashed IS NULL \
       AND (until IS NULL OR holder = $3 OR until <= ",
    now!("$5"),
    ") RETURNING fence, coalesce(until, ",
    now!("$5"),
    ")"
);

/// Deletes everything of a session, and the session itself last.
pub(super) const DELETE: [&str; 7] = [
    "DELETE FROM rethread_blobs WHERE owner = $1 AND session = $2",
    FORGET_USAGE,
    "DELETE FROM rethread_entries WHERE owner = $1 AND session = $2",
    RELEASE_KEYS,
    "DELETE FROM rethread_fresh WHERE owner = $1 AND session = $2",
    "DELETE FROM rethread_unsearched WHERE owner = $1 AND session = $2",
    "DELETE FROM rethread_sessions WHERE owner = $1 AND id = $2",
];

/// Sessions of this owner that are not fully indexed.
pub(super) const SOME_UNSEARCHED: &str =
    "SELECT session FROM rethread_unsearched WHERE owner = $1 ORDER BY session LIMIT $2";

/// How many entries are not indexed, in the first `$1` sessions that are not fully indexed. Each is
/// looked up separately, so that no planner reads all sessions instead.
pub(super) const BEHIND: &str = "SELECT coalesce(sum(greatest(e.seq + 1 - s.indexed, 0)), 0)::bigint \
    FROM (SELECT owner, session FROM rethread_unsearched ORDER BY owner, session LIMIT $1) u \
    CROSS JOIN LATERAL (SELECT l.indexed FROM rethread_sessions l \
      WHERE l.owner = u.owner AND l.id = u.session LIMIT 1) s \
    CROSS JOIN LATERAL (SELECT l.seq FROM rethread_entries l \
      WHERE l.owner = u.owner AND l.session = u.session ORDER BY l.seq DESC LIMIT 1) e";

/// Up to where a session is indexed, with the session locked.
pub(super) const LOCK_INDEXED: &str =
    "SELECT indexed FROM rethread_sessions WHERE owner = $1 AND id = $2 FOR UPDATE";

pub(super) const SET_INDEXED: &str =
    "UPDATE rethread_sessions SET indexed = $3 WHERE owner = $1 AND id = $2";

pub(super) const SEARCHED: &str =
    "DELETE FROM rethread_unsearched WHERE owner = $1 AND session = $2";

pub(super) const UNSEARCHED: &str = "INSERT INTO rethread_unsearched (owner, session) \
    VALUES ($1, $2) ON CONFLICT (owner, session) DO NOTHING";

/// The entries at these positions, for search hits.
pub(super) const FOUND: &str = concat!(
    "SELECT e.session, ",
    "e.seq, e.at, e.id, e.kind, e.tokens, e.thinking, e.size, e.body, e.t_messages, e.t_queries, \
     e.t_tokens, e.t_first, e.t_turn, e.t_system, e.t_started, e.t_summary, e.t_clear, \
     e.t_clear_messages, e.t_clear_tokens, e.hash \
     FROM unnest($2::uuid[], $3::bigint[]) AS h (session, seq) JOIN rethread_entries e \
     ON e.owner = $1 AND e.session = h.session AND e.seq = h.seq"
);

/// Which of these sessions search shows: those of a workspace, if one is given, and none in the
/// trash.
pub(super) const SHOWN: &str = "SELECT s.id FROM unnest($2::uuid[]) AS h (id) \
    JOIN rethread_sessions s ON s.owner = $1 AND s.id = h.id \
    WHERE s.trashed IS NULL AND ($3::bytea IS NULL OR s.workspace_hash = $3)";

/// All sessions. This statement and those below are only for upkeep.
pub(super) const EVERYTHING: &str = "SELECT owner, id FROM rethread_sessions";

pub(super) const STRAYS: &str = "SELECT count(*) FROM rethread_entries e WHERE NOT EXISTS \
    (SELECT 1 FROM rethread_sessions s WHERE s.owner = e.owner AND s.id = e.session)";

pub(super) const DANGLING: &str = "SELECT count(*) FROM rethread_keys k WHERE NOT EXISTS \
    (SELECT 1 FROM rethread_sessions s WHERE s.owner = k.owner AND s.id = k.session)";

pub(super) const DROP_DANGLING: &str = "DELETE FROM rethread_keys k WHERE NOT EXISTS \
    (SELECT 1 FROM rethread_sessions s WHERE s.owner = k.owner AND s.id = k.session)";

/// How many sessions are pending for lists and search.
pub(super) const LAG: &str = "SELECT (SELECT count(*) FROM rethread_fresh), \
    (SELECT count(*) FROM rethread_unsearched)";

/// The columns of a session that repeat its header and its log.
pub(super) const SAYS: &str = "SELECT name, header, archived, workspace_hash, parent, continues, \
    first_message, last_at, EXISTS (SELECT 1 FROM rethread_fresh f \
      WHERE f.owner = s.owner AND f.session = s.id), indexed, trashed \
    FROM rethread_sessions s WHERE owner = $1 AND id = $2";

pub(super) const SET_TIMES: &str = "UPDATE rethread_sessions SET first_message = $3, last_at = $4 \
    WHERE owner = $1 AND id = $2";

pub(super) const SET_TOKENS: &str = "UPDATE rethread_entries SET tokens = $4 \
    WHERE owner = $1 AND session = $2 AND seq = $3";

pub(super) const SET_TALLY: &str = "UPDATE rethread_entries SET t_messages = $4, t_queries = $5, \
    t_tokens = $6, t_first = $7, t_turn = $8, t_system = $9, t_started = $10, t_summary = $11, \
    t_clear = $12, t_clear_messages = $13, t_clear_tokens = $14 \
    WHERE owner = $1 AND session = $2 AND seq = $3";
