//! What the results and messages of a session show so far, for the decision about the next result.
//!
//! It is a fold over the entries of a log and contains hashes, not texts. A decision depends on
//! nothing before the last clear, and on nothing more than
//! [`SEEN_ENTRIES`](crate::limits::SEEN_ENTRIES) entries before the question of the turn: so it can
//! be computed from the end of a log, and `doctor` computes the same from all of it.

use std::borrow::Cow;
use std::collections::HashMap;

use super::decide::{Before, by_itself, decide};
use super::digest::Digest;
use super::hash::{HashedMap, hash_of};
use super::late_decisions::Stored;
use super::{Allowances, LineRange, Lines, Shown, ToolKind};
use crate::entry::{Body, Entry, Tally, Thinned};
use crate::identifiers::identifiers;
use crate::limits::SEEN_ENTRIES;
use crate::measure::Measure;
use crate::message::{Block, BlockKind, Call, Message, Role, ToolResult};

/// What is shown so far.
#[derive(Default)]
pub struct Seen {
    /// The first entry that was not read.
    next: u64,
    /// Names in messages, and the last entry with each.
    said: HashedMap<u64>,
    /// Names in results in their first form: the entry of the call, and the turn. The same for the
    /// thin form.
    shown: HashedMap<(u64, u64)>,
    thin: HashedMap<u64>,
    /// Lines that are shown, and their last position: the index in `results`, and the line.
    lines: HashedMap<(u32, u32)>,
    results: Vec<SeenResult>,
    /// The question of the current turn.
    turn: u64,
    /// The calls of the last replies.
    calls: HashMap<String, (u64, ToolKind)>,
    /// The turns whose results are thinned.
    thinned: Vec<Thinned>,
}

struct SeenResult {
    /// Its entry.
    seq: u64,
    /// The entry of the call it answers, and the first of its turn.
    call: u64,
    turn: u64,
    /// The hashes of its lines; zero for those that are not shown.
    lines: Vec<u64>,
}

impl Seen {
    /// The first entry that is needed to decide about a result after these.
    pub fn first_needed(tally: &Tally) -> u64 {
        tally.turn.unwrap_or(0).saturating_sub(SEEN_ENTRIES).max(tally.begins())
    }

    /// Everything in these entries that a decision after `tally` may depend on.
    pub(crate) fn of(entries: &[Entry], tally: &Tally) -> Seen {
        let from = Seen::first_needed(tally);
        let entries = &entries[entries.partition_point(|entry| entry.seq < from)..];
        let stored = Stored::of(entries);
        let mut seen = Seen { next: from, ..Seen::default() };
        for entry in entries {
            seen.read(entry.seq, &entry.body, &stored.measure(entry));
        }
        seen
    }

    /// The first entry it has not read.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether it is enough to read the new ones of these entries: none of them changes what is
    /// shown of the others.
    pub(crate) fn continues(&self, entries: &[Entry]) -> bool {
        let new = entries.iter().rev().take_while(|entry| entry.seq >= self.next);
        !new.clone().any(|entry| matches!(entry.body, Body::Decided(_)))
    }

    /// Reads the next entry.
    pub fn read(&mut self, seq: u64, body: &Body, measure: &Measure) {
        self.next = seq + 1;
        match body {
            Body::Message(message) => self.read_message(seq, message, measure),
            Body::Restored(restored) => {
                self.say(seq, &restored.prompt);
                for carried in &restored.tail {
                    self.read_message(seq, &carried.message, &Measure::default());
                }
            }
            Body::Thinned(thinned) => self.thinned.push(*thinned),
            _ => {}
        }
    }

    /// Reads the next entry, and first decides about its results, which is stored in their
    /// measures. Earlier text than `from` does not count. Each text and its decision are passed to
    /// `each`, with the index of the result, because nothing has to be split into lines again then.
    pub(crate) fn place(
        &mut self,
        (seq, from): (u64, u64),
        body: &Body,
        measure: &mut Measure,
        allowances: &Allowances,
        mut each: impl FnMut(usize, &str, &Lines<'_>, &Shown),
    ) {
        let Some(message) = body.message().filter(|_| !measure.results.is_empty()) else {
            return self.read(seq, body, measure);
        };
        let mut results = measure.results.iter_mut().enumerate();
        self.next = seq + 1;
        self.walk(seq, message, |seen, result| {
            let text = text(result);
            let lines = Lines::new(&text);
            let digest = Digest::new(&lines);
            let shown = seen.decide_one(result, &digest, from, allowances);
            seen.read_result(seq, result, &digest, &shown);
            if let Some((index, measure)) = results.next() {
                each(index, &text, &lines, &shown);
                measure.shown = Some(shown);
            }
        });
    }

    fn say(&mut self, seq: u64, text: &str) {
        self.said.extend(identifiers(text).map(|name| (hash_of(name), seq)));
    }

    fn read_message(&mut self, seq: u64, message: &Message, measure: &Measure) {
        let mut stored = measure.results.iter().map(|result| result.shown.as_ref());
        self.walk(seq, message, |seen, result| {
            let text = text(result);
            let lines = Lines::new(&text);
            let digest = Digest::new(&lines);
            let stored = stored.next().flatten().filter(|shown| shown.fits(&lines));
            let Some((_, kind)) = seen.call_of(result) else { return };
            let shown = stored.map_or_else(
                || Cow::Owned(by_itself(&digest, kind, &Allowances::default())),
                Cow::Borrowed,
            );
            seen.read_result(seq, result, &digest, &shown);
        });
    }

    /// Reads a message, and passes its results to `each`.
    fn walk(&mut self, seq: u64, message: &Message, mut each: impl FnMut(&mut Seen, &ToolResult)) {
        if message.opens_turn() {
            self.turn = seq;
        }
        for block in &message.content {
            match &block.kind {
                BlockKind::Text(text) | BlockKind::Prefix(text) => self.say(seq, text),
                BlockKind::ToolUse(call) => self.read_call(seq, call),
                BlockKind::ToolResult(result) => each(self, result),
                _ => {}
            }
        }
        if message.role == Role::User && message.opens_turn() {
            self.calls.clear();
        }
    }

    fn read_call(&mut self, seq: u64, call: &Call) {
        // Escapes in JSON separate names like blanks do; the letter of `\n` and `\t` belongs to
        // them.
        let mut pieces = call.input.get().split('\\');
        self.say(seq, pieces.next().unwrap_or_default());
        for piece in pieces {
            self.say(seq, piece.strip_prefix(['n', 't']).unwrap_or(piece));
        }
        self.calls.insert(call.id.clone(), (seq, ToolKind::of(call)));
    }

    /// The call of a result: its entry, and its kind.
    fn call_of(&self, result: &ToolResult) -> Option<(u64, ToolKind)> {
        let (call, kind) = *self.calls.get(&result.tool_use_id)?;
        Some((call, kind_of(kind, result)))
    }

    fn read_result(&mut self, seq: u64, result: &ToolResult, digest: &Digest<'_>, shown: &Shown) {
        let Some((call, _)) = self.call_of(result) else { return };
        let (hashes, names, turn) = (digest.hashes(), digest.names(), self.turn);
        let mut lines = vec![0; digest.len()];
        let at = u32::try_from(self.results.len()).expect("fewer results than that");
        let shows = |part: &&LineRange| part.same_as.is_none();
        for part in shown.parts.iter().filter(shows) {
            for line in part.start as usize..part.end as usize {
                lines[line] = hashes[line];
                if digest.lines.get(line).text.len() > 3 {
                    self.lines.insert(hashes[line], (at, line as u32));
                }
                self.shown.extend(names.of(line).iter().map(|name| (*name, (call, turn))));
            }
        }
        // A result that is too short to be thinned stays the same.
        let thin = if shown.thin.is_empty() { &shown.parts } else { &shown.thin };
        for line in thin.iter().filter(shows).flat_map(|part| part.start..part.end) {
            self.thin.extend(names.of(line as usize).iter().map(|name| (*name, call)));
        }
        self.results.push(SeenResult { seq, call, turn, lines });
    }

    /// Whether the results of a turn are thinned.
    fn is_thin(&self, turn: u64) -> bool {
        self.thinned.iter().any(|thinned| thinned.covers(turn))
    }

    /// Decides about the results of the next message, after what `tally` counts.
    pub fn decide(&self, message: &Message, tally: &Tally) -> Vec<Shown> {
        let from = Seen::first_needed(tally);
        let decide = |result: &ToolResult| {
            let text = text(result);
            self.decide_one(result, &Digest::new(&Lines::new(&text)), from, &Allowances::default())
        };
        message.results().map(decide).collect()
    }

    fn decide_one(
        &self,
        result: &ToolResult,
        digest: &Digest<'_>,
        from: u64,
        allowances: &Allowances,
    ) -> Shown {
        let kind = kind_of_result(self, result);
        decide(digest, kind, allowances, &InView { seen: self, from })
    }
}

/// The text of a result, copied only if it has several parts.
fn text(result: &ToolResult) -> Cow<'_, str> {
    let mut texts = result.content.iter().filter_map(Block::as_text);
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(text), None) => Cow::Borrowed(text),
        _ => Cow::Owned(result.text()),
    }
}

/// The kind of the next result.
pub(super) fn kind_of_result(seen: &Seen, result: &ToolResult) -> ToolKind {
    seen.call_of(result).map_or(ToolKind::Other, |(_, kind)| kind)
}

/// The output of a failed edit says why, so it is shown.
pub(crate) fn kind_of(kind: ToolKind, result: &ToolResult) -> ToolKind {
    if kind == ToolKind::Edit && result.is_error { ToolKind::Other } else { kind }
}

/// What is in view from an entry on.
struct InView<'a> {
    seen: &'a Seen,
    from: u64,
}

impl Before for InView<'_> {
    fn is_empty(&self) -> bool {
        self.seen.results.is_empty()
    }

    fn shows(&self, name: u64) -> bool {
        let since =
            |map: &HashedMap<u64>, from: u64| map.get(&name).is_some_and(|seq| *seq >= from);
        let shown = self.seen.shown.get(&name);
        since(&self.seen.said, self.from)
            || shown.is_some_and(|(call, turn)| *call >= self.from && !self.seen.is_thin(*turn))
            || since(&self.seen.thin, self.from)
    }

    fn repeats(&self, lines: &[u64]) -> Option<(u64, usize)> {
        let (at, start) = *self.seen.lines.get(lines.first()?)?;
        let result = &self.seen.results[at as usize];
        if self.seen.is_thin(result.turn) || result.call < self.from {
            return None;
        }
        let shown = &result.lines[start as usize..];
        let count = shown.iter().zip(lines).take_while(|(a, b)| a == b).count();
        (count > 0).then_some((result.seq, count))
    }
}
