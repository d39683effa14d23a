//! The end of a session's log: a run of entries without gaps.
//!
//! A log is read from its end, as far back as needed. Entries that matter from further back (the
//! system message, the summary a session was restored from) are kept in addition to the run.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::entry::{Body, Entry, Tally};
use crate::message::{Block, BlockKind, Message, Role, ToolResult};
use crate::shown::Excerpts;

/// Entries that are not consecutive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found entry {found} instead of entry {expected}")]
pub struct Gap {
    /// The expected seq.
    pub expected: u64,
    /// The actual seq.
    pub found: u64,
}

/// A checked run of entries up to the end of a session's log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: Vec<Entry>,
    pinned: Vec<Entry>,
    /// Errors of the entries that cannot be read, by their seqs.
    damage: BTreeMap<u64, String>,
    excerpts: Excerpts,
}

impl Log {
    /// Checks that the entries are consecutive.
    ///
    /// # Errors
    ///
    /// [`Gap`] if they are not.
    pub fn new(entries: Vec<Entry>) -> Result<Log, Gap> {
        let first = entries.first().map_or(0, |entry| entry.seq);
        for (expected, entry) in (first..).zip(&entries) {
            if entry.seq != expected {
                return Err(Gap { expected, found: entry.seq });
            }
        }
        Ok(Log { entries, ..Log::default() })
    }

    /// Adds an entry at the end.
    ///
    /// # Errors
    ///
    /// [`Gap`] if it does not follow the last.
    pub fn push(&mut self, entry: Entry) -> Result<(), Gap> {
        match self.entries.last() {
            Some(last) if entry.seq != last.seq + 1 => {
                Err(Gap { expected: last.seq + 1, found: entry.seq })
            }
            _ => {
                self.entries.push(entry);
                Ok(())
            }
        }
    }

    /// Puts earlier entries before the run.
    ///
    /// # Errors
    ///
    /// [`Gap`] if they do not end where the run begins.
    pub fn extend_back(&mut self, mut earlier: Vec<Entry>) -> Result<(), Gap> {
        earlier.append(&mut self.entries);
        let Log { entries, .. } = Log::new(earlier)?;
        self.entries = entries;
        Ok(())
    }

    /// Records that the entry at this seq is only a placeholder: the original cannot be read.
    pub fn note_damage(&mut self, seq: u64, what: String) {
        self.damage.insert(seq, what);
    }

    /// The entries that cannot be read, in the part of the log that was read, with their errors.
    pub fn damage(&self) -> &BTreeMap<u64, String> {
        &self.damage
    }

    /// Keeps an entry from before the run.
    pub fn pin(&mut self, entry: Entry) {
        self.pinned.push(entry);
    }

    /// The entries of the run, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Excerpts of its results that were made before.
    pub(crate) fn excerpts(&self) -> &Excerpts {
        &self.excerpts
    }

    /// The first seq of the run.
    pub fn first(&self) -> u64 {
        self.entries.first().map_or(0, |entry| entry.seq)
    }

    /// The tally of the whole log.
    pub fn tally(&self) -> Tally {
        self.entries.last().map_or_else(Tally::default, |entry| entry.tally)
    }

    /// The tally before this entry of the run.
    pub(crate) fn tally_before(&self, index: usize) -> Tally {
        if index > 0 {
            return self.entries[index - 1].tally;
        }
        self.entries.first().map(tally_before).unwrap_or_default()
    }

    /// An entry of the run, or one that is kept in addition to it.
    pub fn get(&self, seq: u64) -> Option<&Entry> {
        let index = seq.checked_sub(self.first()).and_then(|index| usize::try_from(index).ok());
        index
            .and_then(|index| self.entries.get(index))
            .filter(|entry| entry.seq == seq)
            .or_else(|| self.pinned.iter().find(|entry| entry.seq == seq))
    }

    /// When this model (`provider/name`) replied last, in the part that was read.
    pub fn last_reply_of(&self, model: &str) -> Option<Timestamp> {
        let by_model = |entry: &&Entry| {
            let message = entry.body.message().filter(|message| message.role == Role::Assistant);
            message.is_some_and(|message| message.model.as_deref() == Some(model))
        };
        self.entries().iter().rev().find(by_model).map(|entry| entry.at)
    }

    /// The calls without a result, after a crash or a stop: those of the last reply, or of the last
    /// few if each contains nothing but calls.
    pub fn unanswered(&self) -> Vec<(String, String)> {
        let mut answered = Vec::new();
        let mut open: Vec<(String, String)> = Vec::new();
        let mut replied = false;
        for message in self.entries.iter().rev().filter_map(|entry| entry.body.message()) {
            match message.role {
                Role::System => {}
                Role::Assistant if message.calls().next().is_none() => break,
                Role::Assistant => {
                    replied = true;
                    let taken = |id: &String| open.iter().any(|(open, _)| open == id);
                    let calls = message
                        .calls()
                        .filter(|call| !answered.contains(&call.id) && !taken(&call.id));
                    let calls: Vec<(String, String)> =
                        calls.map(|call| (call.id.clone(), call.name.clone())).collect();
                    open.splice(..0, calls);
                }
                _ if replied || message.opens_turn() => break,
                _ => answered.extend(message.results().map(|r| r.tool_use_id.clone())),
            }
        }
        open
    }

    /// The tool that was called under this id by the last reply.
    pub fn tool_of(&self, tool_use_id: &str) -> Option<String> {
        open_calls(self.entries.iter().map(|entry| &entry.body), tool_use_id)
    }

    /// The results to append so that every call has one.
    pub fn repair(&self) -> Vec<Message> {
        self.unanswered().into_iter().map(|(id, _)| interrupted_result(id)).collect()
    }
}

/// The tally before this entry, computed from its own.
pub(crate) fn tally_before(entry: &Entry) -> Tally {
    let mut before = entry.tally;
    let opens = entry.body.message().is_some_and(Message::opens_turn);
    let counts = entry.body.message().is_some_and(|message| message.role != Role::System);
    // A damaged count is wrong, but not a reason to show nothing.
    before.entries = before.entries.saturating_sub(1);
    before.tokens = before.tokens.saturating_sub(entry.measure.tokens.into());
    before.messages = before.messages.saturating_sub(counts.into());
    before.queries = before.queries.saturating_sub(opens.into());
    // An entry that sets it does not record what it was before.
    let older = |seq: &u64| *seq < entry.seq;
    before.turn = before.turn.filter(older);
    before.started = before.started.filter(older);
    before
}

/// The tool that the last reply in these bodies called under this id, if it has no result yet; or
/// that of an earlier reply, if only calls came after it. A reply is over when the user sends the
/// next message.
pub fn open_calls<'a>(
    bodies: impl DoubleEndedIterator<Item = &'a Body>,
    tool_use_id: &str,
) -> Option<String> {
    let mut replied = false;
    for message in bodies.rev().filter_map(Body::message) {
        // A call has one result.
        if message.results().any(|result| result.tool_use_id == tool_use_id) {
            return None;
        }
        match message.role {
            Role::System => {}
            Role::Assistant => match message.calls().find(|call| call.id == tool_use_id) {
                Some(call) => return Some(call.name.clone()),
                None if message.calls().next().is_none() => return None,
                None => replied = true,
            },
            _ if replied || message.opens_turn() => return None,
            _ => {}
        }
    }
    None
}

/// The result of a call that was interrupted.
pub const INTERRUPTED: &str = "[interrupted: the conversation continued before there was a result]";

/// A message with the result of a call that was interrupted.
pub fn interrupted_result(tool_use_id: String) -> Message {
    let result =
        ToolResult { tool_use_id, content: vec![Block::text(INTERRUPTED)], is_error: true };
    Message::new(Role::Tool, vec![Block::of(BlockKind::ToolResult(result))])
}
