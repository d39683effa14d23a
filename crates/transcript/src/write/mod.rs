//! Writes sessions to files: one module per format.
//!
//! A [`Writer`] is given a session, its entries one at a time, perhaps the next session of a chain,
//! and is finished. What a format has no place for is left out and counted, so that the caller can
//! report it. [`markdown`] needs more input and has its own functions.

mod agent;
mod anthropic;
pub mod html;
mod magent;
pub mod markdown;
mod openai;
mod pairs;
mod rethread;
mod telegram;
mod turn;
pub mod visible_json;

use std::collections::BTreeMap;
use std::io;

use jiff::tz::TimeZone;
use rethread_core::{BlobId, Entry, Session};

pub use rethread::VERSION;

/// Writes sessions in one format. Errors are those of the output.
pub trait Writer {
    /// Begins a session. The next one of a chain is written into the same document.
    fn begin(&mut self, session: &Session) -> io::Result<()>;

    /// Writes the next entry of its log.
    fn entry(&mut self, entry: &Entry) -> io::Result<()>;

    /// Writes an attachment of the session; attachments come before entries.
    fn blob(&mut self, _id: BlobId, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Whether the format has a place for attachments.
    fn takes_blobs(&self) -> bool {
        false
    }

    /// Ends the document.
    fn finish(&mut self) -> io::Result<()>;

    /// What was left out because the format has no place for it, with counts.
    fn left_out(&self) -> &BTreeMap<&'static str, u64>;
}

/// A writer for a format: `rethread`, `openai`, `anthropic`, `magent`, `agent`, `telegram` or
/// `html`. Times without a zone are written in `zone`.
pub fn writer<'a>(
    format: &str,
    out: &'a mut dyn io::Write,
    zone: TimeZone,
) -> Option<Box<dyn Writer + 'a>> {
    Some(match format {
        "rethread" => Box::new(rethread::RethreadLines::new(out)),
        "openai" => Box::new(openai::OpenAi::new(out)),
        "anthropic" => Box::new(anthropic::Anthropic::new(out)),
        "magent" => Box::new(magent::Magent::new(out, zone)),
        "agent" => Box::new(agent::Agent::new(out)),
        "telegram" => Box::new(telegram::Telegram::new(out)),
        "html" => Box::new(html::Html::new(out, zone)),
        _ => return None,
    })
}
