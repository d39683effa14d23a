//! Every limit of the engine: a number, its unit, and why it is that number.
//!
//! Limits that belong to one interface (body sizes of HTTP, message lengths of a chat bot) are in
//! its crate.

use std::time::Duration;

/// Characters of a tool result that a model sees while its turn runs. Four thousand is about a
/// thousand tokens: enough to act on, and when real sessions are replayed, it costs two thirds of
/// sending everything.
pub const RESULT_CHARS_MAX: usize = 4_000;

/// The note after a tool result that was cut at [`RESULT_CHARS_MAX`].
pub const TRUNCATED_MARK: &str = "\n\n[truncated]";

/// Characters shown of a file that was read from its beginning, not counting lines with new names.
/// These numbers were chosen by replaying sessions: `docs/economy.md` has the curve.
pub const SHOWN_READ_CHARS: usize = 6_000;

/// The same for a part of a file: if a range was requested, it is needed.
pub const SHOWN_RANGE_CHARS: usize = 12_000;

/// The same for the output of a command; a third of it is its end.
pub const SHOWN_SHELL_CHARS: usize = 1_000;

/// The same for results of searches and listings.
pub const SHOWN_SEARCH_CHARS: usize = 1_000;

/// The same for the report of another agent.
pub const SHOWN_AGENT_CHARS: usize = 4_000;

/// The same for other tools.
pub const SHOWN_OTHER_CHARS: usize = 2_000;

/// The same for text that was fetched on purpose: the most that `recall` returns at once.
pub const SHOWN_RECALL_CHARS: usize = 40_000;

/// Characters by which a result may exceed its allowance, in addition to a tenth of it, and still
/// be shown completely.
pub const SHOWN_SLACK_CHARS: usize = 200;

/// Characters of lines that are shown because they contain new names.
pub const SHOWN_NAMES_CHARS: usize = 4_000;

/// Characters shown of the output of a successful edit.
pub const ECHO_CHARS: usize = 80;

/// Lines and characters a run needs before it is replaced by a reference to an earlier result:
/// below that, the reference is as long as the run.
pub const REPEAT_LINES_MIN: usize = 4;
/// See [`REPEAT_LINES_MIN`].
pub const REPEAT_CHARS_MIN: usize = 160;

/// Length in bytes from which the parts of a line are shown or left out separately.
pub const FOLD_CHARS: usize = 240;

/// Characters a result must show to be worth thinning.
pub const THIN_FROM_CHARS: usize = 400;

/// Characters of the beginning that a thin result keeps, and of lines with new names.
pub const THIN_HEAD_CHARS: usize = 120;
/// See [`THIN_HEAD_CHARS`].
pub const THIN_NAMES_CHARS: usize = 600;

/// Tokens of results since the last thinning before there is another: fewer are not worth an entry.
pub const THIN_TOKENS_MIN: u64 = 1_000;

/// Calls that are expected after a question, at least, when deciding whether thinning a warm
/// context pays.
pub const THIN_CALLS_AHEAD: u64 = 20;

/// Input tokens that thinning a warm context must save to be worth it.
pub const THIN_GAIN_TOKENS_MIN: u64 = 1_000;

/// Entries of a log whose calls are replayed to compute their cost: a long day of work, which takes
/// a second or two.
pub const ECONOMY_ENTRIES_MAX: u64 = 20_000;

/// Entries before the question of a turn that are considered when deciding what is new in a result:
/// as many as are read when a session is opened.
pub const SEEN_ENTRIES: u64 = READ_ENTRIES;

/// Messages the `emacs` preset keeps, unless the session says otherwise.
pub const HISTORY_MESSAGES_MAX: u32 = 100;

/// Texts of finished turns the `bot` preset keeps: the last question and the last answer.
pub const CLIP_TEXTS: usize = 2;

/// Characters of each text the `bot` preset keeps.
pub const CLIP_CHARS: usize = 500;

/// How long a deleted session stays in the trash. After a month people stop looking for what they
/// deleted, and mail and photo programs use the same period.
pub const TRASH_KEPT: Duration = Duration::from_hours(30 * 24);

/// How often a writing process looks for expired sessions in the trash.
pub const TRASH_SWEPT_EVERY: Duration = Duration::from_hours(1);

/// Characters of a preview in a list. Two lines of a terminal.
pub const PREVIEW_CHARS: usize = 200;

/// Characters of plain text a stub keeps as its summary.
pub const STUB_SUMMARY_CHARS: usize = 200;

/// File names a stub lists. More would make the stub as long as what it replaces.
pub const STUB_FILES_MAX: usize = 20;

/// Bytes of tool output that are parsed as JSON for a stub; above it, the first characters are
/// used. Parsing more than this would noticeably slow down an append.
pub const STUB_PARSE_BYTES_MAX: usize = 4 << 20;

/// Damaged entries that may be skipped when reading for a context. If there are more, the log has
/// changed so much that the user should know before continuing.
pub const DAMAGED_ENTRIES_MAX: usize = 64;

/// Bytes of one attachment. It is held in memory while it is stored or read.
pub const BLOB_BYTES_MAX: usize = 64 << 20;

/// Bytes of a picture that is sent to a model. Providers accept five million as base64, which is a
/// third longer.
pub const IMAGE_BYTES_MAX: u64 = 3_750_000;

/// Bytes of a PDF that is sent to a model. Providers accept requests of thirty-two million and
/// more.
pub const DOCUMENT_BYTES_MAX: u64 = 20 << 20;

/// Bytes of one message as JSON. Larger content belongs in attachments, or in files a message
/// refers to.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Entries in one append. A batch is one transaction, held in memory.
pub const BATCH_ENTRIES_MAX: usize = 10_000;

/// Bytes of an entry id. A UUID needs 36; a client's own scheme (`tg:123456789`) less.
pub const ENTRY_ID_BYTES_MAX: usize = 128;

/// Characters of a session name. It becomes a file name with `.json` appended.
pub const NAME_CHARS_MAX: usize = 64;

/// Characters of a name before it is normalised: nobody types more, and processing more is wasted
/// work.
pub const NAME_INPUT_CHARS_MAX: usize = 1_000;

/// Attempts to find a free name (`-2`, `-3`, …). Someone with this many sessions of one name is
/// better served by an error.
pub const NAME_TRIES_MAX: u32 = 1_000;

/// Bytes of a key. Long enough for any path a file system allows, short enough to index.
pub const KEY_BYTES_MAX: usize = 4_200;

/// Bytes of an owner: in hex they fit into the name of a file.
pub const OWNER_BYTES_MAX: usize = 120;

/// Bytes of a description, a workspace path, an agent path, a provider or a model name.
pub const FIELD_BYTES_MAX: usize = 8_192;

/// Bytes of the fields that only a store understands, where a session is copied or imported. They
/// are in the header, which every list reads; what programs keep in addition to their messages is
/// far less.
pub const EXTRA_BYTES_MAX: usize = 16 << 20;

/// Bytes of a search query.
pub const QUERY_BYTES_MAX: usize = 1_024;

/// Rows a list or a search returns at once.
pub const PAGE_ROWS_MAX: usize = 1_000;

/// Entries read at once when a context is planned or a log is traversed.
pub const READ_ENTRIES: u64 = 256;

/// Bytes of text counted at once. Counting is slightly worse than linear for one endless word, so
/// longer texts are counted in slices; the sum is off by at most one token per slice.
pub const COUNT_SLICE_BYTES: usize = 64 << 10;

/// Attempts of an append without a fixed head that lost a race for the end of the log.
pub const APPEND_TRIES_MAX: u32 = 64;

/// The longest lease. If a holder dies, the session is blocked for at most this long.
pub const LEASE_MAX: Duration = Duration::from_secs(600);

/// Tokens reserved for the reply if the model's description does not say how many it needs.
pub const REPLY_TOKENS: u64 = 8_192;

/// Context window, in tokens, of an unknown model.
pub const WINDOW_TOKENS: u64 = 128_000;

/// Tokens of the last turns that a compacted or resumed session carries over verbatim: enough to
/// know what "that" was, few enough not to undo the saving.
pub const TAIL_TOKENS_MAX: u32 = 4_000;

/// Tokens of the names that a compacted or resumed session gets in addition to the summary. In long
/// sessions, 2,000 tokens cover about four in five of the names used later.
pub const NAMES_TOKENS_MAX: u32 = 2_000;

/// Calls an importer remembers while they wait for their results. A reply makes a handful at once;
/// if a thousand newer calls are open, an older one will not be answered.
pub const CALLS_OPEN_MAX: usize = 1_000;

/// Number of entries from which their tokens are counted and they are compressed on two threads.
/// Starting a thread takes as long as counting a few of them.
pub const PARALLEL_MIN: usize = 16;
