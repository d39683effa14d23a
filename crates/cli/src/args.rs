//! What can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use rethread_agent::Grant;
use rethread_core::context::Policy;
use rethread_core::search::Speaker;

const ABOUT: &str = "Pick up the thread: sessions of AI agents, kept whole";

const LONG_ABOUT: &str = "Pick up the thread: sessions of AI agents, kept whole.

Everything said in a session goes into a log that is only ever added to. What a model sees of it \
is a view: long tool results cut, old ones stubbed, the oldest turns left out. Nothing is lost by \
that, and `context --explain` says what was cut and why.

Without a command a chat opens. No key is needed: without one an offline model answers by \
searching this folder and your earlier sessions. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or \
OLLAMA_HOST, or name a model with --model, for a real one.

A session is named by SEL: its position in `list` (1 is the newest), its name, its id \
(`build_20251230_112153`, or the beginning of the UUID), or `last`.";

const EXAMPLES: &str = "Examples:
  rethread                                  open a chat
  rethread -c                               continue where this folder's last chat ended
  rethread -p 'what does this project do?'  ask once
  cargo test 2>&1 | rethread -p 'why?'      ask about the output of a command
  rethread --resume 2                       start from the summary of the second newest session
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
    pub(crate) talk: Talk,
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags of the chat.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Chat")]
pub(crate) struct Talk {
    /// Continue where this folder's last chat ended
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["resume", "name"])]
    pub(crate) go_on: bool,
    /// Start from the summary of a session, or of a transcript (.md); without either, pick one
    #[arg(long, value_name = "SEL|FILE")]
    pub(crate) resume: Option<Option<String>>,
    /// Where the chat begins.
    #[arg(skip)]
    pub(crate) open: Option<Option<String>>,
    /// Ask once, print the answer, and leave. What is piped in goes with the question (`-`: it is
    /// the question)
    #[arg(short, long, value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// With -p: print every event as a line of JSON, and the answer last
    #[arg(long, requires = "prompt")]
    pub(crate) json_stream: bool,
    /// Who answers: build, plan, explore, general, or an agent of your own
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// The model [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// The name of the new session
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Run this without asking: write_file, edit_file, run, or `run:cargo test` for commands that
    /// begin like this
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) allow: Vec<Grant>,
    /// Change nothing: no tool that changes things is offered
    #[arg(long, conflicts_with = "allow")]
    pub(crate) read_only: bool,
    /// Only ever add lines, in plain characters: for screen readers
    #[arg(long)]
    pub(crate) plain: bool,
}

impl Talk {
    /// The first flag of the chat that was typed: it means nothing beside a command.
    pub(crate) fn typed(&self) -> Option<&'static str> {
        [
            (self.go_on, "--continue"),
            (self.resume.is_some(), "--resume"),
            (self.prompt.is_some(), "--prompt"),
            (self.json_stream, "--json-stream"),
            (self.agent.is_some(), "--agent"),
            (self.model.is_some(), "--model"),
            (self.name.is_some(), "--name"),
            (!self.allow.is_empty(), "--allow"),
            (self.read_only, "--read-only"),
            (self.plain, "--plain"),
        ]
        .into_iter()
        .find_map(|(typed, flag)| typed.then_some(flag))
    }
}

/// What goes with every command.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Where sessions live: `sqlite:PATH`, `files:DIR`, `postgres://USER@HOST/DATABASE` or a path
    /// [env: RETHREAD_STORE, the place for a URL with a password: others can read what is typed]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Whose sessions [env: RETHREAD_OWNER]
    #[arg(long, global = true, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    /// The folder a new session is about [default: this folder], or that listed sessions are about
    /// [default: any]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// The configuration file [env: RETHREAD_CONFIG]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print data as JSON, and errors as {"error", "hint"}
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List sessions, newest first
    #[command(alias = "ls")]
    List(List),
    /// Show what was said in a session
    Show(Show),
    /// Find words in everything that was said
    Search(Search),
    /// Show what a model would be sent, and what was cut
    Context(Context),
    /// Show tokens, time, models and cost of a session, or of all by session, folder or day
    Stats(Stats),
    /// Add messages, read as JSON lines from standard input
    #[command(after_help = APPEND)]
    Append(Append),
    /// Continue a session, all of it: a chat at a terminal; elsewhere it becomes this folder's session
    Open(Open),
    /// Start the context anew; the log stays
    Clear(One),
    /// Summarise a session and go on in a new one, lighter
    Compact(Compact),
    /// Open a chat that starts from the summary of a session, or of a transcript (.md)
    Resume(Resume),
    /// Copy a session into a new one, up to an entry
    Fork(Fork),
    /// Take back a delete, or the latest clear, or the compact, resume, fork or new that started the session
    Undo(Undo),
    /// Give a session another name
    Rename(Rename),
    /// Put sessions away; search still finds them
    Archive(Several),
    /// Bring archived sessions back
    Unarchive(Several),
    /// Move sessions to the trash, where `undo` finds them for 30 days
    Delete(Delete),
    /// List the trash, restore sessions from it, or empty it
    #[command(subcommand)]
    Trash(Trash),
    /// Archive all but the newest sessions
    Purge(Purge),
    /// Copy sessions to another store; run again, it copies what is missing
    #[command(after_help = COPY)]
    Copy(Copy),
    /// Bring sessions in from files of other programs, or of this one
    #[command(after_help = IMPORT)]
    Import(Import),
    /// Write a session to a file that people or other programs read
    #[command(after_help = EXPORT)]
    Export(Export),
    /// Check every session of every owner, and repair what can be worked out from its log
    Doctor(Doctor),
    /// Open the door for editors and programs: sessions over HTTP
    #[command(after_help = SERVE)]
    Serve(Serve),
    /// Open the door for Telegram: a bot with a session for each person
    #[command(after_help = TELEGRAM)]
    Telegram(Telegram),
    /// Let programs in from afar: make, list and revoke access tokens
    #[command(subcommand)]
    Token(Token),
    /// Show who can answer, and where each comes from
    Agents(Agents),
    /// Show the configuration, and where each value comes from
    Config,
    /// Print completions for a shell
    #[command(
        after_help = "Example: rethread completions bash > ~/.local/share/bash-completion/completions/rethread"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write one for every command into a folder
    Man {
        /// The folder
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

const APPEND: &str = "Each line is one message: {\"role\": …, \"content\": …}, where content is a string, \
a block or a list of blocks (text, tool_use, tool_result, …). An optional \"id\" makes it safe to send \
the line twice. For each line, {\"session\":…,\"seq\":…} is printed once it is on disk.

Examples:
  echo '{\"role\":\"user\",\"content\":\"hello\"}' | rethread append --new --name greeting
  echo '{\"role\":\"assistant\",\"content\":\"hi\",\"id\":\"reply-1\"}' | rethread append greeting
  rethread append --key file:Notes/foo.md --batch < turn.jsonl";

const COPY: &str = "Sessions keep their ids, times and keys; a name that is taken there gets a number, and a key that \
points elsewhere there is left alone. Every entry is compared afterwards.

Examples:
  rethread copy --to files:sessions                      everything, as files other programs read
  rethread copy --from files:~/.agent/sessions --to sqlite:all.db plan 3";
const IMPORT: &str =
    "Files are recognised by what they say. Importing again adds only what is new. With --verbose \
it says what became of every record: stored, kept byte for byte, or reported as unreadable.

Examples:
  rethread import ~/.claude/projects
  rethread import --from codex --dry-run
  rethread import old-chats/*.json notes.md";

const EXPORT: &str = "Formats: markdown (for people), rethread (JSON lines, loses nothing; `import` brings it back), openai and anthropic \
(messages), magent, agent and telegram (files of those programs), html (one page, nothing loaded from elsewhere).

Examples:
  rethread export last -o chat.md
  rethread export rate-limiter --format html -o chat.html
  rethread export 1 --format rethread --chain > chat.jsonl";

/// Flags of `import`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    /// Files and folders
    #[arg(value_name = "PATH", required_unless_present = "from", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// The sessions of this program, where it keeps them
    #[arg(long, value_name = "TOOL", value_parser = tool())]
    pub(crate) from: Option<String>,
    /// Bind sessions to the keys the files name, where those are free. A key decides which
    /// conversation an editor or a bot continues: only for files you trust
    #[arg(long)]
    pub(crate) keys: bool,
    /// Only say what would be imported
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Say what became of every record of every file
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// A program whose places are known, by its name or by what people call it.
fn tool() -> impl TypedValueParser<Value = String> {
    let names = TOOLS.map(|name| match name {
        "claude-code" => PossibleValue::new(name).alias("claude"),
        _ => PossibleValue::new(name),
    });
    let full = |name: String| if name == "claude" { "claude-code".to_owned() } else { name };
    PossibleValuesParser::new(names).map(full)
}

/// Programs whose places are known.
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
    /// Which session
    pub(crate) sel: String,
    /// The format
    #[arg(long, short, value_name = "FORMAT", default_value = "markdown", value_parser = clap::builder::PossibleValuesParser::new(FORMATS))]
    pub(crate) format: String,
    /// The sessions it continues too, oldest first, in one document
    #[arg(long)]
    pub(crate) chain: bool,
    /// Everything, also what was said before the last clear (rethread always contains everything)
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Take out secrets and home folders, and say what was taken out
    #[arg(long, overrides_with = "no_redact")]
    pub(crate) redact: bool,
    /// Leave everything as it was said (the default, except for html)
    #[arg(long, overrides_with = "redact")]
    pub(crate) no_redact: bool,
    /// The file [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Formats that are written.
pub(crate) const FORMATS: [&str; 8] =
    ["markdown", "rethread", "openai", "anthropic", "magent", "agent", "telegram", "html"];
const SERVE: &str =
    "On the loopback nobody needs a token: whoever is on this machine is the owner `local`. An \
address that other machines can reach needs at least one (`rethread token create`).

Examples:
  rethread serve
  curl -s http://127.0.0.1:8000/chat -H 'content-type: application/json' \\
    -d '{\"message\":\"what is this about?\",\"session_id\":null,\"active_file\":\"README.md\"}'
  rethread serve --listen 0.0.0.0:8000 --allow-host box.example.org";

/// Flags of `serve`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value_t = rethread_http::DEFAULT_ADDRESS)]
    pub(crate) listen: SocketAddr,
    /// The model [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Who answers in sessions that say nothing else: build, plan, explore, general, or your own
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Allow what changes things: write_file, edit_file, run, or `run:cargo test` for commands that
    /// begin like this. Nobody is asked first
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) allow: Vec<Grant>,
    /// Ask for a token on this machine too
    #[arg(long)]
    pub(crate) require_token: bool,
    /// Let pages of this origin in, such as `https://example.org`
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) allow_origin: Vec<String>,
    /// Answer to this name too, such as box.example.org
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Write a line of JSON about each request to standard error [default: where that is no terminal]
    #[arg(long)]
    pub(crate) log: bool,
}

const TELEGRAM: &str =
    "The token comes from TELEGRAM_BOT_TOKEN, or from a file that nobody else can read; never from the \
command line, which everybody on this machine can see. Nobody may talk to the bot who is not on its list: \
write to it once, and it tells you your number.

Configuration: telegram.allow_users, telegram.owners ([\"12345=local\"] goes on in the terminal where the phone \
left off), telegram.roots, telegram.token_file, telegram.policy, telegram.clip_texts, telegram.clip_chars.

Examples:
  TELEGRAM_BOT_TOKEN=… rethread telegram --allow-user 12345
  rethread telegram --token-file ~/.config/rethread/bot-token --allow-user 12345 --allow-user 67890
  rethread telegram --token-file bot-token --root ~/projects --model anthropic/claude-sonnet-4-5";

/// Flags of `telegram`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Telegram {
    /// Let this person in, by their number (repeatable)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) allow_user: Vec<u64>,
    /// The file with the bot's token, readable by you alone [env: TELEGRAM_BOT_TOKEN has the token itself]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Let sessions be about folders below this one (repeatable) [default: the workspace]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) root: Vec<PathBuf>,
    /// How much of the past a model sees [default: bot, the last 2 texts of 500 characters]
    #[arg(long, value_name = "POLICY", value_parser = clap::builder::PossibleValuesParser::new(Policy::PRESETS))]
    pub(crate) policy: Option<String>,
    /// The model [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Who answers in new sessions: build, plan, explore, general, or an agent of your own
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Allow what changes things: write_file, edit_file, run, or `run:cargo test` for commands that
    /// begin like this. Nobody is asked first
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) allow: Vec<Grant>,
}

/// An origin is a scheme and a host, and never everybody.
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
    /// Make a token and show it, this once; it opens the sessions of --owner
    Create {
        /// What it is for, such as `laptop`
        name: String,
    },
    /// List the tokens; the tokens themselves are shown nowhere
    List,
    /// Let a token open nothing any more
    Revoke {
        /// Its name
        name: String,
    },
}

/// Flags of `agents`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Agents {
    /// Agree to the agents that come with this folder, exactly as they are now
    #[arg(long)]
    pub(crate) trust: bool,
}

/// Flags of `stats`. `--workspace` keeps to the sessions of a folder.
#[derive(Debug, ClapArgs)]
pub(crate) struct Stats {
    /// Which session, with its messages and tools [default: all, added up]
    pub(crate) sel: Option<String>,
    /// What to add up by
    #[arg(long, value_name = "GROUP", default_value = "day", value_parser = by(), conflicts_with = "sel")]
    pub(crate) by: By,
    /// Only what was said since then: `7d`, `yesterday`, `2025-01-04`
    #[arg(long, value_name = "WHEN", conflicts_with = "sel")]
    pub(crate) since: Option<crate::since::Since>,
    /// Count calls of tools and failures as well: reads every log, which takes longer
    #[arg(long, conflicts_with = "sel")]
    pub(crate) tools: bool,
}

fn by() -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(By::ALL.map(By::as_str)).map(|given| {
        let known = By::ALL.into_iter().find(|by| by.as_str() == given);
        known.expect("one of those that are offered")
    })
}

/// What `stats` adds up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Session,
    Folder,
    Day,
}

impl By {
    const ALL: [By; 3] = [By::Session, By::Folder, By::Day];

    /// The word for it.
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
    /// Which session
    pub(crate) sel: String,
}

/// Some sessions.
#[derive(Debug, ClapArgs)]
pub(crate) struct Several {
    /// Which sessions
    #[arg(required = true, value_name = "SEL")]
    pub(crate) sels: Vec<String>,
}

/// Sessions a list shows unless another number is asked for.
pub(crate) const LIST_ROWS: u32 = 20;

/// Flags of `list`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct List {
    /// Archived sessions too, every member of a chain, and sessions in which nothing was said
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Only archived sessions
    #[arg(long, conflicts_with = "all")]
    pub(crate) archived: bool,
    /// How many to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = LIST_ROWS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Go on behind this cursor, as printed by the page before
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
    /// Which session
    pub(crate) sel: String,
    /// Everything, also what was said before the last clear
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Nothing folded: whole results and instructions, the input of calls, thinking
    #[arg(long)]
    pub(crate) full: bool,
    /// Only the last N entries
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<u64>,
    /// From this entry on
    #[arg(long, value_name = "SEQ", conflicts_with = "last")]
    pub(crate) from: Option<u64>,
    /// Up to this entry
    #[arg(long, value_name = "SEQ", conflicts_with = "last")]
    pub(crate) to: Option<u64>,
}

fn speaker() -> impl TypedValueParser<Value = Speaker> {
    PossibleValuesParser::new(Speaker::ALL.map(Speaker::as_str)).map(|given| {
        let known = Speaker::ALL.into_iter().find(|speaker| speaker.as_str() == given);
        known.expect("one of those that are offered")
    })
}

/// Flags of `search`. `--workspace` keeps to the sessions of a folder.
#[derive(Debug, ClapArgs)]
pub(crate) struct Search {
    /// Words that must all be in the same message: `limit*` finds words that begin so, `"token
    /// bucket"` in double quotes words that follow one another
    #[arg(required = true)]
    pub(crate) words: Vec<String>,
    /// Only what was said since then: `7d`, `2h`, `yesterday`, `2025-01-04`
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<crate::since::Since>,
    /// Only what this one said
    #[arg(long, value_name = "WHO", value_parser = speaker())]
    pub(crate) from: Option<Speaker>,
    /// How many hits to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// How many hits to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: u32,
}

/// Flags of `context`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Context {
    /// Which session
    pub(crate) sel: String,
    /// How the context is shaped [default: as in the chat]
    #[arg(long, value_name = "POLICY", value_parser = clap::builder::PossibleValuesParser::new(Policy::PRESETS))]
    pub(crate) policy: Option<String>,
    /// Keep at most N messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_history: Option<u32>,
    /// The model it is for [default: as in the chat] [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Tokens the model can see, its reply included [default: the configured window, or the model's]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(256..))]
    pub(crate) window: Option<u64>,
    /// What it was right after this entry [default: the last one]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// One line a message, and why something is missing
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Flags of `append`.
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("where").required(true).args(["sel", "key", "new"]))]
pub(crate) struct Append {
    /// Which session
    pub(crate) sel: Option<String>,
    /// The session this key points at; started if there is none
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// A new session
    #[arg(long)]
    pub(crate) new: bool,
    /// The name of a new session
    #[arg(long, conflicts_with = "sel")]
    pub(crate) name: Option<String>,
    /// The agent of a new session
    #[arg(long, conflicts_with = "sel")]
    pub(crate) agent: Option<String>,
    /// What a new session is about
    #[arg(long, conflicts_with = "sel")]
    pub(crate) description: Option<String>,
    /// Messages the context of a new session keeps
    #[arg(long, value_name = "N", conflicts_with = "sel", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_history: Option<u32>,
    /// All lines as one: all are stored, or none
    #[arg(long)]
    pub(crate) batch: bool,
}

/// Flags of `open`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Open {
    /// Which session [default: pick one, at a terminal]
    pub(crate) sel: Option<String>,
    /// The key that is to point at it [default: this folder's]
    #[arg(long)]
    pub(crate) key: Option<String>,
}

/// Flags of `compact`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Compact {
    /// Which session
    pub(crate) sel: String,
    /// The model that writes the summary [default: as in the chat]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Only say what it would save
    #[arg(long)]
    pub(crate) preview: bool,
}

/// Flags of `resume`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Resume {
    /// Which session, or which transcript [default: pick one, at a terminal]
    #[arg(value_name = "SEL|FILE")]
    pub(crate) sel: Option<String>,
    /// Who answers [default: who answered before]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// The model [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
}

/// Flags of `fork`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Fork {
    /// Which session
    pub(crate) sel: String,
    /// The last entry to copy [default: all]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// The name of the copy
    #[arg(long)]
    pub(crate) name: Option<String>,
}

/// Flags of `undo`.
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("where").args(["sel", "key"]))]
pub(crate) struct Undo {
    /// Which session [default: the one deleted last]
    pub(crate) sel: Option<String>,
    /// The session this key points at
    #[arg(long)]
    pub(crate) key: Option<String>,
}

/// Flags of `rename`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Rename {
    /// Which session
    pub(crate) sel: String,
    /// Its new name
    pub(crate) name: String,
}

/// Flags of `delete`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Delete {
    /// Which sessions
    #[arg(required = true, value_name = "SEL")]
    pub(crate) sels: Vec<String>,
    /// Erase them and all that was said now. Asks first; without a terminal it takes -y, and names
    /// or full ids
    #[arg(long)]
    pub(crate) now: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// What can be done with the trash.
#[derive(Debug, Subcommand)]
pub(crate) enum Trash {
    /// List what is in the trash, the latest deleted first
    List,
    /// Bring sessions back, with their keys where they are free
    Restore(Several),
    /// Erase everything in the trash
    Empty {
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// Flags of `purge`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Purge {
    /// How many sessions to keep
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) keep: u32,
    /// Move them to the trash, archived ones too, instead of archiving
    #[arg(long)]
    pub(crate) delete: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Flags of `copy`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Copy {
    /// The store to copy from [default: the store of every other command]
    #[arg(long, value_name = "URL")]
    pub(crate) from: Option<String>,
    /// The store to copy to
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// Which sessions [default: all, archived ones too]
    #[arg(value_name = "SEL")]
    pub(crate) sels: Vec<String>,
}

/// Flags of `doctor`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// Only look; repair nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// If the database of a `files:` store cannot be opened, move it aside and rebuild the sessions
    /// from their JSON files. Stop other rethread processes first
    #[arg(long, conflicts_with = "check")]
    pub(crate) rebuild: bool,
}
