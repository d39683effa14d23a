//! Checks a log for damage and inconsistencies.

use crate::entry::{Body, Effect, Entry, Tally};
use crate::measure::{Measure, measure};
use crate::message::Role;
use crate::name::SessionId;
use crate::shown::{Allowances, RULE, Seen, Shown, decide_late};
use crate::store::{Finding, FindingState};

/// Goes through a log from its beginning and records what is wrong with it.
pub struct Audit {
    session: SessionId,
    tally: Tally,
    /// Calls without a result, and where they were made: those of the last reply, or of the last
    /// few if only calls came in between.
    open: Vec<(String, u64)>,
    /// Results came after the last reply.
    answered: bool,
    /// An entry could not be read, so the stored tallies are used as they are.
    blind: bool,
    findings: Vec<Finding>,
    /// What contexts show so far, to check whether the rule gives the decision that was stored for
    /// a result.
    seen: Seen,
    /// The entries that a decision may depend on.
    recent: Vec<Entry>,
    /// Entries whose stored tally is wrong, with the right one.
    pub wrong_tallies: Vec<(u64, Tally)>,
    /// Entries whose stored count of tokens is wrong, with the right one.
    pub wrong_tokens: Vec<(u64, u32)>,
}

impl Audit {
    /// Begins with an empty log.
    pub fn new(session: SessionId) -> Audit {
        Audit {
            session,
            tally: Tally::default(),
            open: Vec::new(),
            answered: false,
            blind: false,
            findings: Vec::new(),
            seen: Seen::default(),
            recent: Vec::new(),
            wrong_tallies: Vec::new(),
            wrong_tokens: Vec::new(),
        }
    }

    /// Checks the next entry.
    pub fn entry(&mut self, entry: &Entry) {
        if entry.seq != self.tally.entries {
            let expected = self.tally.entries;
            self.note(Some(expected), "it is missing".into(), FindingState::Damaged);
            // A lost entry cannot be counted; the stored counts are the best that is left.
            self.blind = true;
            self.tally.entries = entry.seq;
        }
        let tokens = measure(&entry.body, |_| None).tokens;
        if tokens != entry.measure.tokens {
            self.wrong_tokens.push((entry.seq, tokens));
        }
        self.shown(entry);
        self.decided(entry);
        let right = Measure { tokens, ..Measure::default() };
        self.tally = self.tally.with(Effect::of(&entry.body, &right));
        if self.blind {
            self.tally = entry.tally;
        } else if self.tally != entry.tally {
            self.wrong_tallies.push((entry.seq, self.tally));
        }
        self.pairs(entry);
    }

    /// Compares the decisions about the results of an entry with what the rule gives. The stored
    /// decision was used in a request and stays; a difference is only recorded.
    fn shown(&mut self, entry: &Entry) {
        let known = |shown: &Shown| shown.rule == RULE;
        let stored = || entry.measure.results.iter().map(|result| result.shown.as_ref());
        if let Some(message) = entry.body.message()
            && !self.blind
            && stored().flatten().any(known)
        {
            let right = self.seen.decide(message, &self.tally);
            let differs = |(stored, right): (Option<&Shown>, &Shown)| {
                stored.is_some_and(|stored| known(stored) && stored != right)
            };
            if stored().zip(&right).any(differs) {
                let what = "the lines of its result that models are shown are not those the rule \
                            gives; contexts show the stored ones";
                self.note(Some(entry.seq), what.into(), FindingState::Noted);
            }
        }
        self.seen.read(entry.seq, &entry.body, &entry.measure);
    }

    /// The same for results that were decided about later.
    fn decided(&mut self, entry: &Entry) {
        if let Body::Decided(decided) = &entry.body {
            let right = decide_late(&self.recent, &self.tally, &Allowances::default());
            let known = decided.results.iter().all(|result| result.shown.rule == RULE);
            if !self.blind && known && right.as_ref() != Some(decided) {
                let what = "the lines of results that it says models are shown are not those the rule \
                            gives; contexts show the stored ones";
                self.note(Some(entry.seq), what.into(), FindingState::Noted);
            }
        }
        self.recent.push(entry.clone());
        // Twice as many as needed, so that they are moved rarely.
        let needed =
            self.recent.partition_point(|entry| entry.seq < Seen::first_needed(&self.tally));
        if needed * 2 > self.recent.len() {
            self.recent.drain(..needed);
        }
        if matches!(entry.body, Body::Decided(_)) {
            self.seen = Seen::of(&self.recent, &self.tally);
        }
    }

    /// Skips an entry that exists but cannot be read. Counts after it cannot be checked.
    pub fn skip(&mut self) {
        self.blind = true;
        self.tally.entries += 1;
    }

    /// The tally of the whole log.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Records a problem.
    pub fn note(&mut self, seq: Option<u64>, what: String, state: FindingState) {
        self.findings.push(Finding { session: Some(self.session), seq, what, state });
    }

    /// All recorded problems.
    pub fn findings(mut self) -> Vec<Finding> {
        self.close();
        self.findings
    }

    fn pairs(&mut self, entry: &Entry) {
        let Some(message) = entry.body.message() else { return };
        if message.role == Role::Assistant {
            if std::mem::take(&mut self.answered) || message.calls().next().is_none() {
                self.close();
            }
            for call in message.calls() {
                // A result answers the latest call with its id.
                if let Some(before) = self.open.iter().position(|(id, _)| *id == call.id) {
                    let (id, seq) = self.open.remove(before);
                    self.unanswered(&id, seq);
                }
                self.open.push((call.id.clone(), entry.seq));
            }
            return;
        }
        self.answered |= message.role != Role::System;
        for result in message.results() {
            match self.open.iter().position(|(id, _)| *id == result.tool_use_id) {
                Some(index) => drop(self.open.remove(index)),
                None => {
                    let id = &result.tool_use_id;
                    let what = format!(
                        "a tool result for `{id}`, which no call waits for; contexts leave it out"
                    );
                    self.note(Some(entry.seq), what, FindingState::Noted);
                }
            }
        }
        if message.opens_turn() {
            self.close();
        }
    }

    fn close(&mut self) {
        for (id, seq) in std::mem::take(&mut self.open) {
            self.unanswered(&id, seq);
        }
    }

    fn unanswered(&mut self, id: &str, seq: u64) {
        let what = format!("the call `{id}` has no result; contexts answer it as interrupted");
        self.note(Some(seq), what, FindingState::Noted);
    }
}
