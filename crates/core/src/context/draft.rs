//! A draft of a context: turns and rounds, as the steps see them.
//!
//! A turn is one user message and every round up to the final reply; a round is one reply with the
//! results of its calls. A result belongs to the reply right before it, or to one of several
//! consecutive replies with calls: some programs store parallel calls as one message each. A call
//! that was still open when the user sent the next message has been shown to the model as
//! interrupted, and stays so.

use std::borrow::Cow;

use super::{Cut, CutEffect, Step, truncate_results};
use crate::entry::{Body, Decided, Entry, Restored, Tally, Thinned, Thinning};
use crate::log::Log;
use crate::measure::{ResultMeasure, message_tokens};
use crate::message::{Block, BlockKind, Call, Message, Role, ToolResult};
use crate::shown::{Allowances, Shown, reference_to_lines};
use crate::turn::TurnPart;

/// Used instead of a question that cannot be read.
const DAMAGED: &str = "[this message is damaged and cannot be read]";

/// A draft of a context.
pub(super) struct Draft<'a> {
    pub(super) log: &'a Log,
    pub(super) system: Option<DraftMessage<'a>>,
    pub(super) turns: Vec<Turn<'a>>,
    /// The cuts that dropped something. What was shortened is recorded in the remaining parts.
    pub(super) cuts: Vec<Cut>,
    /// The allowances for results, if the policy uses them.
    pub(super) allowances: Allowances,
}

/// The tally before something in the log.
#[derive(Clone, Copy)]
pub(super) struct Before {
    pub(super) entries: u64,
    pub(super) messages: u64,
    pub(super) tokens: u64,
}

impl From<Tally> for Before {
    fn from(Tally { entries, messages, tokens, .. }: Tally) -> Before {
        Before { entries, messages, tokens }
    }
}

/// One user message and every round until the final reply.
pub(super) struct Turn<'a> {
    pub(super) before: Before,
    /// Its first entry.
    pub(super) seq: u64,
    pub(super) user: Option<DraftMessage<'a>>,
    pub(super) rounds: Vec<Round<'a>>,
    /// The final reply is there, or the user has sent the next message.
    pub(super) finished: bool,
    /// A restored summary, which only the budget step may touch.
    pub(super) pinned: bool,
    /// Carried over from another session: its messages are not counted in this one.
    pub(super) carried: bool,
    /// Not all of it was read.
    pub(super) partial: bool,
    /// It is marked as left out. The steps count it, so that they cut at the same positions whether
    /// it was read or not; then it is removed.
    pub(super) left_out: bool,
    /// Why its results are shown in their thin form: it was over when that was decided.
    pub(super) thin: Option<Thinning>,
    /// Its thinking stays although it is over.
    pub(super) keeps_thinking: bool,
    /// Results came after its last reply.
    answered: bool,
    /// Its question and its first rounds are not in this draft, because they are in the context that
    /// is extended.
    pub(super) continued: bool,
}

/// One reply with the results of its calls.
pub(super) struct Round<'a> {
    pub(super) before: Before,
    pub(super) reply: DraftMessage<'a>,
    pub(super) answers: Vec<DraftResult<'a>>,
    /// Its calls were made in parallel with those of the previous round: none of them had a result
    /// yet.
    joins: bool,
}

/// A message, as it will be sent.
pub(super) struct DraftMessage<'a> {
    pub(super) seq: u64,
    /// Its origin, if it is not from this log.
    pub(super) from: Option<&'a str>,
    pub(super) blocks: Cow<'a, [Block]>,
    pub(super) model: Option<&'a str>,
    pub(super) tokens: u64,
    pub(super) thinking: u64,
    pub(super) cut: Option<Box<Cut>>,
}

/// A tool result, as it will be sent.
pub(super) struct DraftResult<'a> {
    pub(super) seq: u64,
    /// Its index among the results of its entry, and whether there are others.
    pub(super) place: usize,
    pub(super) one_of_several: bool,
    /// Its origin, if it is not from this log.
    pub(super) from: Option<&'a str>,
    pub(super) result: &'a ToolResult,
    pub(super) measure: Option<&'a ResultMeasure>,
    /// Which of its lines are shown, if that was decided, and the entry with the decision if it is
    /// another one.
    pub(super) decided: Option<&'a Shown>,
    pub(super) decided_in: Option<u64>,
    /// What is sent instead of the result's own content.
    pub(super) content: Option<Vec<Block>>,
    pub(super) tokens: u64,
    /// The entries whose results it refers to.
    pub(super) refers_to: Vec<u64>,
    pub(super) cut: Option<Box<Cut>>,
}

impl<'a> Turn<'a> {
    /// Adds a reply.
    fn reply(&mut self, before: Before, reply: DraftMessage<'a>) {
        let mut round = Round { before, reply, answers: Vec::new(), joins: false };
        let waits = |round: &Round<'_>| round.calls().next().is_some();
        round.joins = !self.answered && waits(&round) && self.rounds.last().is_some_and(waits);
        self.answered = false;
        self.rounds.push(round);
    }

    /// The first of the last rounds whose calls were made in parallel: a result may answer any of
    /// them.
    pub(super) fn waiting(&self) -> usize {
        self.rounds.iter().rposition(|round| !round.joins).unwrap_or(0)
    }

    /// Whether it is unfinished and self-contained.
    pub(super) fn can_continue(&self) -> bool {
        !self.finished && self.is_own()
    }

    /// Whether it is self-contained: it was read completely, and its question contains no result
    /// for the previous turn.
    pub(super) fn is_own(&self) -> bool {
        let answers = |said: &DraftMessage<'_>| {
            said.blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolResult(_)))
        };
        self.is_whole() && self.user.as_ref().is_some_and(|user| !answers(user))
    }

    /// Whether all of it was read, and it belongs to this session.
    pub(super) fn is_whole(&self) -> bool {
        !self.partial && !self.pinned && !self.carried
    }

    pub(super) fn tokens(&self) -> u64 {
        self.user.as_ref().map_or(0, |said| said.tokens)
            + self.rounds.iter().map(Round::tokens).sum::<u64>()
    }
}

impl Round<'_> {
    pub(super) fn tokens(&self) -> u64 {
        self.reply.tokens + self.answers.iter().map(|answer| answer.tokens).sum::<u64>()
    }

    pub(super) fn messages(&self) -> u64 {
        1 + self.answers.len() as u64
    }

    /// Its last entry.
    pub(super) fn through(&self) -> u64 {
        self.answers.iter().map(|answer| answer.seq).max().unwrap_or(self.reply.seq)
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.reply.blocks.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolUse(call) => Some(call),
            _ => None,
        })
    }
}

impl<'a> DraftResult<'a> {
    /// The reference for `recall`.
    pub(super) fn reference(&self) -> String {
        self.from.map_or_else(|| self.seq.to_string(), str::to_owned)
    }

    /// What pages lines of the original back: they are counted in this result alone.
    pub(super) fn reference_to_lines(&self) -> String {
        match self.from {
            None => reference_to_lines(self.seq, self.place, self.one_of_several),
            Some(_) => self.reference(),
        }
    }

    pub(super) fn blocks(&self) -> &[Block] {
        self.content.as_deref().unwrap_or(&self.result.content)
    }

    /// Sends this text instead of the content, and reports it.
    pub(super) fn shorten(&mut self, by: Step, text: String, tokens: u64) {
        let from_chars = chars(&self.result.content);
        let to_chars = text.chars().count() as u64;
        self.cut = Some(Box::new(Cut {
            by,
            seq: self.seq,
            through: self.seq,
            reference: self.reference(),
            change: CutEffect::Shortened { from_chars, to_chars },
        }));
        self.replace(text, by == truncate_results::NAME);
        self.refers_to.clear();
        self.tokens = tokens;
    }

    /// Sends this text instead of the texts, with the pictures or without.
    pub(super) fn replace(&mut self, text: String, with_pictures: bool) {
        let pictures = self.result.content.iter().filter(|block| block.as_text().is_none());
        let pictures = pictures.filter(|_| with_pictures).cloned();
        self.content = Some(std::iter::once(Block::text(text)).chain(pictures).collect());
    }
}

impl<'a> DraftMessage<'a> {
    /// The reference for `recall`.
    pub(super) fn reference(&self) -> String {
        self.from.map_or_else(|| self.seq.to_string(), str::to_owned)
    }

    fn new(entry: &'a Entry, message: &'a Message) -> DraftMessage<'a> {
        let results: u64 = entry.measure.results.iter().map(|r| u64::from(r.tokens)).sum();
        DraftMessage {
            seq: entry.seq,
            from: None,
            blocks: Cow::Borrowed(&message.content),
            model: message.model.as_deref(),
            tokens: u64::from(entry.measure.tokens).saturating_sub(results),
            thinking: u64::from(entry.measure.thinking),
            cut: None,
        }
    }

    /// Our replacement text for something.
    fn replacement(seq: u64, text: &str) -> DraftMessage<'a> {
        let (blocks, tokens) = (Cow::Owned(vec![Block::text(text)]), text.len().div_ceil(4) as u64);
        DraftMessage { seq, from: None, blocks, model: None, tokens, thinking: 0, cut: None }
    }

    fn carried(
        seq: u64,
        reference: &'a str,
        blocks: Cow<'a, [Block]>,
        tokens: u32,
    ) -> DraftMessage<'a> {
        let tokens = u64::from(tokens);
        let from = Some(reference);
        DraftMessage { seq, from, blocks, model: None, tokens, thinking: 0, cut: None }
    }
}

fn chars(blocks: &[Block]) -> u64 {
    blocks.iter().filter_map(Block::as_text).map(|text| text.chars().count() as u64).sum()
}

impl<'a> Draft<'a> {
    /// Reads turns from the last clear on.
    pub(super) fn new(log: &'a Log) -> Draft<'a> {
        let tally = log.tally();
        let begins = tally.begins();
        let mut draft = Draft {
            log,
            system: None,
            turns: Vec::new(),
            cuts: Vec::new(),
            allowances: Allowances::default(),
        };
        draft.turns.reserve(log.entries().len() / 2);
        if let Some(clear) = tally.boundary {
            let change = CutEffect::Dropped { messages: clear.messages, tokens: clear.tokens };
            draft.cut_range(Step::CLEAR, 0, clear.seq, change);
        }
        let system = tally.system.and_then(|seq| log.get(seq));
        draft.system =
            system.and_then(|e| e.body.message().map(|message| DraftMessage::new(e, message)));
        if let Some(seq) = tally.system {
            draft.report_damage(seq);
        }
        draft.read_before_the_run(begins);
        for (index, entry) in log.entries().iter().enumerate() {
            if entry.seq >= begins {
                draft.read(entry, log.tally_before(index).into());
            }
        }
        draft.settle();
        draft
    }

    /// Only the turn that begins at this entry, which was unfinished, and those after it. `None` if
    /// it was not read completely, or began with results for the previous turn, or if a turn was
    /// left out since the log had this many entries.
    pub(super) fn turns_from(log: &'a Log, seq: u64, entries: u64) -> Option<Draft<'a>> {
        let start = usize::try_from(seq.checked_sub(log.first())?).ok()?;
        let mut draft = Draft {
            log,
            system: None,
            turns: Vec::new(),
            cuts: Vec::new(),
            allowances: Allowances::default(),
        };
        for (index, entry) in log.entries().iter().enumerate().skip(start) {
            if let Body::LeftOut(left_out) = &entry.body
                && (entry.seq >= entries || left_out.turn >= seq)
            {
                return None;
            }
            let changes = matches!(entry.body, Body::Thinned(_) | Body::Decided(_));
            if changes && entry.seq >= entries {
                return None;
            }
            draft.read(entry, log.tally_before(index).into());
        }
        draft.settle();
        draft.turns.first().is_some_and(|turn| turn.seq == seq && turn.is_own()).then_some(draft)
    }

    /// Leaves out the question and the first rounds of the unfinished turn, if it is the only one
    /// here. Returns whether it is.
    pub(super) fn skip_rounds(&mut self, rounds: usize) -> bool {
        let [turn] = self.turns.as_mut_slice() else { return false };
        if !turn.can_continue() || turn.rounds.len() < rounds {
            return false;
        }
        (turn.user, turn.continued) = (None, true);
        turn.rounds.drain(..rounds);
        true
    }

    /// The unfinished turn, if there is one.
    pub(super) fn current(&self) -> Option<&Turn<'a>> {
        self.turns.last().filter(|turn| !turn.finished)
    }

    /// Tokens of everything that is left.
    pub(super) fn tokens(&self) -> u64 {
        self.system.as_ref().map_or(0, |said| said.tokens)
            + self.turns.iter().map(Turn::tokens).sum::<u64>()
    }

    pub(super) fn cut_range(&mut self, by: Step, seq: u64, through: u64, change: CutEffect) {
        self.cuts.push(Cut { by, seq, through, reference: seq.to_string(), change });
    }

    /// Leaves out finished turns that are not `kept`, and reports them as one cut.
    ///
    /// The report uses running totals, up to where the first kept turn begins, so it is the same if
    /// only a part of the log was read.
    pub(super) fn drop_turns(&mut self, by: Step, kept: impl Fn(&Turn<'a>) -> bool) {
        let keep = |turn: &Turn<'a>| turn.pinned || !turn.finished || kept(turn);
        let dropped = self.turns.iter().any(|turn| !keep(turn));
        if !dropped {
            return;
        }
        self.turns.retain(keep);
        let end = self
            .turns
            .iter()
            .find(|turn| !turn.pinned && !turn.carried)
            .map_or_else(|| self.log.tally().into(), |turn| turn.before);
        self.report_dropped(by, end);
    }

    /// Reports that everything between the clear and `end` is left out.
    pub(super) fn report_dropped(&mut self, by: Step, end: Before) {
        let tally = self.log.tally();
        // Damage in what is left out does not matter, and may not even have been read. What the
        // same step left out before is part of this.
        self.cuts.retain(|cut| {
            let damage = cut.by == Step::DAMAGE && tally.system != Some(cut.seq);
            cut.seq >= end.entries || !(damage || cut.by == by)
        });
        let (messages, tokens) = tally.boundary.map_or((0, 0), |b| (b.messages, b.tokens));
        let change = CutEffect::Dropped {
            messages: end.messages.saturating_sub(messages),
            tokens: end.tokens.saturating_sub(tokens),
        };
        self.cut_range(by, tally.begins(), end.entries.saturating_sub(1), change);
    }

    /// A log that was read from the middle begins inside a turn; its user message, and the summary
    /// the session was restored from, are kept in addition to the run.
    fn read_before_the_run(&mut self, begins: u64) {
        let (log, first) = (self.log, self.log.first());
        if first <= begins || log.entries().is_empty() {
            return;
        }
        let before = log.tally_before(0);
        if let Some(entry) = before.started.filter(|seq| *seq >= begins).and_then(|s| log.get(s)) {
            self.report_damage(entry.seq);
            if let Body::Restored(restored) = &entry.body {
                let tally = Tally { entries: entry.seq, ..Tally::default() };
                self.read_restored(entry.seq, restored, tally.into());
            }
        }
        if let Some(entry) = before.turn.filter(|seq| *seq >= begins).and_then(|s| log.get(s))
            && let Some(question) = self.question(entry)
        {
            let mut tally = entry.tally;
            tally.entries = tally.entries.saturating_sub(1);
            tally.messages = tally.messages.saturating_sub(1);
            tally.queries = tally.queries.saturating_sub(1);
            tally.tokens = tally.tokens.saturating_sub(entry.measure.tokens.into());
            self.open_turn(entry.seq, tally.into(), Some(question));
            self.turns.last_mut().expect("just opened").partial = true;
        }
    }

    /// The question of a turn, or the replacement for one that cannot be read: without it, the
    /// replies after it would seem to answer the previous question.
    fn question(&mut self, entry: &'a Entry) -> Option<DraftMessage<'a>> {
        match self.report_damage(entry.seq) {
            true => Some(DraftMessage::replacement(entry.seq, DAMAGED)),
            false => entry.body.message().map(|message| DraftMessage::new(entry, message)),
        }
    }

    /// Reports that an entry cannot be read; returns whether that is the case.
    fn report_damage(&mut self, seq: u64) -> bool {
        let Some(what) = self.log.damage().get(&seq) else { return false };
        let change = CutEffect::LeftOut { what: format!("what is damaged: {what}") };
        self.cut_range(Step::DAMAGE, seq, seq, change);
        true
    }

    /// Makes sure there is a turn for a reply or a result. If a log begins with one, the turn has
    /// no question, and starts at the last clear.
    fn ensure_turn(&mut self) {
        if self.turns.last().is_some_and(|turn| !turn.pinned && !turn.carried) {
            return;
        }
        let tally = self.log.tally();
        let begins = tally.begins();
        let (messages, tokens) = tally.boundary.map_or((0, 0), |b| (b.messages, b.tokens));
        let before = Before { entries: begins, messages, tokens };
        self.open_turn(begins, before, None);
        let turn = self.turns.last_mut().expect("just opened");
        turn.partial = self.log.first() > begins;
    }

    fn read(&mut self, entry: &'a Entry, before: Before) {
        if self.log.damage().contains_key(&entry.seq) {
            if entry.tally.turn == Some(entry.seq) {
                let question = self.question(entry);
                self.open_turn(entry.seq, before, question);
            } else if self.log.tally().system != Some(entry.seq) {
                self.report_damage(entry.seq);
            }
            return;
        }
        match TurnPart::of(&entry.body) {
            TurnPart::Question(message) => {
                if let Some(turn) =
                    self.turns.last_mut().filter(|_| message.results().next().is_some())
                {
                    turn.thin = None;
                }
                self.read_results(entry, message);
                self.open_turn(entry.seq, before, Some(DraftMessage::new(entry, message)));
            }
            TurnPart::Reply(message) => {
                self.ensure_turn();
                let reply = DraftMessage::new(entry, message);
                let turn = self.turns.last_mut().expect("a turn was opened");
                turn.finished = false;
                (turn.left_out, turn.thin) = (false, None);
                turn.reply(before, reply);
            }
            TurnPart::Results(message) => {
                self.ensure_turn();
                let turn = self.turns.last_mut().expect("a turn was opened");
                (turn.left_out, turn.thin, turn.answered) = (false, None, true);
                self.read_results(entry, message);
                if message.results().next().is_none() {
                    self.left_out(entry.seq, "a tool message without a tool_result");
                }
            }
            TurnPart::Finished(_) | TurnPart::RoundLimit(_) => {
                if let Some(turn) = self.turns.last_mut() {
                    turn.finished = true;
                }
            }
            TurnPart::Outside => match &entry.body {
                Body::Restored(restored) => self.read_restored(entry.seq, restored, before),
                Body::LeftOut(left_out) => self.mark_left_out(left_out.turn),
                Body::Thinned(thinned) => self.mark_thin(thinned),
                Body::Decided(decided) => self.mark_decided(entry.seq, decided),
                _ => {}
            },
        }
    }

    /// Marks the turns whose results are thin from here on. One that continues after its mark is
    /// shown in full again.
    fn mark_thin(&mut self, thinned: &Thinned) {
        for turn in self.turns.iter_mut().filter(|turn| thinned.covers(turn.seq)) {
            turn.thin.get_or_insert(thinned.why);
        }
    }

    /// Records late decisions about which lines are shown.
    fn mark_decided(&mut self, seq: u64, decided: &'a Decided) {
        let rounds = self.turns.iter_mut().flat_map(|turn| &mut turn.rounds);
        let own = rounds.flat_map(|round| &mut round.answers).filter(|one| one.from.is_none());
        for answer in own.filter(|answer| answer.decided.is_none()) {
            let place = (answer.seq, answer.place);
            let found = decided.results.binary_search_by_key(&place, |one| (one.seq, one.place));
            if let Ok(index) = found {
                answer.decided = Some(&decided.results[index].shown);
                answer.decided_in = Some(seq);
            }
        }
    }

    /// Marks a turn of this log. One that was not read is not in the context anyway, and one that
    /// continues after its mark is shown again.
    fn mark_left_out(&mut self, seq: u64) {
        let mut turns = self.turns.iter_mut().rev();
        if let Some(turn) = turns.find(|turn| turn.seq == seq && !turn.pinned && !turn.carried) {
            turn.left_out = true;
        }
    }

    /// Removes the turns that are left out, and reports them.
    pub(super) fn without_left_out(&mut self) -> Vec<Cut> {
        let ends: Vec<Before> = self.turns.iter().skip(1).map(|turn| turn.before).collect();
        let last: Before = self.log.tally().into();
        let mut cuts = Vec::new();
        for (turn, end) in self.turns.iter().zip(ends.into_iter().chain([last])) {
            if turn.left_out {
                let messages = end.messages.saturating_sub(turn.before.messages);
                let tokens = end.tokens.saturating_sub(turn.before.tokens);
                let through = end.entries.saturating_sub(1);
                let change = CutEffect::Dropped { messages, tokens };
                let (by, seq) = (Step::LEFT_OUT, turn.seq);
                cuts.push(Cut { by, seq, through, reference: seq.to_string(), change });
            }
        }
        self.turns.retain(|turn| !turn.left_out);
        cuts
    }

    fn read_results(&mut self, entry: &'a Entry, message: &'a Message) {
        let one_of_several = message.results().nth(1).is_some();
        for (index, result) in message.results().enumerate() {
            let measure = entry.measure.results.get(index);
            self.answer(DraftResult {
                seq: entry.seq,
                place: index,
                one_of_several,
                from: None,
                result,
                measure,
                decided: measure.and_then(|measure| measure.shown.as_ref()),
                decided_in: None,
                content: None,
                tokens: measure.map_or(0, |measure| measure.tokens.into()),
                refers_to: Vec::new(),
                cut: None,
            });
        }
    }

    /// Assigns a result to its call: the latest with this id, because some models number their
    /// calls from the start in every reply.
    fn answer(&mut self, answer: DraftResult<'a>) {
        let (seq, id) = (answer.seq, answer.result.tool_use_id.as_str());
        let mut second = false;
        if let Some(turn) = self.turns.last_mut().filter(|turn| !turn.pinned) {
            let waiting = turn.waiting();
            let mut rounds = turn.rounds.iter_mut().skip(waiting).rev();
            if let Some(round) = rounds.find(|round| round.calls().any(|call| call.id == id)) {
                second = round.answers.iter().any(|other| other.result.tool_use_id == id);
                if !second {
                    round.answers.push(answer);
                    return;
                }
            }
        }
        match second {
            true => self.left_out(seq, &format!("a second result for `{id}`")),
            false => self.left_out(seq, &format!("a result for `{id}`, which no call waits for")),
        }
    }

    fn left_out(&mut self, seq: u64, what: &str) {
        let change = CutEffect::LeftOut { what: what.into() };
        self.cut_range(Step::VALIDITY, seq, seq, change);
    }

    fn open_turn(&mut self, seq: u64, before: Before, user: Option<DraftMessage<'a>>) {
        self.turns.push(Turn {
            before,
            seq,
            user,
            // Most turns have one round.
            rounds: Vec::with_capacity(1),
            finished: false,
            pinned: false,
            carried: false,
            partial: false,
            left_out: false,
            thin: None,
            keeps_thinking: false,
            answered: false,
            continued: false,
        });
    }

    /// A restored session becomes the carried turns, the prompt and the acknowledgment.
    fn read_restored(&mut self, seq: u64, restored: &'a Restored, before: Before) {
        for carried in &restored.tail {
            let (message, reference) = (&carried.message, carried.reference.as_str());
            let tokens = message_tokens(message);
            let said =
                || DraftMessage::carried(seq, reference, Cow::Borrowed(&message.content), tokens);
            if message.role == Role::Assistant && !self.turns.is_empty() {
                self.turns.last_mut().expect("checked above").reply(before, said());
                continue;
            }
            if let Some(turn) = self.turns.last_mut() {
                turn.answered = true;
            }
            for result in message.results() {
                let tokens = result.content.iter().map(crate::measure::block_tokens).sum::<u32>();
                self.answer(DraftResult {
                    seq,
                    place: 0,
                    one_of_several: false,
                    from: Some(reference),
                    result,
                    measure: None,
                    decided: None,
                    decided_in: None,
                    content: None,
                    tokens: tokens.into(),
                    refers_to: Vec::new(),
                    cut: None,
                });
            }
            if message.opens_turn() {
                self.open_turn(seq, before, Some(said()));
                self.turns.last_mut().expect("just opened").carried = true;
            }
        }
        let text = |text: &str| Cow::Owned(vec![Block::text(text)]);
        let tokens = crate::tokens::count;
        let prompt =
            DraftMessage::carried(seq, "", text(&restored.prompt), tokens(&restored.prompt));
        self.open_turn(seq, before, Some(prompt));
        let said = &restored.acknowledgment;
        let reply = DraftMessage::carried(seq, "", text(said), tokens(said));
        let turn = self.turns.last_mut().expect("just opened");
        turn.reply(before, reply);
        turn.pinned = true;
    }

    /// Decides which turns are finished.
    fn settle(&mut self) {
        let last = self.turns.len().saturating_sub(1);
        for (index, turn) in self.turns.iter_mut().enumerate() {
            let replied = turn.rounds.last().is_some_and(|round| round.calls().next().is_none());
            turn.finished |= index < last || replied || turn.left_out;
        }
    }
}
