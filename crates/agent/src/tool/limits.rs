//! How much a tool reads, finds and writes: numbers, their units, and why they are that large.
//!
//! Where a model asks for more than the most, it gets the most, and the answer says that there is
//! more.

use std::time::Duration;

/// Bytes of a file that is read, searched or written as a whole. Source and prose are far below;
/// what is above is data, of which a model wants a range.
pub const FILE_BYTES_MAX: u64 = 8 << 20;

/// Bytes at the beginning of a file in which a NUL shows that it is binary. Git looks as far.
pub const BINARY_BYTES: u64 = 8 << 10;

/// Lines one `read_file` gives. More than a model can use at once.
pub const READ_LINES_MAX: u64 = 2_000;

/// Bytes one `read_file` gives, and the longest output of `run`.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// Entries one `list_dir` or `glob` gives.
pub const LIST_ROWS_MAX: usize = 1_000;

/// Entries of a folder that are looked at before it is sorted. A folder with more is a spool or a
/// cache, and reading its names alone would be felt.
pub const DIR_ENTRIES_MAX: usize = 100_000;

/// Files a walk passes before it gives up. Large monorepos have as many; a walk through more
/// takes minutes.
pub const WALK_FILES_MAX: usize = 500_000;

/// Edits in one `edit_file`. For more, rewrite the file.
pub const EDITS_MAX: usize = 100;

/// Matches `grep` gives when the model does not say.
pub const MATCHES: u64 = 100;

/// Matches `grep` gives at the most.
pub const MATCHES_MAX: u64 = 500;

/// Lines of context `grep` shows before and after a match, at most. For more, read the file.
pub const CONTEXT_LINES_MAX: u64 = 5;

/// Characters of a line that `grep` shows. Longer lines are data or minified code.
pub const LINE_CHARS_MAX: usize = 300;

/// Bytes a compiled pattern may take, and its cache. A pattern from a model must not cost more
/// than the file it searches.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Lines searched between two looks at whether someone still waits.
pub const LINES_PER_LOOK: usize = 4_096;

/// Characters `recall` gives when the model does not say: two truncated results.
pub const RECALL_CHARS: u64 = 8_000;

/// Characters `recall` gives at the most.
pub const RECALL_CHARS_MAX: u64 = 32_000;

/// References one `recall` takes at once.
pub const RECALL_REFERENCES_MAX: usize = 16;

/// Entries of a log that are searched for the id of a call, from its end. That is weeks of talk.
pub const RECALL_ENTRIES_MAX: u64 = 20_000;

/// Sessions before this one that are searched for the id of a call.
pub const RECALL_PARENTS_MAX: usize = 8;

/// Places `search_sessions` gives when the model does not say.
pub const HITS: u64 = 8;

/// Places `search_sessions` gives at the most.
pub const HITS_MAX: u64 = 20;

/// Hits taken from the store, so that enough are left without those of the current turn.
pub const HITS_SEEN: usize = 100;

/// How long a command may run when the model does not say.
pub const RUN_SECONDS: u64 = 60;

/// How long a command may run at the most. A build fits; a server does not belong here.
pub const RUN_SECONDS_MAX: u64 = 600;

/// How long a command may run in the background. A server fits a working day's half; one that is
/// still needed then can be started again.
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

/// How long `run_output` waits for the end of a command at the most.
pub const BACKGROUND_WAIT_MAX: u64 = 300;

/// Items on a `todo` list. More than this is more than one task.
pub const TODO_ITEMS_MAX: usize = 50;

/// Characters of one of them.
pub const TODO_CHARS_MAX: usize = 300;

/// How long `run` waits between two looks at its command, at the most.
pub const RUN_LOOK: Duration = Duration::from_millis(20);

/// How long a launcher may take to end what its command left running. It gives up earlier by itself,
/// and the loop waits five seconds longer than the command may run.
pub const RUN_END_WAIT: Duration = Duration::from_secs(3);

/// How long the output of a killed command is waited for. A process that left its group may hold
/// the pipe for ever.
pub const RUN_OUTPUT_WAIT: Duration = Duration::from_secs(1);
