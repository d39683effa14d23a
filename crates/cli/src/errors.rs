//! All errors and hints of the command line: what happened, to which object, and what to do next.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use rethread_agent::host::{Refusal, RosterError};
use rethread_agent::provider::{Failure, RefusalCause};
use rethread_agent::{FileError, TurnError};
use rethread_core::name::{NameError, is_hidden};
use rethread_core::sessions::{self, SelectError};
use rethread_core::{SessionId, StoreError};
use rethread_http::{AccessTokenError, ListenError};
use rethread_store::ConnectError;
use rethread_telegram::{ApiError, BotError};

use crate::out::{clean, count, json_note, note, one_line, plural};

/// The errors of the command line.
#[derive(Debug)]
pub(crate) enum Error {
    /// A verb failed.
    Verb(sessions::Error),
    /// The store could not be opened.
    Connect(ConnectError),
    /// An ambiguous or unsupported URL of a store.
    BadPlace { url: String, hint: String },
    /// A line of standard input is not a message.
    Line { number: u64, what: String },
    /// A line failed for a specific reason; the lines before it are stored, unless it is a batch.
    AtLine { number: u64, source: sessions::Error },
    /// A line is too long.
    LongLine { number: u64 },
    /// The key is not bound.
    NoKey { key: String },
    /// A message was cancelled while it waited for another turn.
    NotSent,
    /// Standard input had no message.
    NoInput,
    /// The user did not confirm.
    NotConfirmed,
    /// A selector that may mean another session tomorrow is not enough to erase one.
    NotExact { sel: String, name: String },
    /// A folder does not exist.
    NoFolder { path: PathBuf },
    /// A store to copy from does not exist.
    NotThere { place: String },
    /// There is no home folder.
    NoHome,
    /// The configuration file is invalid.
    BadConfig { path: PathBuf, what: String },
    /// A setting has an invalid value.
    BadSetting { name: &'static str, value: String, origin: String },
    /// A flag of the chat with a command.
    ChatFlag { flag: &'static str },
    /// The agent does not exist.
    NoAgent { what: String },
    /// The model is not available.
    Provider(Failure),
    /// A turn did not start.
    Refused(Refusal),
    /// A transcript cannot be continued.
    File(FileError),
    /// A file could not be written.
    Write { path: PathBuf, what: String },
    /// An unknown or incomplete command of the chat.
    Word { what: String, hint: &'static str },
    /// Nothing in the trash is called so; nothing is in it where nothing was named.
    NotInTrash { sel: Option<String> },
    /// A model that is not `provider/model`.
    BadModel { model: String },
    /// Compacting a session would make its context larger.
    TooShort { now: u64, after: u64 },
    /// A program has no sessions in its usual folders.
    NoPlace { tool: String, places: Vec<PathBuf> },
    /// The HTTP server cannot start.
    Listen(ListenError),
    /// The Telegram bot cannot start.
    Telegram(BotError),
    /// There is no bot token, or it cannot be used.
    BotToken(Option<rethread_telegram::BotTokenError>),
    /// A token cannot be created or revoked.
    Token(AccessTokenError),
    /// Standard input or output failed.
    Io(std::io::Error),
}

impl From<sessions::Error> for Error {
    fn from(error: sessions::Error) -> Error {
        Error::Verb(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Verb(error.into())
    }
}

impl From<TurnError> for Error {
    fn from(error: TurnError) -> Error {
        match error {
            TurnError::Sessions(error) => Error::Verb(error),
            TurnError::Provider(failure) => Error::Provider(failure),
            TurnError::Refused(refusal) => Error::Refused(refusal),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Refused(refusal)
    }
}

impl From<RosterError> for Error {
    fn from(error: RosterError) -> Error {
        match error {
            RosterError::NoAgent(error) => Error::NoAgent { what: error.to_string() },
            RosterError::BadModel(error) => Error::BadModel { model: error.name },
            RosterError::Provider(failure) => Error::Provider(failure),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Provider(failure)
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Error {
        Error::Verb(error.into())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Io(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Verb(error) => error.fmt(f),
            Error::Connect(error) => error.fmt(f),
            Error::BadPlace { url, .. } => write!(f, "`{url}` is not a store"),
            Error::Line { number, what } => write!(f, "line {number} is not a message: {what}"),
            Error::AtLine { number, source } => write!(f, "line {number}: {source}"),
            Error::LongLine { number } => {
                write!(f, "line {number} is longer than 16 MiB, the limit for one message")
            }
            Error::NoKey { key } => write!(f, "no session is bound to `{key}`"),
            Error::NotSent => f.write_str("stopped waiting; your message was not sent"),
            Error::NoInput => f.write_str("no message on standard input"),
            Error::NotConfirmed => f.write_str("nothing was done"),
            Error::NotExact { sel, name } => {
                write!(
                    f,
                    "`{sel}` is not an exact name: it may select another session tomorrow (now it is {name})"
                )
            }
            Error::NoFolder { path } => write!(f, "no folder {}", path.display()),
            Error::NotThere { place } => write!(f, "nothing found at {place}"),
            Error::NoHome => f.write_str("no home folder to keep sessions in"),
            Error::BadConfig { path, what } => write!(f, "{}: {what}", path.display()),
            Error::BadSetting { name, value, origin } => {
                write!(f, "`{value}` is not a value for `{name}` (from {origin})")
            }
            Error::ChatFlag { flag } => {
                write!(f, "{flag} is an option of the chat and cannot be used with a command")
            }
            Error::NoAgent { what } => f.write_str(what),
            Error::Provider(failure) => failure.fmt(f),
            Error::Refused(refusal) => refusal.fmt(f),
            Error::File(error) => error.fmt(f),
            Error::Write { path, what } => {
                write!(f, "{} could not be written: {what}", path.display())
            }
            Error::Word { what, .. } => f.write_str(what),
            Error::NotInTrash { sel: Some(sel) } => {
                write!(f, "no session in the trash matches `{}`", one_line(sel))
            }
            Error::NotInTrash { sel: None } => {
                f.write_str("there is no deleted session to bring back")
            }
            Error::BadModel { model } => write!(f, "`{model}` is not of the form PROVIDER/MODEL"),
            Error::TooShort { now, after } => {
                f.write_str(&too_short(*now, *after).replacen('T', "t", 1))
            }
            Error::NoPlace { tool, places } => {
                let places: Vec<String> =
                    places.iter().map(|place| place.display().to_string()).collect();
                write!(f, "no {tool} sessions at {}", places.join(" or "))
            }
            Error::Listen(error) => error.fmt(f),
            Error::Telegram(error) => error.fmt(f),
            Error::BotToken(Some(error)) => error.fmt(f),
            Error::BotToken(None) => f.write_str("no bot token"),
            Error::Token(error) => error.fmt(f),
            Error::Io(error) => error.fmt(f),
        }
    }
}

impl Error {
    /// The hint: what to do next.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::LongLine { .. }
            | Error::AtLine { source: sessions::Error::TooLarge { .. }, .. } => {
                "keep large content in a file and give its path; the lines before this one were stored \
                 (with --batch, none were)"
            }
            Error::Verb(error) | Error::AtLine { source: error, .. } => return verb_hint(error),
            Error::Connect(ConnectError::Store(error)) => return store_hint(error),
            Error::Connect(ConnectError::Unknown { .. }) => {
                "a store is `sqlite:PATH`, `files:DIR`, `postgres://USER@HOST/DATABASE`, or just a path"
            }
            Error::Connect(ConnectError::Option { .. }) => {
                "options are `files:DIR?max_sessions=N&purge=archive` (or `purge=delete`) for a directory, and \
                 `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…&sslrootcert=FILE` for a database"
            }
            Error::Connect(ConnectError::Directory { path }) => {
                return Some(format!(
                    "for a directory of session files, write `files:{}`",
                    path.display()
                ));
            }
            Error::BadPlace { hint, .. } => return Some(hint.clone()),
            Error::Line { .. } => {
                "a message is {\"role\": \"user\", \"content\": \"…\"}; the lines before this one were stored \
                 (with --batch, none were). See `rethread append --help`"
            }
            Error::NoKey { .. } => {
                "`rethread append --key KEY` creates a session for a key; `rethread list --json` lists keys"
            }
            Error::NotSent => "another turn of this session is still running; ask again after it",
            Error::NoInput => "pipe JSON lines into it; see `rethread append --help`",
            Error::NotConfirmed => "use --yes to skip the question",
            Error::NotExact { .. } => {
                "in a script, `delete --now` needs a name or a full id; nothing was erased"
            }
            Error::NoFolder { .. } => "--workspace needs an existing folder",
            Error::NotThere { .. } => "--from needs an existing store; nothing was created",
            Error::NoHome => "set HOME, or pass --store and --config",
            Error::BadConfig { .. } => "correct the file, or use another one with --config",
            Error::BadSetting { name: "policy" | "telegram.policy", .. } => {
                "the policies are chat, editor, emacs, cli and bot"
            }
            Error::BadSetting { name: "allow", .. } => {
                "for example [\"write_file\", \"edit_file\", \"run:cargo test\"]; `run` allows every command"
            }
            Error::BadSetting { name: "telegram.allow_users", .. } => {
                "use numeric Telegram user ids; the bot replies with yours when you write to it"
            }
            Error::BadSetting { name: "telegram.owners", .. } => "for example [\"12345=local\"]",
            Error::BadSetting { name: "run.env", .. } => {
                "for example [\"DATABASE_URL\", \"MYAPP_*\"]"
            }
            Error::BadSetting { name: "run.writable", .. } => {
                "paths are absolute or begin with `~/`, for example [\"~/.cargo\", \"~/.cache\"]"
            }
            Error::BadSetting { .. } => "`rethread config` shows the settings",
            Error::ChatFlag { .. } => "`rethread --help` lists the options of the chat",
            Error::NoAgent { .. } => "`rethread agents` lists all agents",
            Error::Provider(failure) => return Some(provider_hint(failure)),
            Error::Refused(refusal) => refusal_hint(refusal),
            Error::File(_) => "--resume needs a session, or a transcript whose name ends in .md",
            Error::Write { .. } => "the conversation itself is safe in the store",
            Error::Word { hint, .. } => hint,
            Error::NotInTrash { sel: Some(_) } => "`rethread trash list` shows what is in it",
            Error::NotInTrash { sel: None } => {
                "`rethread undo SEL` undoes the last clear, fork, compact or resume of a session"
            }
            Error::BadModel { .. } => "for example `--model anthropic/claude-sonnet-4-5`",
            Error::TooShort { .. } => "nothing was changed; use --force to compact it anyway",
            Error::NoPlace { .. } => "give the file or folder: `rethread import PATH`",
            Error::Listen(ListenError::NoToken { .. }) => {
                "create one with `rethread token create NAME --owner OWNER`, or listen on 127.0.0.1"
            }
            Error::Listen(ListenError::Bind { .. }) => {
                "another program may be using the port; choose another with --listen ADDR:PORT"
            }
            Error::Listen(ListenError::Tokens(error)) => return token_hint(error),
            Error::Telegram(BotError::Sessions(error)) => return verb_hint(error),
            Error::Telegram(BotError::Held { .. }) => {
                "only one process can run a bot; stop the other one first"
            }
            Error::Telegram(BotError::Api(ApiError::BadAddress)) => {
                "set TELEGRAM_API_URL to a URL such as https://api.telegram.org, or unset it"
            }
            Error::Telegram(BotError::Api(_)) => {
                "check the token (@BotFather shows it), and TELEGRAM_API_URL if it is set"
            }
            Error::Telegram(BotError::Stopped) => return None,
            Error::BotToken(Some(rethread_telegram::BotTokenError::Open { .. })) => {
                "anyone with the token controls the bot: `chmod 600` the file"
            }
            Error::BotToken(Some(rethread_telegram::BotTokenError::Unreadable { .. })) => {
                "--token-file needs a file that contains the token and nothing else"
            }
            Error::BotToken(_) => {
                "get one from @BotFather, then set TELEGRAM_BOT_TOKEN or put it into a file for --token-file"
            }
            Error::Token(error) => return token_hint(error),
            Error::Io(_) => return None,
        };
        Some(hint.into())
    }

    /// The exit code: 2 for wrong usage, 1 for other errors.
    fn code(&self) -> u8 {
        match self {
            Error::Verb(
                sessions::Error::Name(_) | sessions::Error::Store(StoreError::BadCursor { .. }),
            )
            | Error::Connect(
                ConnectError::Unknown { .. }
                | ConnectError::Option { .. }
                | ConnectError::Directory { .. },
            )
            | Error::BadPlace { .. }
            | Error::NoFolder { .. }
            | Error::NotThere { .. }
            | Error::BadConfig { .. }
            | Error::BadSetting { .. }
            | Error::ChatFlag { .. }
            | Error::NoAgent { .. }
            | Error::Word { .. }
            | Error::Provider(Failure::NoKey { .. } | Failure::Unknown { .. })
            | Error::Listen(ListenError::NoToken { .. })
            | Error::Telegram(BotError::Api(ApiError::BadAddress))
            | Error::BotToken(_)
            | Error::Token(AccessTokenError::Name(_) | AccessTokenError::Reserved)
            | Error::BadModel { .. } => 2,
            _ => 1,
        }
    }

    /// The causes, each once.
    fn causes(&self) -> Vec<String> {
        use std::error::Error as _;
        let mut source = match self {
            Error::Verb(error) | Error::AtLine { source: error, .. } => error.source(),
            Error::Connect(error) => error.source(),
            Error::Listen(error) => error.source(),
            Error::Telegram(error) => error.source(),
            Error::Token(error) => error.source(),
            _ => None,
        };
        let mut causes: Vec<String> = Vec::new();
        while let Some(error) = source {
            let cause = error.to_string();
            if !causes.iter().any(|other| other.contains(&cause) || cause.contains(other.as_str()))
            {
                causes.push(cause);
            }
            source = error.source();
        }
        causes
    }
}

/// Why a session is not compacted.
pub(crate) fn too_short(now: u64, after: u64) -> String {
    let (now, after) = (plural(now, "token"), count(after));
    format!("This conversation is too short to compact: {now} now, about {after} after")
}

fn verb_hint(error: &sessions::Error) -> Option<String> {
    let hint = match error {
        sessions::Error::Store(error) => return store_hint(error),
        sessions::Error::Select(SelectError::None { .. }) => {
            "`rethread list` shows the newest sessions, `rethread search WORDS` finds others"
        }
        sessions::Error::Select(SelectError::Several { selector, candidates, .. })
            if candidates.iter().any(|(_, name)| name == selector) =>
        {
            "one is at this position in the list, the other has this name; use an id"
        }
        sessions::Error::Select(SelectError::Several { .. }) => "use more of the id, or the name",
        sessions::Error::Select(SelectError::Empty) => "run `rethread` to start one",
        sessions::Error::Name(NameError::Reserved { .. }) => "choose another name",
        sessions::Error::Name(_) => {
            "a name has a letter or a digit, and no `/`, `\\` or `..`; a key is any visible text"
        }
        sessions::Error::TooLarge { .. } => {
            "keep large content in a file and give its path; nothing was stored"
        }
        sessions::Error::TooMany { .. } => "append in smaller batches; nothing was stored",
        sessions::Error::Differs { .. } => {
            "the two copies were continued separately; `rethread fork SEL` makes a copy with a new id"
        }
        sessions::Error::NothingToUndo { .. } => "`rethread show SEL --all` shows what happened",
        sessions::Error::ContinuedSince { .. } => {
            "the session is unchanged; `rethread archive SEL` hides it"
        }
        sessions::Error::NoFreeName { .. } => "choose another name",
        sessions::Error::NoEntry { .. } => "`rethread show SEL --all --json` shows the entries",
    };
    Some(hint.into())
}

fn token_hint(error: &AccessTokenError) -> Option<String> {
    let hint = match error {
        AccessTokenError::Sessions(error) => return verb_hint(error),
        AccessTokenError::Name(_) => "a name has a letter or a digit, and no `/`, `\\` or `..`",
        AccessTokenError::Taken { .. } => "choose another name, or revoke the existing token first",
        AccessTokenError::Missing { .. } => "`rethread token list` lists all tokens",
        AccessTokenError::Reserved => "choose another owner",
        AccessTokenError::TooMany => "`rethread token revoke NAME` makes room",
        AccessTokenError::NoRandomness { .. } => return None,
    };
    Some(hint.into())
}

/// Hints for a turn that did not start.
fn refusal_hint(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::AgentChanged(_) => {
            "open the session in the chat, which asks whether the changed agent may continue"
        }
        Refusal::NoAgent(_) => "`rethread agents` lists all agents",
        Refusal::CannotAnswer { .. } => "choose another agent with --agent, or another --model",
        Refusal::Abandoned => "everything up to then is kept; ask again to continue",
        _ => "try again later; nothing was stored",
    }
}

/// Hints for a model that does not answer.
pub(crate) fn provider_hint(failure: &Failure) -> String {
    match failure {
        Failure::NoKey { variable, .. } => {
            format!("set {variable}, or choose another model with --model")
        }
        Failure::Unknown { .. } => {
            "for example `--model anthropic/claude-sonnet-4-5`, or `--model offline/offline`".into()
        }
        Failure::Denied { .. } => {
            "check the API key in the environment; your message is kept, and `rethread -c` continues"
                .into()
        }
        Failure::Refused { status: 404, .. } => {
            "check the name of the model, and the base URL if you set one".into()
        }
        Failure::Refused { left_out: true, .. } => {
            "rephrase the message, or `/retry` to send it again unchanged".into()
        }
        Failure::Refused { cause: RefusalCause::Unclear, .. } => {
            "your message is kept and sent again with the next one; if that is refused as well, it is left out"
                .into()
        }
        Failure::Refused { .. } => {
            "your message is kept; `rethread context last --explain` shows what was sent".into()
        }
        Failure::OutOfQuota { .. } => {
            "check the plan and the billing at the provider, or choose another --model; your message \
             is kept"
                .into()
        }
        Failure::Limited { .. } | Failure::Trouble { .. } => {
            "your message is kept; wait a little and ask again, or choose another --model".into()
        }
        Failure::Unreachable { .. } => {
            "check the network and the base URL; your message is kept".into()
        }
        Failure::Broken { .. } | Failure::Silent { .. } | Failure::Nonsense { .. } => {
            "the part that arrived is kept; ask again to continue".into()
        }
    }
}

fn store_hint(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::NotAStore { place } if is_database(place) => {
            "use another database in the URL; this one was not changed"
        }
        StoreError::ReadOnly { place } if is_database(place) => {
            "this server is a standby or read-only: connect to the primary, or list all servers: \
             `postgres://USER@HOST1,HOST2/DATABASE?target_session_attrs=read-write`"
        }
        StoreError::Busy { place } if is_database(place) => {
            "try again; `SELECT pid, state, query FROM pg_stat_activity` shows which connection holds \
             the lock. Acknowledged entries are safe"
        }
        StoreError::Slow { .. } => {
            "the server is overloaded or a query is stuck: try again. Retrying is safe, and so are \
             acknowledged entries"
        }
        StoreError::Denied { .. } => {
            "the role needs SELECT, INSERT, UPDATE and DELETE on the tables; the first start in a new \
             database also needs CREATE on the schema"
        }
        StoreError::NotFound { .. } => "`rethread list --all` lists all sessions",
        StoreError::Conflict { .. } => "look at what was written, then try again",
        StoreError::IdReused { .. } => {
            "a retry must repeat the message or batch exactly; use new ids for new messages"
        }
        StoreError::NameTaken { .. } => "choose another name",
        StoreError::KeyMoved { .. } => "another program moved the key at the same time; try again",
        StoreError::Held { .. } => "wait for the turn to end, then try again",
        StoreError::StaleFence { .. } => "open the session again",
        StoreError::Damaged { .. } => {
            "`rethread doctor` repairs what can be repaired, and says what cannot"
        }
        StoreError::Newer { .. } => "install a newer version of rethread; nothing was changed",
        StoreError::Older { .. } => {
            "open it once where this version can write, or copy it to such a place; nothing was changed"
        }
        StoreError::NoBlob { .. } | StoreError::BadBlob { .. } => {
            "`rethread doctor` lists missing and damaged attachments; the conversation itself is intact"
        }
        StoreError::NotAStore { place } | StoreError::Corrupt { place } if is_mirrored(place) => {
            "`rethread doctor --rebuild` moves this file aside and rebuilds the sessions from their JSON \
             files; it was not changed"
        }
        StoreError::NotAStore { .. } => {
            "choose another file with --store; this one was not changed"
        }
        StoreError::Full { .. } => "free some space and try again; acknowledged entries are safe",
        StoreError::ReadOnly { .. } => {
            "check the permissions, or choose another store with --store"
        }
        StoreError::Busy { .. } => "try again; `rethread doctor` checks the file",
        StoreError::Unreachable { source, .. } if source.to_string().contains("TLS") => {
            "this server does not support TLS; on a network you trust, add `?sslmode=disable` to the URL"
        }
        StoreError::Unreachable { source, .. } if source.to_string().contains("certificate") => {
            "add `?sslrootcert=FILE` to the URL to trust other certificates; the host in the URL must \
             match the server's certificate"
        }
        StoreError::Unreachable { .. } => {
            "check that the server is running, and the host, user, password and database in the URL; \
             acknowledged entries are safe"
        }
        StoreError::BadCursor { .. } => "use the cursor printed by the previous page",
        StoreError::BadQuery { .. } => "for example `rethread search rate limiter`",
        StoreError::Corrupt { .. } => {
            "`rethread doctor` rebuilds what it can; otherwise restore a backup. The store was not changed"
        }
        StoreError::Backend { .. } => "`rethread config` shows which store is used, and why",
        StoreError::Exists { .. } => return None,
    };
    Some(hint.into())
}

/// Whether a path is the database of a directory of session files.
fn is_mirrored(place: &str) -> bool {
    std::path::Path::new(place).ends_with(".rethread/sessions.db")
}

/// Whether a URL is a database server.
fn is_database(place: &str) -> bool {
    place.starts_with("postgres")
}

/// Reports wrong usage. Help and version are not errors.
pub(crate) fn misuse(error: &clap::Error) -> ExitCode {
    let rendered = error.render().to_string();
    if error.use_stderr() {
        let as_json = std::env::args_os().any(|arg| arg == "--json");
        let hostile = rendered.chars().any(|c| c != '\n' && is_hidden(c));
        if as_json {
            let what = rendered.trim_start_matches("error: ").trim_end();
            let what = what.split("\n\nUsage:").next().unwrap_or(what);
            let hint = "see `rethread --help`";
            json_note(&serde_json::json!({ "error": what, "hint": hint }));
            return ExitCode::from(2);
        }
        if hostile {
            anstream::eprint!("{}", clean(&rendered));
            return ExitCode::from(2);
        }
    }
    // The reader closed the pipe: there is nobody to report to.
    if error.print().is_err() {
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// How errors refer to sessions: by what the user typed for them, or as the current one.
static CALLED: Mutex<Vec<(SessionId, String)>> = Mutex::new(Vec::new());

/// Sessions whose labels are kept for errors. A command uses a few; a chat is in one at a time.
const CALLED_MAX: usize = 16;

/// Sets how errors refer to a session from now on. In JSON they have its id.
pub(crate) fn call_it(id: SessionId, called: String) {
    let mut all = CALLED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(known, _)| *known != id);
    if all.len() == CALLED_MAX {
        all.remove(0);
    }
    all.push((id, called));
}

/// An error with the user's label for a session instead of its id.
fn as_typed(what: &str) -> String {
    let all = CALLED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().fold(what.to_owned(), |what, (id, called)| {
        let is_id = called.contains(&id.to_string());
        if is_id { what } else { what.replace(&format!("session {id}"), called) }
    })
}

/// Shell commands in hints, and their equivalents in the chat.
const IN_CHAT: [(&str, &str); 12] = [
    ("`rethread list`", "`sessions`"),
    ("`rethread search WORDS`", "`/search WORDS`"),
    ("`rethread agents`", "`/agent`"),
    ("`rethread show SEL --all`", "`/history all`"),
    ("`rethread archive SEL`", "`/archive`"),
    ("`rethread fork SEL`", "`/fork`"),
    (
        "base URL; your message is kept",
        "base URL; your message is kept, and `/retry` sends it again",
    ),
    ("wait a little and ask again", "wait a little and `/retry`"),
    ("choose another --model", "choose another with `/model`"),
    ("choose another model with --model", "choose another model with `/model`"),
    ("with --agent, or another --model", "with `/agent`, or another model with `/model`"),
    ("`--model ", "`/model "),
];

/// The same in the chat, with hints that can be typed there.
pub(crate) fn report_in_chat(error: &Error, as_json: bool) -> ExitCode {
    report_with(error, error.hint().map(in_chat), as_json)
}

fn in_chat(hint: String) -> String {
    IN_CHAT.iter().fold(hint, |hint, (shell, chat)| hint.replace(shell, chat))
}

/// Prints an error to standard error.
pub(crate) fn report(error: &Error, as_json: bool) -> ExitCode {
    report_with(error, error.hint(), as_json)
}

fn report_with(error: &Error, hint: Option<String>, as_json: bool) -> ExitCode {
    // A reader that is gone (`| head`) is not an error to report.
    if let Error::Io(error) = error
        && error.kind() == std::io::ErrorKind::BrokenPipe
    {
        return ExitCode::SUCCESS;
    }
    let mut what = error.to_string();
    for cause in error.causes() {
        if !what.contains(&cause) {
            what = format!("{what}: {cause}");
        }
    }
    if as_json {
        let object = serde_json::json!({ "error": what, "hint": hint });
        json_note(&object);
    } else {
        let what = as_typed(&what);
        note(format_args!("\x1b[1;31merror:\x1b[0m {}", clean(&what)));
        if let Some(hint) = hint {
            note(format_args!("\x1b[1mhint:\x1b[0m {hint}"));
        }
    }
    ExitCode::from(error.code())
}
