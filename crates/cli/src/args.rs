//! The command line, as clap types.

mod chat_flags;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use rethread_agent::Grant;
use rethread_core::context::Policy;
use rethread_core::search::Speaker;

pub(crate) use chat_flags::{ChatFlags, Open};

const ABOUT: &str = "Pick up the thread: the session layer for AI agents";

const LONG_ABOUT: &str = "Pick up the thread: the session layer for AI agents.

A session is an append-only log. What the model sees is computed from it: long tool results are \
cut, old ones shortened, and the oldest turns dropped when the window is full. The log itself never \
changes, and `context --explain` lists what was cut and why.

Without a command, rethread opens a chat. It works without an API key: an offline model answers by \
searching this folder and your earlier sessions. For a real model, set ANTHROPIC_API_KEY, \
OPENAI_API_KEY or OLLAMA_HOST, or choose one with --model.

SEL selects a session: its position in `list` (1 is the newest), its name, its id \
(`build_20251230_112153`, or the start of the UUID), or `last`.";

const EXAMPLES: &str = "Examples:
  rethread                                  open a chat
  rethread -c                               continue where this folder's last chat ended
  rethread -p 'what does this project do?'  ask one question and exit
  cargo test 2>&1 | rethread -p 'why?'      ask about the output of a command
  rethread --resume 2                       start from the summary of the second-newest session
  echo '{\"role\":\"user\",\"content\":\"hello\"}' | rethread append --new --name greeting
  rethread list
  rethread show greeting
  rethread context greeting --explain
  rethread search hello";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) talk: ChatFlags,
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Global options.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Store to use: `sqlite:PATH`, `files:DIR`, `postgres://USER@HOST/DATABASE`, or a path. Other
    /// users can see the command line: a URL with a password belongs in RETHREAD_STORE [env:
    /// RETHREAD_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Owner of the sessions [env: RETHREAD_OWNER]
    #[arg(long, global = true, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    /// Folder a new session works in [default: the current folder]; for list, search and stats: only
    /// sessions of this folder
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Configuration file [env: RETHREAD_CONFIG]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON; errors become {"error", "hint"} on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List sessions, newest first
    #[command(alias = "ls")]
    List(List),
    /// Show a session's conversation
    Show(Show),
    /// Search all sessions
    Search(Search),
    /// Show what the model would be sent, and what was cut
    Context(Context),
    /// Show tokens, time, models and cost, of one session or by session, folder or day
    Stats(Stats),
    /// Append messages, read as JSON lines from standard input
    #[command(after_help = APPEND)]
    Append(Append),
    /// Continue a session with its whole history
    #[command(after_help = OPEN)]
    Open(Open),
    /// Reset the context of a session (the log is kept)
    Clear(One),
    /// Summarise a session and continue in a new, smaller one
    Compact(Compact),
    /// Start a chat from the summary of a session or a transcript (.md)
    Resume(Resume),
    /// Copy a session, up to a given entry, into a new one
    Fork(Fork),
    /// Undo a delete, the latest clear, or the compact, resume, fork or new that started a session
    Undo(Undo),
    /// Rename a session
    Rename(Rename),
    /// Hide sessions from lists; search still finds them
    Archive(Several),
    /// Show archived sessions in lists again
    Unarchive(Several),
    /// Move sessions to the trash; `undo` brings them back for 30 days
    Delete(Delete),
    /// List, restore or erase deleted sessions
    Trash(TrashArgs),
    /// Archive all but the newest sessions
    Purge(Purge),
    /// Copy sessions to another store; repeat it to copy what is new
    #[command(after_help = COPY)]
    Copy(Copy),
    /// Import sessions from other programs' files
    #[command(after_help = IMPORT)]
    Import(Import),
    /// Export a session as Markdown, HTML, JSON, or another program's format
    #[command(after_help = EXPORT)]
    Export(Export),
    /// Check the sessions of all owners, and repair what can be rebuilt from their logs
    Doctor(Doctor),
    /// Serve sessions over HTTP, for editors and programs
    #[command(after_help = SERVE)]
    Serve(Serve),
    /// Run a Telegram bot with a session for each person
    #[command(after_help = TELEGRAM)]
    Telegram(Telegram),
    /// Manage access tokens for remote clients
    #[command(subcommand)]
    Token(Token),
    /// List agents, and where each one comes from
    Agents(Agents),
    /// Show the configuration, and where each value comes from
    Config,
    /// Print shell completions
    #[command(
        after_help = "Example: rethread completions bash > ~/.local/share/bash-completion/completions/rethread"
    )]
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the manual page, or write one page per command to a folder
    Man {
        /// Folder to write the pages to
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

const OPEN: &str =
    "At a terminal, this opens a chat. In a script, it makes SEL the session that `rethread -c` \
continues in this folder; with --key, the session of that key.

Examples:
  rethread open 2
  rethread open rate-limiter --key file:Notes/foo.md";

const APPEND: &str = "Each line is one message: {\"role\": …, \"content\": …}. The content is a string, a block, or \
a list of blocks (text, tool_use, tool_result, …). A line with an \"id\" can safely be sent twice. Once a message is \
on disk, {\"session\":…,\"seq\":…} is printed for it.

Examples:
  echo '{\"role\":\"user\",\"content\":\"hello\"}' | rethread append --new --name greeting
  echo '{\"role\":\"assistant\",\"content\":\"hi\",\"id\":\"reply-1\"}' | rethread append greeting
  rethread append --key file:Notes/foo.md --batch < turn.jsonl";

const COPY: &str = "Sessions keep their ids, times and keys. If a name is taken in the target store, a number is added; \
if a key is bound to another session there, it is left alone. Every entry is compared after copying.

Examples:
  rethread copy --to files:sessions                      as files other programs can read
  rethread copy --from files:~/.agent/sessions --to sqlite:all.db plan 3";
const IMPORT: &str =
    "The format of a file is recognised by its content. Importing again adds only what is new.

Examples:
  rethread import ~/.claude/projects
  rethread import --from codex --dry-run
  rethread import old-chats/*.json notes.md";

const EXPORT: &str = "Formats:
  markdown            for people
  html                a self-contained page; secrets are removed by default
  rethread            the whole log as JSON lines, for `rethread import`
  openai, anthropic   messages as these APIs take them
  magent, agent, telegram
                      the files of these programs

Examples:
  rethread export last -o chat.md
  rethread export rate-limiter --format html -o chat.html
  rethread export 1 --format rethread --chain > chat.jsonl";

/// Flags of `import`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    /// Files and folders to import
    #[arg(value_name = "PATH", required_unless_present = "from", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Import this program's sessions from where it keeps them
    #[arg(long, value_name = "TOOL", value_parser = tool())]
    pub(crate) from: Option<String>,
    /// Bind sessions to the keys the files name, unless a key is taken. A key decides which
    /// conversation an editor or a bot continues, so use this only for files you trust
    #[arg(long)]
    pub(crate) keys: bool,
    /// Show what would be imported, and import nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Count the records of each file: stored, kept unparsed, or unreadable
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// A program whose session folders are known, by its name or a common alias.
fn tool() -> impl TypedValueParser<Value = String> {
    let names = TOOLS.map(|name| match name {
        "claude-code" => PossibleValue::new(name).alias("claude"),
        _ => PossibleValue::new(name),
    });
    let full = |name: String| if name == "claude" { "claude-code".to_owned() } else { name };
    PossibleValuesParser::new(names).map(full)
}

/// Programs whose session folders are known.
pub(crate) const TOOLS: [&str; 10] = [
    "claude-code",
    "codex",
    "gemini",
    "opencode",
    "goose",
    "llm",
    "pi",
    "aider",
    "magent",
    "agent",
];

/// Flags of `export`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    /// Session to export
    pub(crate) sel: String,
    /// Format to write
    #[arg(long, short, value_name = "FORMAT", default_value = "markdown", value_parser = clap::builder::PossibleValuesParser::new(FORMATS))]
    pub(crate) format: String,
    /// Include the sessions this one continues, oldest first, in one document
    #[arg(long)]
    pub(crate) chain: bool,
    /// Include what was said before the last clear (the format rethread always does)
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Remove secrets and home folders, and report what was removed
    #[arg(long, overrides_with = "no_redact")]
    pub(crate) redact: bool,
    /// Remove nothing (the default, except for html)
    #[arg(long, overrides_with = "redact")]
    pub(crate) no_redact: bool,
    /// File to write, or `-` for standard output (the default)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// The formats for export.
pub(crate) const FORMATS: [&str; 8] =
    ["markdown", "rethread", "openai", "anthropic", "magent", "agent", "telegram", "html"];
const SERVE: &str =
    "Connections from this machine need no token and act as the owner `local`. To listen on an address \
that other machines can reach, create a token first (`rethread token create`).

Examples:
  rethread serve
  curl -s http://127.0.0.1:8000/chat -H 'content-type: application/json' \\
    -d '{\"message\":\"what is this about?\",\"session_id\":null,\"active_file\":\"README.md\"}'
  rethread serve --listen 0.0.0.0:8000 --allow-host box.example.org";

/// Flags of `serve`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Address to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value_t = rethread_http::DEFAULT_ADDRESS)]
    pub(crate) listen: SocketAddr,
    /// Model to use [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Agent of new sessions, unless the request names one: build, plan, explore, general, or one of
    /// your own
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Offer a tool that changes things, and run it without asking: write_file, edit_file, run, or
    /// `run:cargo test` for commands that start with `cargo test`
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) allow: Vec<Grant>,
    /// Require a token from connections on this machine, too
    #[arg(long)]
    pub(crate) require_token: bool,
    /// Allow browser requests from this origin (CORS), such as `https://example.org` (repeatable)
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) allow_origin: Vec<String>,
    /// Accept this Host header, such as box.example.org (repeatable)
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Log each request to standard error as a line of JSON [default: if stderr is not a terminal]
    #[arg(long)]
    pub(crate) log: bool,
}

const TELEGRAM: &str =
    "The bot token comes from TELEGRAM_BOT_TOKEN or from a file that only you can read. It is not an \
option, because other users can see the command line. The bot answers only the people you allow: send it \
a message, and it replies with your user id.

Configuration: telegram.allow_users, telegram.owners (with [\"12345=local\"], the phone and the terminal \
share their sessions), telegram.roots, telegram.token_file, telegram.policy, telegram.clip_texts, \
telegram.clip_chars.

Examples:
  TELEGRAM_BOT_TOKEN=… rethread telegram --allow-user 12345
  rethread telegram --token-file ~/.config/rethread/bot-token --allow-user 12345 --allow-user 67890
  rethread telegram --token-file bot-token --root ~/projects --model anthropic/claude-sonnet-4-5";

/// Flags of `telegram`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Telegram {
    /// Telegram user id of someone who may use the bot (repeatable)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) allow_user: Vec<u64>,
    /// File with the bot token, readable only by you [default: TELEGRAM_BOT_TOKEN in the environment]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Allow sessions to work in this folder and those below it (repeatable) [default: the workspace]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) root: Vec<PathBuf>,
    /// Policy for building the context [default: bot, which sends the last 2 messages, 500 characters
    /// each]
    #[arg(long, value_name = "POLICY", value_parser = clap::builder::PossibleValuesParser::new(Policy::PRESETS))]
    pub(crate) policy: Option<String>,
    /// Model to use [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Agent of new sessions: build, plan, explore, general, or one of your own
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Offer a tool that changes things, and run it without asking: write_file, edit_file, run, or
    /// `run:cargo test` for commands that start with `cargo test`
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) allow: Vec<Grant>,
}

/// An origin is a scheme and a host; wildcards are not allowed.
fn origin(text: &str) -> Result<String, String> {
    let host = text.split_once("://").map(|(_, host)| host.trim_end_matches('/'));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', '*']) => Ok(text.to_owned()),
        _ => Err("an origin is a scheme and a host, such as https://example.org".into()),
    }
}

/// What can be done with access tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token for the sessions of --owner, and print it once
    Create {
        /// Name of the token, such as `laptop`
        name: String,
    },
    /// List the names, owners and dates of tokens
    List,
    /// Revoke a token
    Revoke {
        /// Name of the token
        name: String,
    },
}

/// Flags of `agents`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Agents {
    /// Trust this project's agents and commands, exactly as they are now
    #[arg(long)]
    pub(crate) trust: bool,
}

/// Flags of `stats`. `--workspace` limits it to the sessions of a folder.
#[derive(Debug, ClapArgs)]
pub(crate) struct Stats {
    /// Session to count, with its messages and tools [default: all sessions]
    pub(crate) sel: Option<String>,
    /// How to group the totals
    #[arg(long, value_name = "GROUP", default_value = "day", value_parser = by(), conflicts_with = "sel")]
    pub(crate) by: By,
    /// Only count what was said since then: `7d`, `yesterday`, `2025-01-04`
    #[arg(long, value_name = "WHEN", conflicts_with = "sel")]
    pub(crate) since: Option<crate::since::Since>,
    /// Also count tool calls and failures; slower, because it reads every log
    #[arg(long, conflicts_with = "sel")]
    pub(crate) tools: bool,
}

fn by() -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(By::ALL.map(By::as_str)).map(|given| {
        let known = By::ALL.into_iter().find(|by| by.as_str() == given);
        known.expect("one of those that are offered")
    })
}

/// How `stats` groups its totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Session,
    Folder,
    Day,
}

impl By {
    const ALL: [By; 3] = [By::Session, By::Folder, By::Day];

    /// Its name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            By::Session => "session",
            By::Folder => "folder",
            By::Day => "day",
        }
    }
}

/// One session.
#[derive(Debug, ClapArgs)]
pub(crate) struct One {
    /// Session: position in the list, name, id, or `last`
    pub(crate) sel: String,
}

/// Some sessions.
#[derive(Debug, ClapArgs)]
pub(crate) struct Several {
    /// Sessions: positions in the list, names, ids, or `last`
    #[arg(required = true, value_name = "SEL")]
    pub(crate) sels: Vec<String>,
}

/// Default number of sessions in a list.
pub(crate) const LIST_ROWS: u32 = 20;

/// Flags of `list`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct List {
    /// Include archived and empty sessions, and every session of a chain rather than the newest
    #[arg(long, short)]
    pub(crate) all: bool,
    /// List archived sessions only
    #[arg(long, conflicts_with = "all")]
    pub(crate) archived: bool,
    /// Number of sessions to list
    #[arg(long, short = 'n', value_name = "N", default_value_t = LIST_ROWS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Continue after this cursor (printed by the previous page)
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

impl Default for List {
    fn default() -> List {
        List { all: false, archived: false, limit: LIST_ROWS, after: None }
    }
}

/// Flags of `show`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// Session: position in the list, name, id, or `last`
    pub(crate) sel: String,
    /// Include what was said before the last clear
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Show everything in full: tool input and results, instructions, thinking
    #[arg(long)]
    pub(crate) full: bool,
    /// Show only the last N entries
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<u64>,
    /// Start at this entry
    #[arg(long, value_name = "SEQ", conflicts_with = "last")]
    pub(crate) from: Option<u64>,
    /// Stop after this entry
    #[arg(long, value_name = "SEQ", conflicts_with = "last")]
    pub(crate) to: Option<u64>,
}

fn speaker() -> impl TypedValueParser<Value = Speaker> {
    PossibleValuesParser::new(Speaker::ALL.map(Speaker::as_str)).map(|given| {
        let known = Speaker::ALL.into_iter().find(|speaker| speaker.as_str() == given);
        known.expect("one of those that are offered")
    })
}

/// Flags of `search`. `--workspace` limits it to the sessions of a folder.
#[derive(Debug, ClapArgs)]
pub(crate) struct Search {
    /// Words to find. All must appear in the same message. `limit*` matches words that start with
    /// `limit`, and `"token bucket"` matches the phrase
    #[arg(required = true)]
    pub(crate) words: Vec<String>,
    /// Only what was said since then: `7d`, `2h`, `yesterday`, `2025-01-04`
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<crate::since::Since>,
    /// Only messages from this speaker
    #[arg(long, value_name = "WHO", value_parser = speaker())]
    pub(crate) from: Option<Speaker>,
    /// Number of hits to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Number of hits to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: u32,
}

/// Flags of `context`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Context {
    /// Session: position in the list, name, id, or `last`
    pub(crate) sel: String,
    /// Policy for building the context [default: as in the chat]
    #[arg(long, value_name = "POLICY", value_parser = clap::builder::PossibleValuesParser::new(Policy::PRESETS))]
    pub(crate) policy: Option<String>,
    /// Keep at most N messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_history: Option<u32>,
    /// Model to build it for [default: as in the chat] [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Size of the context window in tokens, reply included [default: the configured window, or the
    /// model's]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(256..))]
    pub(crate) window: Option<u64>,
    /// Show the context as it was after this entry [default: the last one]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Print one line per message, and what was cut and why
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Flags of `append`.
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("where").required(true).args(["sel", "key", "new"]))]
pub(crate) struct Append {
    /// Session to append to: position in the list, name, id, or `last`
    pub(crate) sel: Option<String>,
    /// Append to the session of this key, created if necessary
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Append to a new session
    #[arg(long)]
    pub(crate) new: bool,
    /// Name of the new session
    #[arg(long, conflicts_with = "sel")]
    pub(crate) name: Option<String>,
    /// Agent of the new session
    #[arg(long, conflicts_with = "sel")]
    pub(crate) agent: Option<String>,
    /// Description of the new session
    #[arg(long, conflicts_with = "sel")]
    pub(crate) description: Option<String>,
    /// Messages the context of the new session keeps at most
    #[arg(long, value_name = "N", conflicts_with = "sel", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_history: Option<u32>,
    /// Store all lines or none
    #[arg(long)]
    pub(crate) batch: bool,
}

/// Flags of `compact`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Compact {
    /// Session: position in the list, name, id, or `last`
    pub(crate) sel: String,
    /// Model that writes the summary [default: as in the chat]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Show how many tokens it would save, and change nothing
    #[arg(long)]
    pub(crate) preview: bool,
    /// Compact even if the conversation is too short to save anything
    #[arg(long)]
    pub(crate) force: bool,
}

/// Flags of `resume`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Resume {
    /// Session (position in the list, name, id, or `last`) or transcript [default: pick one from a
    /// list]
    #[arg(value_name = "SEL|FILE")]
    pub(crate) sel: Option<String>,
    /// Agent to use [default: the agent of the session]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Model to use [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
}

/// Flags of `fork`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Fork {
    /// Session: position in the list, name, id, or `last`
    pub(crate) sel: String,
    /// Last entry to copy [default: copy everything]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Name of the copy
    #[arg(long)]
    pub(crate) name: Option<String>,
}

/// Flags of `undo`.
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("where").args(["sel", "key"]))]
pub(crate) struct Undo {
    /// Session: position in the list, name, id, or `last` [default: the one deleted last]
    pub(crate) sel: Option<String>,
    /// Use the session of this key
    #[arg(long)]
    pub(crate) key: Option<String>,
}

/// Flags of `rename`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Rename {
    /// Session: position in the list, name, id, or `last`
    pub(crate) sel: String,
    /// New name
    pub(crate) name: String,
}

/// Flags of `delete`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Delete {
    /// Sessions: positions in the list, names, ids, or `last`
    #[arg(required = true, value_name = "SEL")]
    pub(crate) sels: Vec<String>,
    /// Erase the sessions for good instead. Asks first; in a script, it needs -y and names or full
    /// ids
    #[arg(long)]
    pub(crate) now: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Arguments of `trash`.
#[derive(Debug, ClapArgs)]
pub(crate) struct TrashArgs {
    /// What to do with it; without a word it is listed.
    #[command(subcommand)]
    pub(crate) command: Option<Trash>,
}

/// What can be done with the trash.
#[derive(Debug, Subcommand)]
pub(crate) enum Trash {
    /// List deleted sessions, most recently deleted first (the default)
    List,
    /// Restore sessions, with those of their keys that are still free
    Restore(Several),
    /// Erase everything in the trash
    Empty {
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

/// Flags of `purge`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Purge {
    /// Number of sessions to keep
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) keep: u32,
    /// Move the older sessions, archived ones included, to the trash instead
    #[arg(long)]
    pub(crate) delete: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Flags of `copy`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Copy {
    /// Store to copy from [default: your store, as with other commands]
    #[arg(long, value_name = "URL")]
    pub(crate) from: Option<String>,
    /// Store to copy to
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// Sessions to copy [default: all, archived ones included]
    #[arg(value_name = "SEL")]
    pub(crate) sels: Vec<String>,
}

/// Flags of `doctor`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// Check only, and repair nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// If the database of a `files:` store cannot be opened, move it aside and rebuild the sessions
    /// from their JSON files. Stop other rethread processes first
    #[arg(long, conflicts_with = "check")]
    pub(crate) rebuild: bool,
}
