//! aider's history: the chats of a folder, one after the other, in one Markdown file.
//!
//! `#### ` marks what the user wrote, `> ` what aider itself printed; the rest is the model's text.
//! There is nothing else to go by: if a model quotes something at the start of a line, it is read
//! as aider's output.

use std::collections::HashMap;
use std::path::Path;

use rethread_core::Message;
use rethread_core::Profile;
use rethread_core::entry::{Body, Finished};
use rethread_core::message::Usage;

use super::output::{Out, Slot, fingerprint};
use super::sink::FoundSession;
use super::{Result, time};
use crate::numbers;

const STARTED: &str = "# aider chat started at ";

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let mut reader = Reader {
        chats: HashMap::new(),
        chat: String::new(),
        session: None,
        at: None,
        kind: Kind::Model,
        block: Vec::new(),
    };
    let text = super::document::text(path)?;
    for line in text.lines() {
        if let Some(started) = line.strip_prefix(STARTED) {
            reader.end_block(out)?;
            reader.chat(out, started.trim())?;
            continue;
        }
        let (kind, line) = match line {
            line if line.starts_with("#### ") => (Kind::User, &line["#### ".len()..]),
            "####" => (Kind::User, ""),
            line if line.starts_with('>') => (Kind::Aider, line),
            // A blank line belongs to the block around it.
            "" => (reader.kind, ""),
            line => (Kind::Model, line),
        };
        if kind != reader.kind {
            reader.end_block(out)?;
            reader.kind = kind;
        }
        reader.block.push(line.to_owned());
    }
    reader.end_block(out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    User,
    Aider,
    Model,
}

struct Reader {
    chats: HashMap<String, u32>,
    chat: String,
    session: Option<usize>,
    at: Option<jiff::Timestamp>,
    kind: Kind,
    block: Vec<String>,
}

impl Reader {
    fn chat(&mut self, out: &mut Out<'_>, started: &str) -> Result<()> {
        let count = self.chats.entry(started.to_owned()).or_default();
        *count += 1;
        self.chat = format!("{started}#{count}");
        self.at = time::read(started, &out.options.zone);
        self.kind = Kind::Model;
        self.session = Some(out.session(FoundSession {
            identity: self.chat.clone(),
            profile: Profile { agent: Some("aider".into()), ..Profile::default() },
            created_at: self.at,
            windowed: true,
            ..FoundSession::default()
        })?);
        out.records(1);
        out.used("chat");
        Ok(())
    }

    fn end_block(&mut self, out: &mut Out<'_>) -> Result<()> {
        let lines = std::mem::take(&mut self.block);
        let text = lines.join("\n");
        let text = text.trim_matches('\n');
        if text.trim().is_empty() {
            return Ok(());
        }
        let session = match self.session {
            Some(session) => session,
            // The beginning of the file is missing.
            None => {
                let session = out.session(FoundSession {
                    identity: fingerprint(&[text]),
                    profile: Profile { agent: Some("aider".into()), ..Profile::default() },
                    windowed: true,
                    nameless: true,
                    ..FoundSession::default()
                })?;
                self.session = Some(session);
                session
            }
        };
        out.records(1);
        let slot = Slot { session, id: fingerprint(&[text]), at: self.at };
        match self.kind {
            // Markdown ends a line with two spaces to mark a line break.
            Kind::User => out.message(slot, Message::user(unbroken(text)), "user", 1),
            Kind::Model => out.message(slot, Message::assistant(text.trim()), "assistant", 1),
            Kind::Aider => {
                out.raw(slot, "aider", text)?;
                let usage = text.lines().fold(Usage::default(), |mut sum, line| {
                    sum += tokens_of(line).unwrap_or_default();
                    sum
                });
                if usage == Usage::default() {
                    return Ok(());
                }
                out.tokens(usage);
                let finished = Finished { rounds: 1, usage, ..Finished::default() };
                let id = format!("{}:cost", out.id_of(&format!("{} {text}", self.chat)));
                let slot = Slot { session, id, at: self.at };
                out.entry(slot, Body::Finished(finished))
            }
        }
    }
}

fn unbroken(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Reads `> Tokens: 3.2k sent, 1.5k cache hit, 156 received. Cost: …`.
fn tokens_of(line: &str) -> Option<Usage> {
    let counts = line.trim_start_matches('>').trim().strip_prefix("Tokens:")?;
    let counts = counts.split("Cost").next()?;
    let mut usage = Usage::default();
    for part in counts.split(", ") {
        let (count, what) = part.trim().split_once(' ')?;
        let count = numbers::parse(count)?;
        match what.trim().trim_end_matches('.') {
            "sent" => usage.input += count,
            "received" => usage.output += count,
            "cache hit" => usage.cache_read += count,
            "cache write" => usage.cache_write += count,
            _ => {}
        }
    }
    // Tokens read from or written to the cache are part of those sent.
    usage.input = usage.input.saturating_sub(usage.cache_read + usage.cache_write);
    Some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_tokens_is_read() {
        let line = "> Tokens: 3.2k sent, 1.5k cache hit, 156 received. Cost: $0.02 message.";
        let usage = Usage { input: 1_700, output: 156, cache_read: 1_500, cache_write: 0 };
        assert_eq!(tokens_of(line), Some(usage));
        let plain = Usage { input: 7_216, output: 91, ..Usage::default() };
        assert_eq!(tokens_of("> Tokens: 7,216 sent, 91 received."), Some(plain));
        assert_eq!(tokens_of("> Tokens: many sent"), None);
    }
}
