//! Continues after a refusal, so that no message can block a session.
//!
//! A message stays in the log and is sent again with the next question. If a provider refuses one
//! message, it would refuse every question from then on. So a turn that was refused because of its
//! content is left out of later contexts, with a mark in the log. If it is not clear what the
//! provider refuses, the preceding questions without an answer are suspected: the request is sent
//! without them, and only if that succeeds are they left out.

use std::sync::Arc;

use rethread_core::context::{Context, build};
use rethread_core::entry::{Body, Finished, LeftOut, NewEntry};
use rethread_core::measure::Measure;
use rethread_core::turn::{left_out, turns};
use rethread_core::{EntryId, Item, Log, Place, Role, Thread};
use tokio_util::sync::CancellationToken;

use crate::ask::{AskOutcome, AskWith};
use crate::events::{Event, Events};
use crate::leased_thread::LeasedThread;
use crate::provider::{Failure, RefusalCause};
use crate::runner::{Runner, TurnError};

/// Why a turn is left out.
const REFUSED: &str = "the provider refused it";

impl Runner {
    /// Asks for one reply in the turn that began at this position.
    pub(crate) async fn ask_past_refusals(
        &self,
        held: &LeasedThread,
        at: Place,
        context: &Context,
        with: AskWith<'_>,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<AskOutcome, TurnError> {
        let (id, turn) = (at.session, at.seq);
        let mut asked = self.ask(id, context, with, events, stop).await;
        let Some(mut cause) = cause_of(&asked) else { return Ok(asked) };
        let suspects = held.with(move |thread| Ok(unanswered_before(thread, turn))).await?;
        // The newest is tried alone first: those before it may only have had bad luck.
        let newest = suspects.len().saturating_sub(1);
        let tries = [suspects[newest..].to_vec(), suspects[..].to_vec()];
        for suspects in tries.into_iter().skip(usize::from(newest == 0)) {
            if suspects.is_empty() {
                continue;
            }
            let without = self.context_without(held, suspects.clone()).await?;
            asked = self.ask(id, &without, with, events, stop).await;
            match cause_of(&asked) {
                None if matches!(asked, AskOutcome::Reply(_)) => {
                    let turns = suspects.len();
                    leave_out(held, suspects).await?;
                    events.send(Event::LeftOut { turns }).await;
                    return Ok(asked);
                }
                None => return Ok(asked),
                Some(again) => cause = again,
            }
        }
        if cause == RefusalCause::Content && self.answered_before(held).await? {
            // It is over: asking it again opens another turn.
            let finished =
                Finished { model: Some(self.responder.model.id()), ..Finished::default() };
            let mark = LeftOut { turn, why: REFUSED.into() };
            let marks = vec![Body::LeftOut(mark).into(), Body::Finished(finished).into()];
            held.with(move |thread| thread.record(marks)).await?;
            if let AskOutcome::Failed(Failure::Refused { left_out, .. }, _) = &mut asked {
                *left_out = true;
            }
        }
        Ok(asked)
    }

    /// Whether this model answered the earlier messages, so that it must object to a new one.
    /// Another model may object to an older one.
    async fn answered_before(&self, held: &LeasedThread) -> Result<bool, TurnError> {
        let model = self.responder.model.id();
        let same = held.with(move |thread| {
            let messages = thread.log().entries().iter().rev().filter_map(|e| e.body.message());
            let mut replies = messages.filter(|message| message.role == Role::Assistant);
            Ok(replies.next().is_none_or(|reply| reply.model.as_ref() == Some(&model)))
        });
        Ok(same.await?)
    }

    /// What a model would see without these turns.
    async fn context_without(
        &self,
        held: &LeasedThread,
        turns: Vec<u64>,
    ) -> Result<Arc<Context>, TurnError> {
        let (policy, model) = (self.responder.policy.clone(), self.responder.model.clone());
        let context = held.with(move |thread| {
            let mut log: Log = thread.log().clone();
            for turn in turns {
                let tally = log.tally();
                let id = EntryId::new(tally.entries.to_string())?;
                let body = Body::LeftOut(LeftOut { turn, why: REFUSED.into() });
                let at = jiff::Timestamp::UNIX_EPOCH;
                let entry = NewEntry { id, at, body, measure: Measure::default() };
                log.push(entry.placed(&tally)).expect("it follows the last entry");
            }
            Ok(Arc::new(build(&log, &policy, &model)))
        });
        Ok(context.await?)
    }
}

/// The refusal, if the content of the request may be its cause.
fn cause_of(asked: &AskOutcome) -> Option<RefusalCause> {
    match asked {
        AskOutcome::Failed(Failure::Refused { cause, .. }, None) => {
            Some(*cause).filter(|cause| *cause != RefusalCause::Request)
        }
        _ => None,
    }
}

/// The turns right before this one that have no answer, and are not left out yet.
fn unanswered_before(thread: &Thread, turn: u64) -> Vec<u64> {
    let begins = thread.log().tally().begins();
    let entries = || thread.log().entries().iter().filter(|entry| entry.seq >= begins);
    let (turns, left_out) = (turns(entries()), left_out(entries()));
    let asked = turns.iter().rev().filter_map(|turn| Some((turn.question()?.seq, turn)));
    let before = asked.skip_while(|(seq, _)| *seq >= turn);
    let mut unanswered: Vec<u64> = before
        .take_while(|(seq, turn)| left_out.contains(seq) || !turn.has_answer())
        .map(|(seq, _)| seq)
        .filter(|seq| !left_out.contains(seq))
        .collect();
    unanswered.reverse();
    unanswered
}

async fn leave_out(held: &LeasedThread, turns: Vec<u64>) -> Result<(), TurnError> {
    let mark = |turn| Item::from(Body::LeftOut(LeftOut { turn, why: REFUSED.into() }));
    let marks: Vec<Item> = turns.into_iter().map(mark).collect();
    held.with(move |thread| thread.record(marks)).await?;
    Ok(())
}
