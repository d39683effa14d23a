//! Every limit of the loop: a number, its unit, and why it is that number.

use std::time::Duration;

/// Rounds one turn may take. Finding, changing and testing something takes dozens; a model that
/// needs more than this has lost its way, and a person should look before it continues.
pub const ROUNDS_MAX: u32 = 200;

/// Rounds of a turn for an editor. Its clients wait for one complete answer, and were promised this
/// number.
pub const EDITOR_ROUNDS_MAX: u32 = 10;

/// How often the same call may give the same result, without a new result in between, before the
/// turn is ended. The second time may be an oversight; a third one gives the model no new
/// information.
pub const SAME_RESULTS_MAX: u32 = 3;

/// Retries of a request. With the waits below, a provider has 3.5 seconds to recover; after that
/// the error is reported.
pub const RETRIES_MAX: u32 = 3;

/// The first backoff; each further one is twice as long.
pub const RETRY_WAIT: Duration = Duration::from_millis(500);

/// The longest wait a provider may ask for. If it asks for more, the error is reported instead.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Running and queued turns of all owners. A turn outlives its connection, so connections do not
/// limit them; each needs a few kilobytes and its question, whose bytes are counted separately.
pub const HOST_TURNS_MAX: usize = 1_024;

/// Running and queued turns of one owner: a quarter, so that no owner can block all others.
pub const OWNER_TURNS_MAX: usize = HOST_TURNS_MAX / 4;

/// Bytes of the questions of running and queued turns, of all owners. A question may be as large as
/// a message, 16 MiB, so a limit on turns alone would not bound memory.
pub const HOST_QUESTION_BYTES_MAX: u32 = 256 << 20;

/// Bytes of the questions of one owner: a quarter, as with turns. That is four of the largest, or
/// 256 KiB for each turn an owner may have.
pub const OWNER_QUESTION_BYTES_MAX: u32 = HOST_QUESTION_BYTES_MAX / 4;

/// Turns queued for one session; further ones are refused.
pub const QUEUE_MAX: usize = 32;

/// Folders whose tools are kept open. Others are opened again when they are needed.
pub const WORKSPACES_MAX: usize = 64;

/// How long a tool may take. A command may ask for its own, longer time.
pub const TOOL_TIME_MAX: Duration = Duration::from_secs(60);

/// Timeout for a tool to stop after it was asked to; then it is abandoned.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// Bytes of a tool result that are stored; what a model sees of it is cut in the view.
pub const RESULT_BYTES_MAX: usize = 1 << 20;

/// How deep subagents may be nested: one may start another, which may start none.
pub const SUBAGENT_DEPTH_MAX: u8 = 2;

/// Compactions across which one can go back to a turn. Who goes back further opens that session.
pub const REWIND_PARENTS_MAX: usize = 8;

/// Changes by someone else that are loaded for one file, the latest ones: each has two versions of
/// the file, and a program that formats it after each edit makes many.
pub const REWIND_OTHERS_MAX: usize = 20;

/// Characters of a subagent's task that are used as the title of its session.
pub const SUBAGENT_TITLE_CHARS: usize = 80;

/// Read-only calls that run in parallel. More would wait for the same disk.
pub const LOOKING_MAX: usize = 8;

/// Calls of one reply. Models that make more at once are confused.
pub const CALLS_MAX: usize = 32;

/// How long a lease lasts. A turn renews it three times in that time; if a machine dies, the
/// session is blocked for no longer than this.
pub const LEASE: Duration = Duration::from_secs(15);

/// How long a turn waits for another one in the same session. The other one may be asking a slow
/// model.
pub const LEASE_WAIT: Duration = Duration::from_secs(120);

/// How often a waiting turn checks whether the session is free.
pub const LEASE_POLL: Duration = Duration::from_millis(50);

/// How long a model may take to write a summary or to acknowledge one.
pub const SUMMARY_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes of one `AGENTS.md` that are sent to a model. Good ones have a tenth of it; every request
/// pays for all of them.
pub const PROJECT_FILE_BYTES_MAX: u64 = 32 << 10;

/// Bytes of all of them together.
pub const PROJECT_BYTES_MAX: u64 = 64 << 10;

/// Folders that are searched for them, from the workspace upwards.
pub const PROJECT_FOLDERS_MAX: usize = 32;

/// Characters of one text that a summary uses. A pasted log would crowd out the rest.
pub const SUMMARY_TEXT_CHARS: usize = 8_000;

/// Tokens of conversation that an extracted summary considers.
pub const EXTRACT_TOKENS: u64 = 100_000;

/// Bytes of all attachments in one request. As base64 they stay below the thirty-two million that a
/// request may have.
pub const ATTACHED_BYTES_MAX: u64 = 22 << 20;
