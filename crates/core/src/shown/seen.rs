//! What the results and messages of a session show so far, to decide about the next result.
//!
//! It is a fold over the entries of a log and holds numbers, not texts. What it says about a result
//! depends on nothing before the last clear, and on nothing further back than
//! [`SEEN_ENTRIES`](crate::limits::SEEN_ENTRIES) entries before the question of the turn: so it can
//! be made from the end of a log, and `doctor` makes the same one from all of it.

use std::collections::HashMap;

use super::decide::{Before, decide, number};
use super::{Lines, Shown, ToolKind};
use crate::entry::{Body, Tally, Thinned};
use crate::limits::SEEN_ENTRIES;
use crate::measure::Measure;
use crate::message::{BlockKind, Call, Message, Role, ToolResult};
use crate::names::names;

/// What is shown so far.
#[derive(Default)]
pub struct Seen {
    /// The first entry that was not read.
    next: Option<u64>,
    /// Names in what was said, and the last entry with each.
    said: HashMap<u64, u64>,
    /// Names in results as they are shown first: the entry of the call, and the turn. The same for
    /// their thin form.
    shown: HashMap<u64, (u64, u64)>,
    thin: HashMap<u64, u64>,
    /// Lines that are shown, and where last: which of `results`, and which line of it.
    lines: HashMap<u64, (u32, u32)>,
    results: Vec<SeenResult>,
    /// The question of the turn that is read.
    turn: u64,
    /// The calls of the last replies.
    calls: HashMap<String, (u64, ToolKind)>,
    /// The turns whose results are thin.
    thinned: Vec<Thinned>,
}

struct SeenResult {
    /// Its entry.
    seq: u64,
    /// The entry of the call it answers, and the first of its turn.
    call: u64,
    turn: u64,
    /// Its lines, those that are not shown as zero.
    lines: Vec<u64>,
}

impl Seen {
    /// The first entry it needs to decide about a result that comes after these.
    pub fn reach(tally: &Tally) -> u64 {
        tally.turn.unwrap_or(0).saturating_sub(SEEN_ENTRIES).max(tally.begins())
    }

    /// The first entry it has not read.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Reads the next entry.
    pub fn read(&mut self, seq: u64, body: &Body, measure: &Measure) {
        self.next = Some(seq + 1);
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

    fn say(&mut self, seq: u64, text: &str) {
        self.said.extend(names(text).map(|name| (number(name), seq)));
    }

    fn read_message(&mut self, seq: u64, message: &Message, measure: &Measure) {
        let mut results = 0;
        if message.opens_turn() {
            self.turn = seq;
        }
        for block in &message.content {
            match &block.kind {
                BlockKind::Text(text) | BlockKind::Prefix(text) => self.say(seq, text),
                BlockKind::ToolUse(call) => self.read_call(seq, call),
                BlockKind::ToolResult(result) => {
                    let stored = measure.results.get(results).and_then(|m| m.shown.as_ref());
                    self.read_result(seq, result, stored);
                    results += 1;
                }
                _ => {}
            }
        }
        if message.role == Role::User && message.opens_turn() {
            self.calls.clear();
        }
    }

    fn read_call(&mut self, seq: u64, call: &Call) {
        // Escapes in JSON separate names as blanks do, but for `\n` and its like.
        let input = call.input.get();
        match input.contains('\\') {
            true => self.say(seq, &input.replace("\\n", " ").replace("\\t", " ")),
            false => self.say(seq, input),
        }
        self.calls.insert(call.id.clone(), (seq, ToolKind::of(call)));
    }

    fn read_result(&mut self, seq: u64, result: &ToolResult, stored: Option<&Shown>) {
        let Some((call, kind)) = self.calls.get(&result.tool_use_id).copied() else { return };
        let text = result.text();
        let lines = Lines::new(&text);
        let by_itself;
        let shown = match stored.filter(|shown| shown.fits(&lines)) {
            Some(shown) => shown,
            None => {
                by_itself = super::decide::by_itself(&lines, kind_of(kind, result));
                &by_itself
            }
        };
        let mut numbers = vec![0; lines.len()];
        let at = u32::try_from(self.results.len()).expect("fewer results than that");
        for part in shown.parts.iter().filter(|part| part.same_as.is_none()) {
            for index in part.start..part.end {
                let line = lines.get(index as usize);
                let hash = number(&line.text);
                numbers[index as usize] = hash;
                if line.text.len() > 3 {
                    self.lines.insert(hash, (at, index));
                }
                let turn = self.turn;
                self.shown.extend(names(&line.text).map(|name| (number(name), (call, turn))));
            }
        }
        // What is too short to be thinned stays as it is.
        let thin = if shown.thin.is_empty() { &shown.parts } else { &shown.thin };
        let thin = thin.iter().filter(|part| part.same_as.is_none());
        for index in thin.flat_map(|part| part.start..part.end) {
            let text = &lines.get(index as usize).text;
            self.thin.extend(names(text).map(|name| (number(name), call)));
        }
        self.results.push(SeenResult { seq, call, turn: self.turn, lines: numbers });
    }

    /// Whether the results of a turn are thin.
    fn is_thin(&self, turn: u64) -> bool {
        self.thinned.iter().any(|thinned| thinned.covers(turn))
    }

    /// Decides about the results of a message that comes next, after what `tally` counts.
    pub fn decide(&self, message: &Message, tally: &Tally) -> Vec<Shown> {
        let from = Seen::reach(tally);
        let view = InView { seen: self, from };
        let decide = |result: &ToolResult| {
            let kind =
                self.calls.get(&result.tool_use_id).map_or(ToolKind::Other, |(_, kind)| *kind);
            decide(&Lines::new(&result.text()), kind_of(kind, result), &view)
        };
        message.results().map(decide).collect()
    }
}

/// A failed edit says why, and that is read.
pub(crate) fn kind_of(kind: ToolKind, result: &ToolResult) -> ToolKind {
    if kind == ToolKind::Edit && result.is_error { ToolKind::Other } else { kind }
}

/// What is in view from an entry on.
struct InView<'a> {
    seen: &'a Seen,
    from: u64,
}

impl Before for InView<'_> {
    fn shows(&self, name: u64) -> bool {
        let since =
            |map: &HashMap<u64, u64>, from: u64| map.get(&name).is_some_and(|seq| *seq >= from);
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
