//! Every limit of this door: a number, its unit, and why it is that number.
//!
//! A door on the loopback is used by one person's editor; one beyond it by strangers with a token.
//! The same numbers hold for both, because an editor's plugin can run wild as well.

use std::time::Duration;

use rethread_agent::limits::{
    HOST_QUESTION_BYTES_MAX, HOST_TURNS_MAX, OWNER_QUESTION_BYTES_MAX, OWNER_TURNS_MAX, QUEUE_MAX,
};
use rethread_core::limits::MESSAGE_BYTES_MAX;

/// Bytes of a request's body. A message may be 16 MiB; the rest is for the fields around it.
pub const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX + (64 << 10);

/// Bytes of a request's head. Enough for any key in a path, percent-encoded (three times 4,200),
/// and the headers a browser sends; more is answered with 431. What has twice as much is not even
/// read to its end.
pub const HEAD_BYTES_MAX: usize = 20 << 10;

/// Headers of a request. A browser sends about twenty.
pub const HEADERS_MAX: usize = 100;

/// Levels of nesting in JSON. Messages need six; each level more is work for the parser.
pub const NESTING_MAX: usize = 64;

/// How long a client may take to send the head of a request.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take to send a body. 16 MiB in this time is 0.5 MiB a second, which
/// every connection that can carry a chat manages.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a client may take nothing of an answer before its connection is closed. One that reads
/// slowly is served slowly; a network that is away for half a minute is gone.
pub const SEND_TIME_MAX: Duration = Duration::from_secs(30);

/// Bytes the system holds for one connection that are not sent yet. All connections together then
/// hold less than half a gigabyte of it (the system takes twice the number), and a client a tenth of a
/// second away still gets 5 MB a second.
pub const SEND_BUFFER_BYTES: u32 = 256 << 10;

/// Bytes of bodies and waiting events in memory, of one owner: four messages of the largest kind. As
/// many again for answers.
pub const OWNER_BYTES_MAX: u32 = 64 << 20;

/// The same of all owners. What is parsed takes two or three times as much, so all of it is about a
/// gigabyte at the worst.
pub const BYTES_MAX: u32 = 4 * OWNER_BYTES_MAX;

/// Bytes an answer is taken to need while it is read and nobody knows how large it is. An owner
/// then has eight such reads at once, and all together 32.
pub const READ_BYTES: usize = 8 << 20;

/// How long an answer waits for room in memory before it is refused.
pub const ROOM_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a long answer that are read at once, or one entry. The next are read when these are
/// taken.
pub const PART_BYTES: usize = 256 << 10;

/// Bytes of an answer that a connection is given at once: it copies them.
pub const FRAME_BYTES: usize = 64 << 10;

/// Bytes of a body that are read and thrown away so that its connection lives on, when the request
/// was refused by its headers. What is larger costs more than a new connection.
pub const DRAIN_BYTES_MAX: u64 = 64 << 10;

/// How long a refused body is read on, so that its client finds the answer.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Connections at once. Each costs a file and some 20 KiB; 1,024 files is what a process may
/// have open without asking its administrator, less what the store needs.
pub const CONNECTIONS_MAX: usize = 896;

/// Requests of one owner that are not over, each of which takes a connection: half of them, so that
/// others find one.
pub const OWNER_REQUESTS_MAX: usize = CONNECTIONS_MAX / 2;

/// Streams of events one owner may have open: twenty browser tabs with three sessions each.
pub const STREAMS_MAX: usize = 64;

/// Requests one owner may send in a second, over time.
pub const RATE_PER_SECOND: u32 = 500;

/// Requests one owner may send at once before [`RATE_PER_SECOND`] holds: a plugin that catches up
/// after a night asks for every note at once.
pub const RATE_BURST: u32 = 1_000;

/// Events a client may lag before its stream is ended. It can pick the turn up from the session's
/// own events; a turn waits for nobody.
pub const BEHIND_MAX: usize = 4_096;

/// Bytes of events a client may lag, or one event. They count among those of its owner.
pub const BEHIND_BYTES_MAX: u32 = 4 << 20;

/// How long the store may take to say that it is there. Balancers ask every few seconds and give up
/// after as many.
pub const READY_TIME_MAX: Duration = Duration::from_secs(2);

/// How long the store is taken to be one that can be written to, once something was. `/readyz`
/// writes no more often than this.
pub const WRITTEN_FRESH: Duration = Duration::from_secs(5);

/// Timeout for running turns when the server shuts down; then they are stopped, and what they said
/// is kept.
pub const GRACE: Duration = Duration::from_secs(8);

/// How long stopped turns and open connections may take to end after [`GRACE`].
pub const GRACE_LAST: Duration = Duration::from_secs(2);

/// How often an idle stream sends a comment, so that a connection nobody listens to is noticed.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How often a live tail looks for what other programs wrote. What this server writes is reported
/// at once.
pub const TAIL_POLL: Duration = Duration::from_millis(500);

/// Timeout of `/metrics` for the question how far the search index lags. A scrape is given ten
/// seconds by default, and the counters are wanted most while the store does not answer.
pub const LAG_TIME_MAX: Duration = Duration::from_secs(2);

/// Entries a live tail reads at once: they are held in memory while a slow client takes them.
pub const TAIL_ENTRIES: u64 = 32;

/// Bytes of entries a live tail holds in memory like that, or one entry. Every stream that is open
/// may hold as many.
pub const TAIL_BYTES_MAX: usize = PART_BYTES;

/// Entries one answer may hold, and how many it holds when nobody asks for a number.
pub const ENTRIES_MAX: u64 = 1_000;

/// Bytes of entries one answer may hold. An answer always holds one entry, however large.
pub const ENTRIES_BYTES_MAX: usize = 8 << 20;

/// How long a token is taken as good before the store is asked again: a revoked one works no
/// longer than this.
pub const TOKEN_FRESH: Duration = Duration::from_secs(1);

/// How often the tokens of requests that are not over yet are looked at: their answers end within
/// [`TOKEN_FRESH`], too.
pub const TOKEN_POLL: Duration = Duration::from_millis(500);

/// Tokens there may be. They are compared one by one.
pub const TOKENS_MAX: usize = 1_000;

/// Lines of the request log that may wait to be written. A log nobody reads loses lines rather
/// than stop the server.
pub const LOG_LINES_MAX: usize = 1_024;

/// What a test or an unusual place may want otherwise.
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
    /// Whether requests of this machine that need no token are counted, too. A program here that
    /// sends one after the other is not a flood; connections, turns and streams stay bounded.
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
