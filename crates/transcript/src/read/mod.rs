//! Reads sessions from files: one module per format.
//!
//! [`recognise`] looks at the content of a file, never at its name alone. [`read`] goes through it
//! record by record and passes what it finds to a [`Sink`]: sessions, and the entries of each with
//! their original times and with ids that are the same each time the file is read. Records that a
//! reader does not understand are kept byte for byte; records that cannot be read are reported. The
//! [`Account`] says what became of every record, and [`Account::balances`] checks that none is
//! missing.

mod account;
mod agent;
mod aider;
mod claude_code;
mod claude_tree;
mod codex;
mod codex_events;
mod codex_survey;
mod database;
mod document;
mod fields;
mod gemini;
mod gemini_fold;
mod gemini_lines;
mod goose;
mod lines;
mod llm;
mod llm_threads;
mod magent;
pub mod markdown;
mod markdown_session;
mod messages;
mod openai_agents;
mod opencode;
mod opencode_rows;
mod output;
mod pi;
mod recognise;
mod responses;
mod rethread;
mod section;
mod sink;
mod specstory;
mod swe_agent;
mod telegram;
mod time;

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::store::BoxError;

pub use account::{Account, KindCount, UnreadableRecord};
pub use claude_code::describes_a_session;
pub use lines::LINE_BYTES_MAX;
pub use markdown_session::belongs_to_transcript;
pub use recognise::{Format, recognise};
pub use sink::{FoundEntry, FoundSession, Link, Sink};

use output::Out;
pub(crate) use output::fingerprint;

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An I/O error.
    #[error("it could not be read")]
    Io(#[from] std::io::Error),
    /// It has another format than expected, or the whole file is damaged.
    #[error("{what}")]
    Broken {
        /// What is wrong.
        what: String,
    },
    /// The receiver of the entries failed.
    #[error("its sessions could not be imported")]
    Sink(#[source] BoxError),
}

impl ReadError {
    pub(crate) fn broken(what: impl Into<String>) -> ReadError {
        ReadError::Broken { what: what.into() }
    }
}

/// The result of reading.
pub type Result<T> = std::result::Result<T, ReadError>;

/// Settings of a reader.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time zone of times that have none.
    pub zone: TimeZone,
    /// When the file was last changed, used for entries without a time.
    pub modified: Timestamp,
    /// Whether sessions are bound to the keys in the file. A key decides which conversation a
    /// client continues, so a file from someone else must not choose it.
    pub keys: bool,
}

/// Reads a file, or a folder if the format is one, and passes on what is in it. `progress` is
/// called from time to time with the number of bytes read.
///
/// # Errors
///
/// [`ReadError`]; what was passed on before the error stays.
pub fn read(
    format: Format,
    path: &Path,
    options: &Options,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(u64),
) -> Result<Account> {
    let mut out = Out::new(format, options, sink, progress);
    match format {
        Format::Magent => magent::read(path, &mut out)?,
        Format::Agent => agent::read(path, &mut out)?,
        Format::Telegram => telegram::read(path, &mut out)?,
        Format::Markdown => markdown_session::read(path, &mut out)?,
        Format::Rethread => rethread::read(path, &mut out)?,
        Format::ClaudeCode => claude_code::read(path, &mut out)?,
        Format::Codex => codex::read(path, &mut out)?,
        Format::OpenAi | Format::Anthropic => messages::read(path, &mut out)?,
        Format::Gemini => gemini::read(path, &mut out)?,
        Format::OpenCode => opencode::read(path, &mut out)?,
        Format::Pi => pi::read(path, &mut out)?,
        Format::Aider => aider::read(path, &mut out)?,
        Format::SpecStory => specstory::read(path, &mut out)?,
        Format::SweAgent => swe_agent::read(path, &mut out)?,
        Format::Goose => goose::read(path, &mut out)?,
        Format::Llm => llm::read(path, &mut out)?,
        Format::OpenAiAgents => openai_agents::read(path, &mut out)?,
    }
    out.finish()
}
