//! Limits of the tools: numbers, their units, and the reasons.
//!
//! If a model asks for more than the maximum, it gets the maximum, and the result says that there
//! is more.

use std::time::Duration;

/// Bytes of a file that is read, searched or written completely. Source and prose are far below;
/// larger files are data, of which a model needs a range.
pub const FILE_BYTES_MAX: u64 = 8 << 20;

/// Bytes at the beginning of a file in which a NUL marks it as binary, as in git.
pub const BINARY_BYTES: u64 = 8 << 10;

/// Lines of one `read_file`. More than a model can use at once.
pub const READ_LINES_MAX: u64 = 2_000;

/// Bytes of one `read_file`, and of the output of `run`.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// Entries of one `list_dir` or `glob`.
pub const LIST_ROWS_MAX: usize = 1_000;

/// Entries of a folder that are read before it is sorted. A folder with more is a spool or a cache,
/// and reading its names alone would be slow.
pub const DIR_ENTRIES_MAX: usize = 100_000;

/// Files a directory walk visits before it gives up. Large monorepos have as many; a walk through
/// more takes minutes.
pub const WALK_FILES_MAX: usize = 500_000;

/// Edits in one `edit_file`. For more, rewrite the file.
pub const EDITS_MAX: usize = 100;

/// Default number of matches of `grep`.
pub const MATCHES: u64 = 100;

/// Maximum number of matches of `grep`.
pub const MATCHES_MAX: u64 = 500;

/// Lines of context `grep` shows before and after a match, at most. For more, read the file.
pub const CONTEXT_LINES_MAX: u64 = 5;

/// Characters of a line that `grep` shows. Longer lines are data or minified code.
pub const LINE_CHARS_MAX: usize = 300;

/// Bytes a compiled pattern may take, and its cache. A pattern from a model must not cost more
/// than the file it searches.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Lines searched between two checks for cancellation.
pub const LINES_PER_LOOK: usize = 4_096;

/// Default number of characters of `recall`: two truncated results.
pub const RECALL_CHARS: u64 = 8_000;

/// Maximum number of characters of `recall`.
pub const RECALL_CHARS_MAX: u64 = 32_000;

/// References one `recall` takes at once.
pub const RECALL_REFERENCES_MAX: usize = 16;

/// Entries of a log that are searched for the id of a call, from its end: weeks of conversation.
pub const RECALL_ENTRIES_MAX: u64 = 20_000;

/// Sessions before this one that are searched for the id of a call.
pub const RECALL_PARENTS_MAX: usize = 8;

/// Default number of hits of `search_sessions`.
pub const HITS: u64 = 8;

/// Maximum number of hits of `search_sessions`.
pub const HITS_MAX: u64 = 20;

/// Hits read from the store at once, so that enough are left without those of the current turn.
pub const HITS_SEEN: usize = 100;

/// Pages of them. Every session has instructions with the same words, so that a page may have
/// nothing else; after five, other words are needed.
pub const HITS_PAGES_MAX: usize = 5;

/// Default timeout of a command.
pub const RUN_SECONDS: u64 = 60;

/// Maximum timeout of a command. A build fits; a server should run in the background.
pub const RUN_SECONDS_MAX: u64 = 600;

/// Maximum lifetime of a background command: half a working day. A server that is still needed then
/// can be started again.
pub const BACKGROUND_SECONDS_MAX: u64 = 4 * 3_600;

/// Commands that one session may have in the background at once.
pub const BACKGROUND_MAX: usize = 8;

/// Commands that all sessions of a workspace may have in the background at once.
pub const BACKGROUND_ALL_MAX: usize = 32;

/// Sessions before this one whose commands in the background it still reaches. A day's work is
/// compacted a few times.
pub const BACKGROUND_PARENTS_MAX: usize = 8;

/// Commands in the background that are remembered after their end, with what nobody has read of
/// their output.
pub const BACKGROUND_ENDED_MAX: usize = 32;

/// Maximum time `run_output` waits for the end of a command.
pub const BACKGROUND_WAIT_MAX: u64 = 300;

/// Items on a `todo` list. More than this is more than one task.
pub const TODO_ITEMS_MAX: usize = 50;

/// Characters of one of them.
pub const TODO_CHARS_MAX: usize = 300;

/// Maximum interval at which `run` checks its command.
pub const RUN_LOOK: Duration = Duration::from_millis(20);

/// How long a launcher may take to end leftover processes. It gives up earlier by itself, and the
/// loop waits five seconds longer than the command may run.
pub const RUN_END_WAIT: Duration = Duration::from_secs(3);

/// How long to wait for the output of a killed command. A process that left its group may keep the
/// pipe open forever.
pub const RUN_OUTPUT_WAIT: Duration = Duration::from_secs(1);
