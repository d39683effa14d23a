//! One turn: from a question to its answer.
//!
//! The question is on disk before the model is asked, each reply before its tools run, and each
//! result before anything else changes; read-only calls run in parallel. However a turn is
//! interrupted, the log shows how far it got; the next turn adds results for open calls, and
//! continues.
//!
//! A turn may offer tools of the client. It ends at their calls, and continues when the client
//! sends the results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use rethread_core::context::{Context, Cut, CutEffect, Model, Policy, Step as Cutter};
use rethread_core::entry::{Body, Finished, RoundLimit};
use rethread_core::message::{Call, ToolResult, Usage};
use rethread_core::turn::{TurnPart, left_out};
use rethread_core::{
    Block, BlockKind, Incoming, Item, Message, Place, Role, Session, SessionId, StoreError, Thread,
    sessions,
};
use tokio_util::sync::CancellationToken;

use crate::ask::{AskOutcome, AskWith};
use crate::events::{Event, Events};
use crate::host::Refusal;
use crate::instructions::own_again;
use crate::leased_thread::{LeasedThread, Wanted};
use crate::limits::{EDITOR_ROUNDS_MAX, LOOKING_MAX, ROUNDS_MAX};
use crate::provider::cache_facts;
use crate::repetition::{Answered, Repetition};
use crate::run_call::CallDone;
use crate::runner::{End, Instructions, Runner, TurnAnswer, TurnError};
use crate::step::{Step, cut_short, next_step};
use crate::subagent::TASK;
use crate::tool::Spec;
use crate::turn_economy::{Before, Meter};

/// Options of a turn.
#[derive(Clone, Default)]
pub struct TurnOptions {
    /// The agent for this turn only; the session's own if none is given.
    pub agent: Option<String>,
    /// The policy; the agent's if none is given.
    pub policy: Option<Policy>,
    /// Someone reads the events and can be asked about tools that change something. Otherwise, only
    /// what flags or configuration allow is offered.
    pub can_ask: bool,
    /// Tools of the client: the turn ends when the model calls one.
    pub client_tools: Vec<Spec>,
    /// The client's name for the turn, so that this one can be stopped and no other.
    pub name: Option<String>,
    /// How long the model may work unattended.
    pub mode: TurnMode,
}

/// How long a model may work before the turn is ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnMode {
    /// For [many rounds](ROUNDS_MAX), unless it repeats itself: someone watches, and any message
    /// continues.
    #[default]
    Work,
    /// For [a few](EDITOR_ROUNDS_MAX), repeated or not: an editor waits for the complete answer.
    Editor,
}

impl TurnMode {
    /// Rounds of a turn, unless configured.
    fn rounds(self) -> u32 {
        match self {
            TurnMode::Work => ROUNDS_MAX,
            TurnMode::Editor => EDITOR_ROUNDS_MAX,
        }
    }
}

/// The input of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnInput {
    /// A question.
    Question(Incoming),
    /// The results of the client's tools that the last turn waits for.
    Results(Vec<ToolResult>),
}

impl TurnInput {
    /// Its size as JSON, which is about its size in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            TurnInput::Question(question) => json_bytes(&question.message),
            TurnInput::Results(results) => results.iter().map(|r| json_bytes(&r.content)).sum(),
        }
    }
}

impl TurnOptions {
    /// The same for the descriptions of the client's tools.
    pub(crate) fn bytes(&self) -> usize {
        let of = |tool: &Spec| tool.description.len() + json_bytes(&tool.input);
        self.client_tools.iter().map(of).sum()
    }
}

/// The length of a value as JSON, without allocating it.
fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct Length(usize);
    impl std::io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    serde_json::to_writer(&mut length, value).expect("plain data is always valid JSON");
    length.0
}

impl From<Incoming> for TurnInput {
    fn from(question: Incoming) -> TurnInput {
        TurnInput::Question(question)
    }
}

impl From<Message> for TurnInput {
    fn from(message: Message) -> TurnInput {
        TurnInput::Question(message.into())
    }
}

impl Runner {
    /// Runs one turn in a session: one at a time in each session, across threads, processes and
    /// machines. `stop` ends it early and keeps the partial reply; dropping the future does not
    /// clean up.
    ///
    /// # Errors
    ///
    /// [`TurnError`]; the question and what followed stay in the log.
    pub async fn run_turn(
        &self,
        id: SessionId,
        input: impl Into<TurnInput>,
        options: &TurnOptions,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<TurnAnswer, TurnError> {
        let wait = self.responder.limits.lease_wait;
        let (sessions, cache) = (&self.sessions, &self.threads);
        let wanted = Wanted { sessions, cache, id, wait, events, stop };
        let (began, input, runner) = (Instant::now(), input.into(), self.clone());
        let begin = move |thread: &mut Thread| {
            let runner = runner.trusted_in(thread.session());
            runner.begin(thread, &input).map(|begun| (runner, begun))
        };
        let (held, (runner, begun)) = wanted.begin(begin).await?;
        let outcome = match begun {
            Ok((start, context)) => {
                let mut turn = RunningTurn::new(&runner, id, start, began, options);
                runner.rounds(&held, &mut turn, context, options, events, stop).await
            }
            Err(refusal) => Err(refusal.into()),
        };
        events.flush().await;
        let released = held.release(&self.threads).await;
        let answer = outcome?;
        released?;
        Ok(answer)
    }

    /// This runner as far as a session is trusted. Text from elsewhere may have come into it since
    /// the runner was made.
    fn trusted_in(&self, session: &Session) -> Runner {
        match self.untrusted.is_some() || self.instructions == Instructions::Ours {
            true => self.clone(),
            false => self.handle.trusted_as_far(session, self.clone()),
        }
    }

    async fn rounds(
        &self,
        held: &LeasedThread,
        turn: &mut RunningTurn,
        context: Arc<Context>,
        options: &TurnOptions,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<TurnAnswer, TurnError> {
        let outcome = self.run_rounds(held, turn, context, options, events, stop).await;
        if outcome.is_err() {
            // If this fails, the next turn does it before it begins.
            drop(self.end_instructions(held).await);
        }
        outcome
    }

    async fn run_rounds(
        &self,
        held: &LeasedThread,
        turn: &mut RunningTurn,
        mut context: Arc<Context>,
        options: &TurnOptions,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<TurnAnswer, TurnError> {
        let budget = self.responder.model.budget();
        let rounds = self.responder.limits.rounds.unwrap_or(options.mode.rounds());
        let mut repetition = Repetition::default();
        for _ in turn.rounds..rounds {
            turn.fullness = fullness(&context, budget);
            turn.report_cut(&context, events).await;
            turn.meter.call(&context);
            let tools = turn.tools.clone();
            let with = AskWith { tools: &tools, keep_longer: turn.keep_longer };
            let at = Place { session: turn.id, seq: turn.seq };
            let asked = self.ask_past_refusals(held, at, &context, with, events, stop).await?;
            let reply = match asked {
                AskOutcome::Reply(reply) => reply,
                AskOutcome::Stopped(partial) => return turn.end(held, partial, End::Stopped).await,
                AskOutcome::Failed(failure, partial) => {
                    if let Some(partial) = partial {
                        turn.store_reply(held, partial).await?;
                    }
                    return Err(failure.into());
                }
            };
            turn.count(&reply, budget, events).await;
            let Step::RunTools(calls) = next_step(&reply) else {
                turn.sent = Some(context);
                return turn.end(held, Some(reply), End::Answered).await;
            };
            turn.store_reply(held, reply).await?;
            let (theirs, answered, used) =
                self.run_calls(held, turn, calls, options, events, stop).await?;
            turn.usage += used;
            if stop.is_cancelled() {
                return turn.end(held, None, End::Stopped).await;
            }
            if !theirs.is_empty() {
                return Ok(turn.answer(End::ClientCalls, theirs));
            }
            let repeated = repetition.count(&answered).filter(|_| options.mode == TurnMode::Work);
            if repeated.is_some() {
                turn.limit = Some(RoundLimit { repeated });
                return turn.end(held, None, End::Repeated).await;
            }
            // The next one extends it, which is cheapest if it has no other owner.
            drop(context);
            (context, turn.keep_longer) = self.context(held).await?;
        }
        turn.limit = Some(RoundLimit::default());
        turn.end(held, None, End::RoundLimit).await
    }

    /// Runs the calls of a reply, read-only ones in parallel. Returns the calls for the client, the
    /// results of ours, and what subagents were charged.
    async fn run_calls(
        &self,
        held: &LeasedThread,
        turn: &RunningTurn,
        calls: Vec<Call>,
        options: &TurnOptions,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<(Vec<Call>, Vec<Answered>, Usage), TurnError> {
        let theirs = |call: &Call| options.client_tools.iter().any(|spec| spec.name == call.name);
        let (theirs, ours): (Vec<Call>, Vec<Call>) = calls.into_iter().partition(theirs);
        let ours: Vec<(usize, Call)> = ours.into_iter().enumerate().collect();
        let (mut answered, mut used) = (Vec::with_capacity(ours.len()), Usage::default());
        let alone = |call: &Call| options.mode == TurnMode::Editor || !self.only_looks(call, turn);
        for group in ours.chunk_by(|(_, one), (_, next)| !alone(one) && !alone(next)) {
            let run = |(index, call): &(usize, Call)| {
                self.run_call(held, turn, *index, call.clone(), options, events, stop)
            };
            // Their results are reported and stored in the order of the calls.
            let mut results = stream::iter(group.iter().map(run)).buffered(LOOKING_MAX);
            for (_, call) in group {
                let done = results.next().await.expect("each call has its result");
                let CallDone { message: result, event, usage } = done;
                events.send(event).await;
                used += usage;
                answered.push(Answered::new(call, &result));
                held.with(move |thread| thread.append(result)).await?;
            }
        }
        for call in &theirs {
            events.send(Event::Call(call.clone())).await;
        }
        Ok((theirs, answered, used))
    }

    /// Whether the tool of a call changes nothing.
    fn only_looks(&self, call: &Call, turn: &RunningTurn) -> bool {
        if call.name == TASK && self.responder.tools.find(TASK).is_none() {
            return self.is_looking_task(call, turn);
        }
        self.responder.tools.find(&call.name).is_some_and(|tool| !tool.changes())
    }

    /// The next context, and whether the provider is asked to keep it for longer than usual.
    async fn context(&self, held: &LeasedThread) -> Result<(Arc<Context>, bool), sessions::Error> {
        let (policy, model) = (self.responder.policy.clone(), self.responder.model.clone());
        held.with(move |thread| Ok((thread.context(&policy, &model)?, keep_longer(thread, &model))))
            .await
    }

    /// Appends results for open calls and the question, atomically; or the results that a turn was
    /// waiting for, and continues it.
    fn begin(
        &self,
        thread: &mut Thread,
        input: &TurnInput,
    ) -> Result<Result<(Start, Arc<Context>), Refusal>, sessions::Error> {
        thread.show_by(&self.responder.policy);
        let model = &self.responder.model;
        let before = Before::of(thread, model);
        let life = cache_facts(model).life.after(thread.log().entries());
        let mut start = match input {
            TurnInput::Question(question) => {
                self.ask_in(thread, question, (before.replied, life))?
            }
            TurnInput::Results(results) => match self.continued(thread, results)? {
                Ok(start) => start,
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
        let context = thread.context(&self.responder.policy, model)?;
        start.keep_longer = keep_longer(thread, model);
        start.meter = Meter::new(&before, &context, thread, life);
        Ok(Ok((start, context)))
    }

    fn ask_in(
        &self,
        thread: &mut Thread,
        question: &Incoming,
        (replied, cache_life): (Option<Timestamp>, Duration),
    ) -> Result<Start, sessions::Error> {
        let mut first: Vec<Item> = thread.log().repair().into_iter().map(Item::from).collect();
        let next = thread.head() + first.len() as u64;
        first.extend(self.instructions_first(thread, next)?.into_iter().map(Item::from));
        let undecided = thread.undecided(&self.responder.policy)?;
        first.extend(undecided.map(|decided| Item::from(Body::Decided(decided))));
        let thinned = thread.thinning(&self.responder.policy, replied, cache_life);
        first.extend(thinned.map(|thinned| Item::from(Body::Thinned(thinned))));
        let mut all = first.clone();
        all.push(question.clone().into());
        let mut seqs = match thread.record(all) {
            // The question was appended by a turn that failed after that.
            Err(sessions::Error::Store(StoreError::IdReused { .. })) if !first.is_empty() => {
                thread.record(first)?;
                thread.record(vec![question.clone().into()])?
            }
            done => done?,
        };
        // The id of a question that was refused: it is asked again, as another one.
        if let Some(seq) = seqs.last()
            && left_out(thread.log().entries()).contains(seq)
        {
            let again = Incoming { id: None, ..question.clone() };
            seqs = thread.record(vec![again.into()])?;
        }
        Ok(Start { seq: seqs.last().copied().unwrap_or_default(), ..Start::default() })
    }
}

/// Where a turn begins: at its question, or in the middle.
#[derive(Default)]
struct Start {
    seq: u64,
    rounds: u32,
    usage: Usage,
    text: String,
    meter: Meter,
    keep_longer: bool,
}

/// Whether the provider is asked to keep the next context of a thread for longer than usual.
fn keep_longer(thread: &Thread, model: &Model) -> bool {
    let life = cache_facts(model).life;
    life.after(thread.log().entries()) > life.usual
}

impl Runner {
    /// Stores the results that a turn was waiting for.
    fn continued(
        &self,
        thread: &mut Thread,
        results: &[ToolResult],
    ) -> Result<Result<Start, Refusal>, sessions::Error> {
        let mut open: Vec<String> =
            thread.log().unanswered().into_iter().map(|(id, _)| id).collect();
        let Some(seq) = thread.session().tally.turn else {
            return Ok(Err(Refusal::OtherCalls { open }));
        };
        let place = Place { session: thread.session().id(), seq };
        let turn = thread.sessions().turn_at(place)?;
        if turn.is_over() {
            return Ok(Err(Refusal::OtherCalls { open: Vec::new() }));
        }
        // A turn that failed after its results were stored is continued with the same results.
        let again = open.is_empty() && !turn.has_answer();
        if again {
            let last = turn.parts().rev().map_while(|part| match part {
                TurnPart::Results(message) => Some(message),
                _ => None,
            });
            open =
                last.flat_map(Message::results).map(|result| result.tool_use_id.clone()).collect();
        }
        let given: Vec<&str> = results.iter().map(|result| result.tool_use_id.as_str()).collect();
        let fits = open.len() == given.len() && open.iter().all(|id| given.contains(&id.as_str()));
        if !fits || open.is_empty() {
            let open = if again { Vec::new() } else { open };
            return Ok(Err(Refusal::OtherCalls { open }));
        }
        let message = |result: &ToolResult| {
            Message::new(Role::Tool, vec![Block::of(BlockKind::ToolResult(result.clone()))])
        };
        let results = results.iter().filter(|_| !again).map(message);
        let items: Vec<Item> =
            results.chain(self.enforced(thread, None)?).map(Item::from).collect();
        if !items.is_empty() {
            thread.record(items)?;
        }
        let mut start = Start { seq, ..Start::default() };
        for part in turn.parts() {
            if let TurnPart::Reply(reply) = part {
                start.rounds += 1;
                start.usage += reply.usage.unwrap_or_default();
                let text = reply.plain_text();
                start.text = if text.is_empty() { start.text } else { text };
            }
        }
        Ok(Ok(start))
    }
}

/// A running turn.
pub(crate) struct RunningTurn {
    pub(crate) id: SessionId,
    began: Instant,
    seq: u64,
    pub(crate) tools: Arc<[Spec]>,
    text: String,
    cut_off: bool,
    rounds: u32,
    usage: Usage,
    fullness: u64,
    /// Why it is ended early.
    limit: Option<RoundLimit>,
    /// The instructions apply to this turn only.
    once: bool,
    /// The model that answers, as `provider/model`.
    model: String,
    meter: Meter,
    /// The provider is asked to keep its cache for longer than usual.
    keep_longer: bool,
    /// What the model was sent last, after the turn.
    sent: Option<Arc<Context>>,
}

impl RunningTurn {
    fn new(
        runner: &Runner,
        id: SessionId,
        start: Start,
        began: Instant,
        options: &TurnOptions,
    ) -> RunningTurn {
        // A tool of the client takes precedence over one of ours with the same name.
        let theirs = |spec: &Spec| options.client_tools.iter().any(|own| own.name == spec.name);
        let mut tools = runner.offered(id, options);
        tools.retain(|spec| !theirs(spec));
        tools.extend(options.client_tools.iter().cloned());
        RunningTurn {
            id,
            began,
            seq: start.seq,
            tools: tools.into(),
            text: start.text,
            cut_off: false,
            rounds: start.rounds,
            usage: start.usage,
            fullness: 0,
            limit: None,
            once: runner.instructions == Instructions::Once,
            model: runner.responder.model.id(),
            meter: start.meter,
            keep_longer: start.keep_longer,
            sent: None,
        }
    }

    /// Reports, once, damaged entries, and that the question itself did not fit.
    async fn report_cut(&self, context: &Context, events: &Events) {
        for cut in context.cuts.iter().filter(|cut| cut.by == Cutter::DAMAGE && self.rounds == 0) {
            if let CutEffect::LeftOut { what } = &cut.change {
                events.send(Event::Damaged { seq: cut.seq, what: what.clone() }).await;
            }
        }
        let mine = |cut: &&Cut| cut.seq == self.seq && cut.by == Cutter::FIT_BUDGET;
        if let Some(cut) = context.cuts.iter().find(mine).filter(|_| self.rounds == 0)
            && let CutEffect::Shortened { from_chars, to_chars } = cut.change
        {
            events.send(Event::QuestionCut { from_chars, to_chars }).await;
        }
    }

    /// Counts a reply. The provider's count is used if there is one.
    async fn count(&mut self, reply: &Message, budget: u64, events: &Events) {
        self.rounds += 1;
        self.meter.reply(reply);
        if let Some(usage) = reply.usage {
            self.fullness = self.fullness.max(percent(usage.read(), budget));
            events.send(Event::Usage(usage)).await;
        }
    }

    /// Appends a reply that is not the last.
    async fn store_reply(&mut self, held: &LeasedThread, reply: Message) -> Result<(), TurnError> {
        self.add(&reply);
        held.with(move |thread| thread.append(reply)).await?;
        Ok(())
    }

    fn add(&mut self, reply: &Message) {
        self.usage += reply.usage.unwrap_or_default();
        self.cut_off = reply.interrupted;
        let text = reply.plain_text();
        if !text.is_empty() {
            self.text = text;
        }
    }

    /// Appends the final reply, if there is one, and that the turn is over, and releases the lease:
    /// atomically.
    async fn end(
        &mut self,
        held: &LeasedThread,
        last: Option<Message>,
        end: End,
    ) -> Result<TurnAnswer, TurnError> {
        if let Some(last) = &last {
            self.add(last);
        }
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let finished = Body::Finished(Finished {
            rounds: self.rounds,
            ms,
            usage: self.usage,
            model: Some(self.model.clone()),
        });
        let limit = self.limit.clone().map(Body::RoundLimit);
        let (once, sent) = (self.once, self.sent.take());
        let work = move |thread: &mut Thread| {
            if let Some(sent) = sent {
                thread.note_sent(sent);
            }
            let mut items = Vec::from_iter(last.map(Item::from));
            items.extend(limit.map(Item::from));
            items.push(finished.into());
            if once {
                items.extend(own_again(thread)?.map(Item::from));
            }
            thread.finish(items)
        };
        held.with(work).await?;
        Ok(self.answer(end, Vec::new()))
    }

    fn answer(&self, end: End, calls: Vec<Call>) -> TurnAnswer {
        let text = match &self.limit {
            Some(limit) => cut_short(&self.text, limit),
            None => self.text.clone(),
        };
        TurnAnswer {
            text,
            end,
            cut_off: self.cut_off,
            seq: self.seq,
            rounds: self.rounds,
            usage: self.usage,
            took: self.began.elapsed(),
            fullness: self.fullness,
            calls,
            limit: self.limit.clone(),
            model: self.model.clone(),
            economy: self.meter.economy,
        }
    }
}

/// How full a context is, in percent.
pub(crate) fn fullness(context: &Context, room: u64) -> u64 {
    match context.cuts.iter().any(|cut| cut.by == Cutter::FIT_BUDGET) {
        true => 100,
        false => percent(context.tokens, room),
    }
}

fn percent(tokens: u64, room: u64) -> u64 {
    (tokens.saturating_mul(100) / room.max(1)).min(100)
}
