//! Every limit of the Telegram bot: a number, its unit, and why it is that number.

use std::time::Duration;

/// UTF-16 units of one message, formatting not counted: Telegram's limit.
pub const MESSAGE_UNITS_MAX: usize = 4_096;

/// Bytes of the data of a button: Telegram's limit.
pub const BUTTON_BYTES_MAX: usize = 64;

/// Updates requested at once: Telegram's limit.
pub const UPDATES_MAX: u32 = 100;

/// Seconds that a long poll stays open while there are no updates. Long enough that an idle bot
/// asks about once a minute, short enough for any network on the way.
pub const POLL_SECONDS: u32 = 50;

/// Timeout of any other call.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Bytes of a response. A hundred updates with the longest messages are a tenth of it.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Length of the queue of updates. The others stay with Telegram, which keeps them for a day.
pub const PENDING_MAX: usize = 1_000;

/// Concurrent turns, in total. A turn mostly waits for a model; each holds the end of a log and a
/// reply, well below a megabyte.
pub const TURNS_MAX: usize = 64;

/// Update ids that are remembered, so that one delivered twice is handled once. Telegram repeats
/// only what was not confirmed, at most a hundred.
pub const SEEN_MAX: usize = 4_096;

/// Entries of the inbox before it is rotated.
pub const INBOX_ENTRIES_MAX: u64 = 2_000;

/// The same, at a moment when nothing is pending: what people wrote is not kept there for long.
pub const INBOX_IDLE_ENTRIES_MAX: u64 = 200;

/// How long a new process waits for the previous one to release the inbox. A process that shuts
/// down takes at most [`GRACE`].
pub const INBOX_WAIT: Duration = Duration::from_secs(30);

/// Messages and edits per second, to all chats together: Telegram allows about thirty.
pub const SENDS_PER_SECOND: u32 = 25;

/// How late a draft may be at that rate before it is dropped: the next one shows more anyway.
pub const DRAFT_BEHIND_MAX: Duration = Duration::from_millis(500);

/// Time between two edits of a draft in a private chat: Telegram allows about one message a second
/// in a chat.
pub const DRAFT_EVERY: Duration = Duration::from_millis(1_500);

/// The same in a group, where twenty a minute are allowed.
pub const DRAFT_EVERY_IN_GROUP: Duration = Duration::from_secs(4);

/// How long a reply may take before a draft is shown: most are complete by then, and are sent once.
pub const DRAFT_AFTER: Duration = Duration::from_millis(1_200);

/// Minimum length of a draft in characters; shorter ones say nothing.
pub const DRAFT_CHARS_MIN: usize = 24;

/// How often "typing" is sent: Telegram shows it for five seconds.
pub const TYPING_EVERY: Duration = Duration::from_secs(4);

/// First wait after a failed call; doubled each time, up to [`RETRY_WAIT_MAX`].
pub const RETRY_WAIT: Duration = Duration::from_millis(500);

/// Longest such wait: a bot is back this soon after its network is.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Timeout for running turns when the bot shuts down. Unfinished ones continue after the next
/// start. Service managers wait ninety seconds before they kill a process.
pub const GRACE: Duration = Duration::from_secs(25);

/// Sessions shown in one list of buttons: more do not fit a phone.
pub const LIST_ROWS: usize = 8;

/// Messages one page of `/history` may take.
pub const HISTORY_PARTS_MAX: usize = 5;

/// Strangers that one process answers, each once. More are not answered: nobody should be able to
/// use the bot for sending messages.
pub const STRANGERS_MAX: usize = 1_000;

/// Characters of a name shown to a model. Telegram allows 64 for each half.
pub const NAME_CHARS_MAX: usize = 128;

/// Bytes of a file with a token. One has about fifty.
pub const TOKEN_FILE_BYTES_MAX: u64 = 4_096;

/// Imported sessions in which one process offers, below an answer, to turn tools on. For later ones
/// the button is in `/status`.
pub const OFFERS_MAX: usize = 10_000;

/// Characters of a question that `/status` shows.
pub const STATUS_QUESTION_CHARS: usize = 80;

/// Bytes of a file that is downloaded from Telegram: its limit for bots.
pub const FILE_BYTES_MAX: u64 = 20 << 20;

/// Bytes of a text file that are sent to a model: about fifteen thousand tokens.
pub const TEXT_FILE_BYTES_MAX: usize = 64 << 10;

/// Timeout for downloading a file.
pub const FILE_TIME_MAX: Duration = Duration::from_secs(120);
