//! A first pass over a rollout: which records contain the messages, and which turns were undone.

use std::path::Path;

use super::Result;
use super::claude_tree::hash;
use super::fields::Fields;
use super::lines::{Line, Lines};

/// What the pass found.
#[derive(Default)]
pub(super) struct Survey {
    /// The last line that was read.
    pub(super) lines: u64,
    /// Which records contain the messages.
    pub(super) source: Source,
    /// Lines that were undone, in order: from, to, and the fork they belong to.
    gone: Vec<(u64, u64, usize)>,
    forks: Vec<Start>,
}

/// Where a turn begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) line: u64,
    /// A fingerprint of it, which does not depend on its position.
    pub(super) mark: u64,
}

/// Where a file keeps its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Source {
    /// As items of the API.
    #[default]
    Items,
    /// In events only.
    Events,
    /// In events only, as items of a turn.
    TurnItems,
}

impl Survey {
    pub(super) fn of(path: &Path) -> Result<Survey> {
        let mut survey = Survey::default();
        let mut walk = Walk::default();
        let mut lines = Lines::open(path)?;
        // The second pass reports lines that cannot be read.
        while let Ok(Some((number, line))) = lines.next() {
            survey.lines = number;
            if let Line::Text(line) = line
                && let Some(fields) = Fields::of(line)
            {
                walk.line(Start { line: number, mark: hash(line) }, &fields);
            }
        }
        survey.source = match (walk.items, walk.events, walk.turn_items) {
            (true, _, _) | (false, false, false) => Source::Items,
            (false, true, _) => Source::Events,
            (false, false, true) => Source::TurnItems,
        };
        let turns = if survey.source == Source::Items { walk.of_items } else { walk.of_events };
        survey.gone = turns.gone;
        survey.gone.sort_unstable();
        survey.forks = turns.forks;
        Ok(survey)
    }

    /// The fork that a line was moved to.
    pub(super) fn fork(&self, line: u64) -> Option<usize> {
        let at = self.gone.partition_point(|(from, _, _)| *from <= line).checked_sub(1)?;
        let (_, to, fork) = self.gone[at];
        (line < to).then_some(fork)
    }

    /// Where each fork begins, in the order in which turns were undone.
    pub(super) fn forks(&self) -> &[Start] {
        &self.forks
    }
}

#[derive(Default)]
struct Walk {
    items: bool,
    events: bool,
    turn_items: bool,
    of_items: Turns,
    of_events: Turns,
}

impl Walk {
    fn line(&mut self, start: Start, fields: &Fields<'_>) {
        // In the oldest rollouts, the lines are the items themselves.
        let bare = !fields.has("payload");
        let payload = match bare {
            true => None,
            false => fields.object("payload"),
        };
        let inner = payload.as_ref().unwrap_or(fields);
        let kind = inner.text("type").unwrap_or_default();
        let role = inner.text("role");
        match fields.text("type").as_deref() {
            Some("event_msg") => self.event(start, &kind, inner),
            Some("response_item") | None => self.item(start, &kind, role.as_deref(), inner),
            Some(_) if bare => self.item(start, &kind, role.as_deref(), inner),
            _ => {}
        }
    }

    fn item(&mut self, start: Start, kind: &str, role: Option<&str>, item: &Fields<'_>) {
        let is_message = kind == "message" || kind.is_empty() && item.has("content");
        match role {
            Some("user") if is_message => {
                let text = item.get("content").unwrap_or_default();
                if !super::codex::INJECTED.iter().any(|mark| text.contains(mark)) {
                    self.items = true;
                    self.of_items.begin(start);
                }
            }
            Some("assistant") if is_message => self.items = true,
            _ => {}
        }
    }

    fn event(&mut self, start: Start, kind: &str, event: &Fields<'_>) {
        match kind {
            "user_message" => {
                self.events = true;
                self.of_events.begin(start);
            }
            "agent_message" => self.events = true,
            "item_completed" => {
                let item = event.object("item").unwrap_or_default();
                match item.text("type").as_deref() {
                    Some("UserMessage" | "user_message") => {
                        self.turn_items = true;
                        if !self.events {
                            self.of_events.begin(start);
                        }
                    }
                    Some("AgentMessage" | "agent_message") => self.turn_items = true,
                    _ => {}
                }
            }
            "thread_rolled_back" => {
                let turns = event.number("num_turns").unwrap_or(0);
                self.of_items.take_back(start.line, turns);
                self.of_events.take_back(start.line, turns);
            }
            _ => {}
        }
    }
}

/// Where turns begin, and which lines were removed.
#[derive(Default)]
struct Turns {
    begun: Vec<Start>,
    gone: Vec<(u64, u64, usize)>,
    forks: Vec<Start>,
    /// Merges ranges of lines that were removed.
    runs: Vec<(u64, u64)>,
}

impl Turns {
    fn begin(&mut self, start: Start) {
        self.begun.push(start);
    }

    fn take_back(&mut self, line: u64, turns: u64) {
        let turns = usize::try_from(turns).unwrap_or(usize::MAX).min(self.begun.len());
        let Some(&start) = self.begun.get(self.begun.len() - turns) else { return };
        let from = start.line;
        self.begun.truncate(self.begun.len() - turns);
        let fork = self.forks.len();
        self.forks.push(start);
        // Turns that were undone earlier stay in their fork.
        let mut to = line;
        while let Some((start, end)) = self.runs.pop_if(|(start, _)| *start >= from) {
            if end < to {
                self.gone.push((end, to, fork));
            }
            to = start;
        }
        if from < to {
            self.gone.push((from, to, fork));
        }
        self.runs.push((from, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_back_twice_belongs_to_the_first() {
        let mut turns = Turns::default();
        let start = |line| Start { line, mark: 0 };
        for line in [1, 5, 9] {
            turns.begin(start(line));
        }
        turns.take_back(12, 1);
        turns.begin(start(13));
        turns.take_back(20, 2);
        turns.take_back(21, 0);
        let mut survey = Survey { gone: turns.gone, ..Survey::default() };
        survey.gone.sort_unstable();
        let forks: Vec<Option<usize>> = (0..22).map(|line| survey.fork(line)).collect();
        let (main, first, second) = (None, Some(0), Some(1));
        assert_eq!(forks[..5], [main; 5]);
        assert_eq!(forks[5..9], [second; 4]);
        assert_eq!(forks[9..12], [first; 3]);
        assert_eq!(forks[12..20], [second; 8]);
        assert_eq!(forks[20..], [main; 2]);
        assert_eq!(turns.forks, [9, 5].map(start));
    }
}
