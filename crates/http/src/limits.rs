//! Every limit of the HTTP API: a number, its unit, and why it is that number.
//!
//! On the loopback interface, the server is used by one person's editor; beyond it, by others with
//! a token. The same limits apply to both, because an editor plugin can misbehave too.

use std::time::Duration;

use rethread_agent::limits::{
    HOST_QUESTION_BYTES_MAX, HOST_TURNS_MAX, OWNER_QUESTION_BYTES_MAX, OWNER_TURNS_MAX, QUEUE_MAX,
};
use rethread_core::limits::MESSAGE_BYTES_MAX;

/// Bytes of a request's body. A message may be 16 MiB; the rest is for the fields around it.
pub const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX + (64 << 10);

/// Bytes of a request's head. Enough for any key in a path, percent-encoded (three times 4,200),
/// and the headers a browser sends; more gets a 431. A head of twice this size is not even read
/// completely.
pub const HEAD_BYTES_MAX: usize = 20 << 10;

/// Headers of a request. A browser sends about twenty.
pub const HEADERS_MAX: usize = 100;

/// Levels of nesting in JSON. Messages need six; each additional level is work for the parser.
pub const NESTING_MAX: usize = 64;

/// How long a client may take to send the head of a request.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take to send a body. 16 MiB in this time is 0.5 MiB a second, which
/// every connection that can carry a chat manages.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a client may read nothing of a response before its connection is closed. A slow reader
/// is served slowly; a network that is down for half a minute is considered gone.
pub const SEND_TIME_MAX: Duration = Duration::from_secs(30);

/// The send buffer of one connection, in bytes. All connections together then use less than half a
/// gigabyte (the system allocates twice the number), and a client with a latency of a tenth of a
/// second still gets 5 MB a second.
pub const SEND_BUFFER_BYTES: u32 = 256 << 10;

/// Bytes of bodies and queued events in memory, per owner: four messages of the largest size. The
/// same again for responses.
pub const OWNER_BYTES_MAX: u32 = 64 << 20;

/// The same for all owners. Parsed data takes two or three times as much, so the total is about a
/// gigabyte in the worst case.
pub const BYTES_MAX: u32 = 4 * OWNER_BYTES_MAX;

/// Bytes reserved for a response while it is read and its size is not known. So an owner can have
/// eight such reads at once, and all owners together 32.
pub const READ_BYTES: usize = 8 << 20;

/// How long a response waits for memory before it is refused.
pub const ROOM_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a long response that are read at once, or one entry. The next part is read when this
/// one was sent.
pub const PART_BYTES: usize = 256 << 10;

/// Bytes of a response that are passed to a connection at once, because it copies them.
pub const FRAME_BYTES: usize = 64 << 10;

/// Bytes of a body that are read and discarded to keep its connection open, if the request was
/// refused because of its headers. For a larger body, a new connection is cheaper.
pub const DRAIN_BYTES_MAX: u64 = 64 << 10;

/// How long a refused body is read, so that its client gets the response.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Concurrent connections. Each costs a file descriptor and some 20 KiB; 1,024 descriptors is the
/// usual limit of a process, less what the store needs.
pub const CONNECTIONS_MAX: usize = 896;

/// Open requests of one owner, each of which occupies a connection: half of them, so that others
/// find one.
pub const OWNER_REQUESTS_MAX: usize = CONNECTIONS_MAX / 2;

/// Streams of events of one owner: twenty browser tabs with three sessions each.
pub const STREAMS_MAX: usize = 64;

/// Sustained requests per second of one owner.
pub const RATE_PER_SECOND: u32 = 500;

/// Burst of requests of one owner before [`RATE_PER_SECOND`] applies: a plugin that catches up
/// after a night asks for every note at once.
pub const RATE_BURST: u32 = 1_000;

/// Events a client may lag before its stream is ended. It can continue with the session's own
/// events; a turn does not wait for clients.
pub const BEHIND_MAX: usize = 4_096;

/// Bytes of events a client may lag, or one event. They count towards the limit of its owner.
pub const BEHIND_BYTES_MAX: u32 = 4 << 20;

/// Timeout of the health check of the store. Load balancers ask every few seconds and give up after
/// as many.
pub const READY_TIME_MAX: Duration = Duration::from_secs(2);

/// How long the store is considered writable after a write. `/readyz` writes no more often than
/// this.
pub const WRITTEN_FRESH: Duration = Duration::from_secs(5);

/// Timeout for running turns when the server shuts down; then they are stopped, and their partial
/// replies are kept.
pub const GRACE: Duration = Duration::from_secs(8);

/// How long stopped turns and open connections may take to end after [`GRACE`].
pub const GRACE_LAST: Duration = Duration::from_secs(2);

/// How often an idle stream sends a comment, so that a dead connection is noticed.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How often a live tail polls for entries of other programs. Entries written by this server are
/// reported at once.
pub const TAIL_POLL: Duration = Duration::from_millis(500);

/// Timeout in `/metrics` for counting entries that are not indexed yet. A scrape has ten seconds by
/// default, and the counters matter most while the store does not respond.
pub const LAG_TIME_MAX: Duration = Duration::from_secs(2);

/// Entries a live tail reads at once: they are held in memory while a slow client reads them.
pub const TAIL_ENTRIES: u64 = 32;

/// Bytes of entries a live tail holds in memory, or one entry. Every open stream may hold as many.
pub const TAIL_BYTES_MAX: usize = PART_BYTES;

/// Entries of one response, at most and by default.
pub const ENTRIES_MAX: u64 = 1_000;

/// Bytes of entries of one response. A response always has at least one entry, however large.
pub const ENTRIES_BYTES_MAX: usize = 8 << 20;

/// How long a token is cached before the store is asked again: a revoked token works no longer than
/// this.
pub const TOKEN_FRESH: Duration = Duration::from_secs(1);

/// How often the tokens of open requests are checked: their responses end within [`TOKEN_FRESH`],
/// too.
pub const TOKEN_POLL: Duration = Duration::from_millis(500);

/// The maximum number of tokens. They are compared one by one.
pub const TOKENS_MAX: usize = 1_000;

/// Lines of the request log that may be queued. A log that nobody reads loses lines; it does not
/// stop the server.
pub const LOG_LINES_MAX: usize = 1_024;

/// Limits that a test or an unusual deployment may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// See [`OWNER_REQUESTS_MAX`].
    pub owner_requests: usize,
    /// See [`STREAMS_MAX`].
    pub streams: usize,
    /// See [`RATE_PER_SECOND`].
    pub rate: u32,
    /// See [`RATE_BURST`].
    pub burst: u32,
    /// Whether requests from this machine without a token are rate-limited too. A local program
    /// that sends one after the other is not a flood; connections, turns and streams are limited in
    /// any case.
    pub count_local: bool,
    /// See [`HOST_TURNS_MAX`].
    pub turns: usize,
    /// See [`OWNER_TURNS_MAX`].
    pub owner_turns: usize,
    /// See [`QUEUE_MAX`].
    pub waiting: usize,
    /// See [`HOST_QUESTION_BYTES_MAX`].
    pub question_bytes: u32,
    /// See [`OWNER_QUESTION_BYTES_MAX`].
    pub owner_question_bytes: u32,
    /// See [`BYTES_MAX`].
    pub bytes: u32,
    /// See [`OWNER_BYTES_MAX`].
    pub owner_bytes: u32,
    /// See [`ROOM_TIME_MAX`].
    pub room_time: Duration,
    /// See [`SEND_TIME_MAX`].
    pub send_time: Duration,
    /// See [`BODY_TIME_MAX`].
    pub body_time: Duration,
    /// See [`GRACE`].
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: CONNECTIONS_MAX,
            owner_requests: OWNER_REQUESTS_MAX,
            streams: STREAMS_MAX,
            rate: RATE_PER_SECOND,
            burst: RATE_BURST,
            count_local: false,
            turns: HOST_TURNS_MAX,
            owner_turns: OWNER_TURNS_MAX,
            waiting: QUEUE_MAX,
            question_bytes: HOST_QUESTION_BYTES_MAX,
            owner_question_bytes: OWNER_QUESTION_BYTES_MAX,
            bytes: BYTES_MAX,
            owner_bytes: OWNER_BYTES_MAX,
            room_time: ROOM_TIME_MAX,
            send_time: SEND_TIME_MAX,
            body_time: BODY_TIME_MAX,
            grace: GRACE,
        }
    }
}
