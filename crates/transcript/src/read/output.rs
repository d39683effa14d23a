//! The output of readers: passes on what they find, and keeps the account.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use jiff::Timestamp;
use rethread_core::entry::Body;
use rethread_core::limits::ENTRY_ID_BYTES_MAX;
use rethread_core::message::{BlockKind, Usage};
use rethread_core::name::is_invisible;
use rethread_core::{Message, Raw, Role};
use sha2::{Digest, Sha256};

use super::account::Account;
use super::document::Damage;
use super::fields::Fields;
use super::lines::{Line, Lines};
use super::recognise::Format;
use super::sink::{FoundEntry, FoundSession, Sink};
use super::{Options, ReadError, Result};

/// Bytes between two progress reports.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Bytes of records that wait for the first message. A file with more of them is imported as it is.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Entries that forks get as copies of what came before them, for all forks of a file together.
/// Otherwise a file in which someone went back hundreds of times would be stored hundreds of times.
const COPIES_MAX: usize = 200_000;

/// What a reader writes to.
pub(super) struct Out<'a> {
    pub(super) options: &'a Options,
    pub(super) account: Account,
    format: Format,
    sink: &'a mut dyn Sink,
    progress: &'a mut dyn FnMut(u64),
    told: u64,
    ledgers: Vec<Ledger>,
    /// Sessions that get a copy of other sessions' messages, until they branch off.
    mirrors: Vec<(usize, usize)>,
    copies: usize,
    /// What was found before the first message. If the file ends before that, nothing is imported.
    waiting: Option<Waiting>,
    /// How often each record without an id was seen.
    seen: HashMap<u64, u32>,
}

/// Sessions, and records that are kept unchanged.
#[derive(Default)]
struct Waiting {
    sessions: Vec<FoundSession>,
    entries: Vec<(usize, FoundEntry)>,
    bytes: usize,
}

/// The open calls of a session.
#[derive(Default)]
struct Ledger {
    /// The turn in which each was made.
    open: HashMap<u64, u64>,
    turn: u64,
}

/// The destination of an entry, and its id.
pub(super) struct Slot {
    pub(super) session: usize,
    pub(super) id: String,
    pub(super) at: Option<Timestamp>,
}

impl<'a> Out<'a> {
    pub(super) fn new(
        format: Format,
        options: &'a Options,
        sink: &'a mut dyn Sink,
        progress: &'a mut dyn FnMut(u64),
    ) -> Out<'a> {
        let account = Account::default();
        let waiting = Some(Waiting::default());
        let (ledgers, mirrors) = (Vec::new(), Vec::new());
        let (told, copies, seen) = (0, 0, HashMap::new());
        Out {
            options,
            account,
            format,
            sink,
            progress,
            told,
            ledgers,
            mirrors,
            copies,
            waiting,
            seen,
        }
    }

    /// The id of a record that has none: its content, and the number of its occurrence. Its
    /// position in the file is not part of it, because a file may lose its beginning.
    pub(super) fn id_of(&mut self, record: &str) -> String {
        let mark = fingerprint(&[record]);
        let count = self.seen.entry(hash(record)).or_default();
        *count += 1;
        if *count == 1 { mark } else { format!("{mark}.{count}") }
    }

    /// The format that is read.
    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// A session was found. Returns the index by which its entries refer to it.
    pub(super) fn session(&mut self, found: FoundSession) -> Result<usize> {
        self.account.sessions += 1;
        self.ledgers.push(Ledger::default());
        match &mut self.waiting {
            Some(waiting) => waiting.sessions.push(found),
            None => self.sink.session(found).map_err(ReadError::Sink)?,
        }
        Ok(self.ledgers.len() - 1)
    }

    /// There is a message: everything that waited is passed on, and nothing waits from now on.
    fn open(&mut self) -> Result<()> {
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        for found in waiting.sessions {
            self.sink.session(found).map_err(ReadError::Sink)?;
        }
        for (session, entry) in waiting.entries {
            self.sink.entry(session, entry).map_err(ReadError::Sink)?;
        }
        Ok(())
    }

    /// Records were read; each must be stored, kept or reported.
    pub(super) fn records(&mut self, count: u64) {
        self.account.records += count;
    }

    /// This many bytes were read so far.
    pub(super) fn bytes(&mut self, bytes: u64) {
        if bytes >= self.told + PROGRESS_BYTES || bytes < self.told {
            self.told = bytes;
            (self.progress)(bytes);
        }
    }

    /// A message, from `records` records of one kind.
    pub(super) fn message(
        &mut self,
        slot: Slot,
        message: Message,
        kind: &str,
        records: u64,
    ) -> Result<()> {
        self.account.store(kind, records);
        self.weigh(slot.session, &message);
        if let Some(usage) = message.usage {
            self.account.tokens += usage;
        }
        self.entry(slot, Body::Message(message))
    }

    /// A record that becomes a body other than a message.
    pub(super) fn store(&mut self, slot: Slot, body: Body, kind: &str) -> Result<()> {
        self.account.store(kind, 1);
        self.entry(slot, body)
    }

    /// An entry of a record that was counted with another one.
    pub(super) fn beside(&mut self, slot: Slot, body: Body) -> Result<()> {
        self.entry(slot, body)
    }

    /// An attachment of a session.
    pub(super) fn blob(&mut self, session: usize, bytes: Vec<u8>) -> Result<()> {
        self.account.store("attachment", 1);
        self.copy_blob(session, bytes)
    }

    /// An attachment whose record is counted elsewhere.
    pub(super) fn copy_blob(&mut self, session: usize, bytes: Vec<u8>) -> Result<()> {
        self.open()?;
        self.sink.blob(session, bytes).map_err(ReadError::Sink)
    }

    /// A record whose content is in the session itself or in another entry.
    pub(super) fn used(&mut self, kind: &str) {
        self.account.store(kind, 1);
    }

    /// A record that is kept unchanged. Text that is not JSON is kept as a JSON string.
    pub(super) fn raw(&mut self, slot: Slot, kind: &str, text: &str) -> Result<()> {
        self.account.keep(kind);
        let raw = Raw::parse(text.to_owned()).unwrap_or_else(|_| Raw::of(&text));
        let shown: String = kind.chars().filter(|c| !is_invisible(*c)).take(80).collect();
        let kind = format!("imported/{}/{shown}", self.format.name());
        let Some(waiting) = &mut self.waiting else {
            return self.entry(slot, Body::Unknown { kind, raw });
        };
        waiting.bytes += text.len();
        let Slot { session, id, at } = slot;
        let entry = FoundEntry { id: valid_id(id), at, body: Body::Unknown { kind, raw } };
        waiting.entries.push((session, entry));
        match waiting.bytes > WAITING_BYTES_MAX {
            true => self.open(),
            false => Ok(()),
        }
    }

    /// A record that is kept unchanged inside another entry.
    pub(super) fn kept(&mut self, kind: &str) {
        self.account.keep(kind);
    }

    /// The fields of a line; a line without any is reported.
    pub(super) fn fields<'l>(&mut self, number: u64, line: &'l str) -> Option<Fields<'l>> {
        let told = |what| self.unreadable("broken", format!("line {number}"), what);
        Fields::parse(line).map_err(told).ok()
    }

    /// A record that cannot be read.
    pub(super) fn unreadable(&mut self, kind: &str, place: String, what: impl Into<String>) {
        self.account.report(kind, place, what.into());
    }

    /// A document was damaged; `items` of its list were complete.
    pub(super) fn damaged(&mut self, damage: Option<Damage>, items: usize) {
        let Some(damage) = damage else { return };
        self.records(1);
        match damage {
            Damage::CutOff => {
                let place = format!("message {}", items + 1);
                self.unreadable("broken", place, "the file ends in it");
            }
            Damage::Trailing => {
                self.unreadable(
                    "broken",
                    "the end".into(),
                    "there is something after the document",
                );
            }
        }
    }

    /// An entry without a record of its own: a marker, or a copy.
    pub(super) fn entry(&mut self, slot: Slot, body: Body) -> Result<()> {
        self.open()?;
        let id = valid_id(slot.id);
        let entry = FoundEntry { id, at: slot.at, body };
        if !self.mirrors.is_empty() && matches!(entry.body, Body::Message(_) | Body::Cleared { .. })
        {
            for (_, to) in self.mirrors.iter().filter(|(from, _)| *from == slot.session) {
                self.copies += 1;
                self.sink.entry(*to, entry.clone()).map_err(ReadError::Sink)?;
            }
            if self.copies > COPIES_MAX {
                self.mirrors.clear();
            }
        }
        self.sink.entry(slot.session, entry).map_err(ReadError::Sink)
    }

    /// From now on, messages of a session are copied to another one, which branches off later.
    /// There is a limit on the copies of all sessions together; beyond it, none are made.
    pub(super) fn mirror(&mut self, from: usize, to: usize) {
        self.mirrors.push((from, to));
    }

    /// A session branches off the one it came from. Returns whether it got everything up to there.
    pub(super) fn leave(&mut self, session: usize) -> bool {
        self.mirrors.retain(|(_, to)| *to != session);
        self.copies <= COPIES_MAX
    }

    /// A note for the user.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.account.notes.push(what.into());
    }

    /// Tokens that the source counts in addition to those of messages.
    pub(super) fn tokens(&mut self, usage: Usage) {
        self.account.tokens += usage;
    }

    /// Goes through the lines of a file. Lines that are not text or too long are reported here.
    pub(super) fn lines(
        &mut self,
        path: &Path,
        each: impl FnMut(&mut Self, u64, &str) -> Result<()>,
    ) -> Result<()> {
        self.first_lines(path, u64::MAX, each)
    }

    /// Goes through the lines that a first pass counted. Lines written since then are left to the
    /// next import.
    pub(super) fn first_lines(
        &mut self,
        path: &Path,
        count: u64,
        mut each: impl FnMut(&mut Self, u64, &str) -> Result<()>,
    ) -> Result<()> {
        let mut lines = Lines::open(path)?;
        loop {
            let bytes = lines.bytes();
            match lines.next() {
                Ok(None) => return Ok(()),
                Ok(Some((number, _))) if number > count => return Ok(()),
                Ok(Some((number, Line::Text(text)))) => {
                    self.records(1);
                    self.bytes(bytes);
                    each(self, number, text)?;
                }
                Ok(Some((number, Line::NotText))) => {
                    self.records(1);
                    self.unreadable("not text", format!("line {number}"), "it is not UTF-8");
                }
                Ok(Some((number, Line::TooLong(length)))) => {
                    self.records(1);
                    let what = format!("it is {length} bytes long; a message has at most 16 MiB");
                    self.unreadable("too long", format!("line {number}"), what);
                }
                // The part of a damaged archive before the error is worth keeping.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound && bytes > 0 => {
                    self.records(1);
                    self.unreadable("damaged", format!("byte {bytes}"), error.to_string());
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Counts calls and the results that answer them.
    fn weigh(&mut self, session: usize, message: &Message) {
        let Some(ledger) = self.ledgers.get_mut(session) else { return };
        if message.opens_turn() {
            ledger.turn += 1;
        }
        for block in &message.content {
            match &block.kind {
                BlockKind::ToolUse(call) => {
                    self.account.calls += 1;
                    ledger.open.insert(hash(&call.id), ledger.turn);
                }
                BlockKind::ToolResult(result) => {
                    match ledger.open.remove(&hash(&result.tool_use_id)) {
                        Some(_) => self.account.pairs += 1,
                        None => self.account.orphans += 1,
                    }
                }
                _ => {}
            }
        }
    }

    /// Finishes the account.
    pub(super) fn finish(mut self) -> Result<Account> {
        if self.waiting.as_ref().is_some_and(|waiting| !waiting.sessions.is_empty()) {
            match self.account.unreadable {
                0 => self.note("it contains no messages"),
                _ => {
                    self.waiting = None;
                    self.account.give_up();
                    self.note("it ends before the first message: no session was created");
                }
            }
        }
        self.open()?;
        for ledger in &self.ledgers {
            let open = ledger.open.values().filter(|turn| **turn == ledger.turn).count() as u64;
            self.account.open += open;
            self.account.dropped += ledger.open.len() as u64 - open;
        }
        // Calls with the same id count once among the open ones, and otherwise as dropped.
        let Account { calls, pairs, open, dropped, .. } = self.account;
        self.account.dropped += calls.saturating_sub(pairs + open + dropped);
        Ok(self.account)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// An id that is valid in a log: an invalid one is replaced by its fingerprint.
fn valid_id(id: String) -> String {
    let valid = !id.is_empty() && id.len() <= ENTRY_ID_BYTES_MAX && !id.chars().any(is_invisible);
    if valid { id } else { fingerprint(&[&id]) }
}

/// A fingerprint of some texts, as an id.
pub(crate) fn fingerprint(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
        hasher.update([0]);
    }
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A message from a role and content as JSON in any of its forms. A user message that contains only
/// tool results becomes a tool message.
pub(super) fn said(role: Role, content: &str) -> std::result::Result<Message, String> {
    let mut message = Message::from_content(role, content).map_err(|error| error.to_string())?;
    let only_results = !message.content.is_empty()
        && message.content.iter().all(|b| matches!(b.kind, BlockKind::ToolResult(_)));
    if role == Role::User && only_results {
        message.role = Role::Tool;
    }
    Ok(message)
}
