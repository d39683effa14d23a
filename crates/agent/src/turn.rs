//! One turn: from a question to its answer.
//!
//! The question is on disk before the model is asked, each reply before its tools run, each result
//! before the next one runs. Whatever stops a turn, the log says how far it came; the next turn
//! answers the calls that were left open, and goes on.

use std::sync::Arc;
use std::time::Instant;

use rethread_core::context::{Changed, Context, Cut, Step as Cutter};
use rethread_core::entry::{Body, Finished};
use rethread_core::message::Usage;
use rethread_core::{Incoming, Message, SessionId};
use tokio_util::sync::CancellationToken;

use crate::ask::Asked;
use crate::events::{Event, Events};
use crate::lease::Held;
use crate::runner::{Answer, End, Runner, TurnError};
use crate::step::{Step, cut_short, next_step};

impl Runner {
    /// Runs one turn in a session: one at a time in each, across threads, processes and machines.
    /// `stop` ends it early and keeps what was said; dropping the future does not clean up.
    ///
    /// # Errors
    ///
    /// [`TurnError`]; the question and what was said until then stay in the log.
    pub async fn run_turn(
        &self,
        id: SessionId,
        input: impl Into<Incoming>,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<Answer, TurnError> {
        let held = Held::take(&self.sessions, &self.kept, id, self.bounds.lease_wait, events, stop)
            .await?;
        let outcome = self.rounds(&held, input.into(), events, stop).await;
        let released = held.release(&self.kept).await;
        let answer = outcome?;
        released?;
        Ok(answer)
    }

    async fn rounds(
        &self,
        held: &Held,
        input: Incoming,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<Answer, TurnError> {
        let (mut turn, mut context) = self.begin(held, input).await?;
        for _ in 0..self.bounds.rounds {
            turn.fullness = fullness(&context, self.model.budget());
            turn.tell_if_cut(&context, events);
            let reply = match self.ask(&context, &turn.tools, events, stop).await {
                Asked::Reply(reply) => reply,
                Asked::Stopped(partial) => return turn.end(held, partial, End::Stopped).await,
                Asked::Failed(failure, partial) => {
                    if let Some(partial) = partial {
                        turn.heard(held, partial).await?;
                    }
                    return Err(failure.into());
                }
            };
            turn.rounds += 1;
            // What the provider counted is the truth where it exists.
            let read = reply.usage.unwrap_or_default().read();
            turn.fullness = turn.fullness.max(percent(read, self.model.budget()));
            let Step::RunTools(calls) = next_step(&reply) else {
                return turn.end(held, Some(reply), End::Answered).await;
            };
            turn.heard(held, reply).await?;
            for (index, call) in calls.into_iter().enumerate() {
                let result = self.run_call(turn.id, index, call, &turn.tools, events, stop).await;
                held.with(move |thread| thread.append(result)).await?;
            }
            if stop.is_cancelled() {
                return turn.end(held, None, End::Stopped).await;
            }
            // The next one is built upon it, which is cheapest when nobody else has it.
            drop(context);
            let (policy, model) = (self.policy.clone(), self.model.clone());
            context = held.with(move |thread| thread.context(&policy, &model)).await?;
        }
        held.with(|thread| thread.note(Body::RoundLimit)).await?;
        turn.text = cut_short(&turn.text);
        turn.end(held, None, End::RoundLimit).await
    }

    /// Answers what a crash left open, then writes the question down.
    async fn begin(&self, held: &Held, input: Incoming) -> Result<(Turn, Arc<Context>), TurnError> {
        let began = Instant::now();
        let (policy, model) = (self.policy.clone(), self.model.clone());
        let (id, seq, context) = held
            .with(move |thread| {
                thread.repair()?;
                let seq = thread.append(input)?;
                let context = thread.context(&policy, &model)?;
                Ok((thread.session().id(), seq, context))
            })
            .await?;
        let turn = Turn {
            id,
            began,
            seq,
            tools: self.specs().into(),
            text: String::new(),
            cut_off: false,
            rounds: 0,
            usage: Usage::default(),
            fullness: 0,
        };
        Ok((turn, context))
    }
}

/// A turn that is going on.
struct Turn {
    id: SessionId,
    began: Instant,
    seq: u64,
    tools: Arc<[crate::tool::Spec]>,
    text: String,
    cut_off: bool,
    rounds: u32,
    usage: Usage,
    fullness: u64,
}

impl Turn {
    /// Tells once that the question itself did not fit.
    fn tell_if_cut(&self, context: &Context, events: &Events) {
        let mine = |cut: &&Cut| cut.seq == self.seq && cut.by == Cutter::FIT_BUDGET;
        if let Some(cut) = context.cuts.iter().find(mine).filter(|_| self.rounds == 0)
            && let Changed::Shortened { from_chars, to_chars } = cut.change
        {
            events.tell(Event::QuestionCut { from_chars, to_chars });
        }
    }

    /// Writes down what the model said on its way.
    async fn heard(&mut self, held: &Held, reply: Message) -> Result<(), TurnError> {
        self.hear(&reply);
        held.with(move |thread| thread.append(reply)).await?;
        Ok(())
    }

    fn hear(&mut self, reply: &Message) {
        self.usage += reply.usage.unwrap_or_default();
        self.cut_off = reply.interrupted;
        let text = reply.plain_text();
        if !text.is_empty() {
            self.text = text;
        }
    }

    /// Writes down the last word, if there is one, and that the turn is over: as one.
    async fn end(
        mut self,
        held: &Held,
        last: Option<Message>,
        end: End,
    ) -> Result<Answer, TurnError> {
        if let Some(last) = &last {
            self.hear(last);
        }
        let took = self.began.elapsed();
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let finished = Body::Finished(Finished { rounds: self.rounds, ms, usage: self.usage });
        held.with(move |thread| thread.conclude(last, finished)).await?;
        let Turn { text, cut_off, seq, rounds, usage, fullness, .. } = self;
        Ok(Answer { text, end, cut_off, seq, rounds, usage, took, fullness })
    }
}

/// How much of its room a context takes, in percent.
pub(crate) fn fullness(context: &Context, room: u64) -> u64 {
    match context.cuts.iter().any(|cut| cut.by == Cutter::FIT_BUDGET) {
        true => 100,
        false => percent(context.tokens, room),
    }
}

fn percent(tokens: u64, room: u64) -> u64 {
    (tokens.saturating_mul(100) / room.max(1)).min(100)
}
