//! Events of a turn, reported while it runs.
//!
//! The queue is bounded. Text is never lost and never waits: if the queue is full, it is joined to
//! the text before it, and only the latest part of a tool's output is kept. Everything else waits
//! for room, so a listener that stops reading pauses the turn instead of filling the memory; one
//! that disconnected stops nothing.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rethread_core::SessionId;
use rethread_core::message::{Call, Usage};
use tokio::sync::mpsc;

use crate::grant::Grant;
use crate::permission::{PermissionAnswer, PermissionRequest};
use crate::tool::FileChange;

/// Length of the queue.
const EVENTS_MAX: usize = 256;

/// Bytes of a tool's output in the queue: what a screen or two can show. Its result has all of it.
const PROGRESS_BYTES_MAX: usize = 64 << 10;

/// An event of a turn.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Event {
    /// Another turn is running in this session; this one waits.
    Waiting { holder: String },
    /// The question is longer than the model's window; the model sees its beginning.
    QuestionCut {
        /// Its length in characters.
        from_chars: u64,
        /// Characters the model sees.
        to_chars: u64,
    },
    /// An entry of the session cannot be read. It is not sent to the model, and the turn continues.
    Damaged {
        /// The entry.
        seq: u64,
        /// The error.
        what: String,
    },
    /// More of the reply's text.
    Text(String),
    /// More of the model's thinking.
    Thinking(String),
    /// The reply broke off or was refused, and the request is retried; its text so far is void.
    Retry {
        /// What went wrong.
        why: String,
        /// The wait before the retry.
        wait: Duration,
    },
    /// Earlier questions that the provider refuses are left out from now on.
    LeftOut {
        /// How many.
        turns: usize,
    },
    /// The model calls a tool.
    Call(Call),
    /// A tool that changes something is about to run, if the user agrees.
    Permission(PermissionRequest),
    /// More output of a running tool.
    Progress {
        /// The id of the call.
        call: String,
        /// What it wrote.
        text: String,
    },
    /// A tool has finished.
    Result {
        /// The call it answers.
        call: Call,
        /// Whether it succeeded.
        success: bool,
        /// Its result.
        text: String,
        /// What it did to a file, if it changed one.
        change: Option<Arc<FileChange>>,
    },
    /// What the provider charged for one reply.
    Usage(Usage),
    /// An event of a subagent, which works in its own session.
    Subagent {
        session: SessionId,
        /// What happens there.
        event: Box<Event>,
    },
}

/// The sender of events. Nobody has to listen.
#[derive(Clone, Debug, Default)]
pub struct Events(Option<Arc<Sender>>);

#[derive(Debug)]
struct Sender {
    queue: mpsc::Sender<Event>,
    /// Text that did not fit, to be sent before anything else.
    late: Mutex<Vec<Event>>,
    /// The session of the events, if it is a subagent's.
    subagent: Option<SessionId>,
}

impl Events {
    /// A sender and a receiver.
    pub fn channel() -> (Events, mpsc::Receiver<Event>) {
        let (queue, receiver) = mpsc::channel(EVENTS_MAX);
        let sender = Sender { queue, late: Mutex::default(), subagent: None };
        (Events(Some(Arc::new(sender))), receiver)
    }

    /// A sender without a receiver.
    pub fn none() -> Events {
        Events(None)
    }

    /// The same queue for the events of a subagent.
    #[must_use]
    pub fn of_subagent(&self, session: SessionId) -> Events {
        Events(self.0.as_ref().map(|sender| {
            let (queue, late) = (sender.queue.clone(), Mutex::default());
            Arc::new(Sender { queue, late, subagent: Some(session) })
        }))
    }

    /// A sink for the progress of a tool. It does not keep the queue open: an abandoned tool must
    /// not keep listeners waiting for the end of its turn.
    pub(crate) fn progress(&self, call: &str) -> Progress {
        let sender = self.0.as_ref().map(Arc::downgrade).unwrap_or_default();
        Progress { sender, call: call.to_owned() }
    }

    /// Reports more text, thinking or progress. Never waits and loses nothing.
    pub(crate) fn more(&self, event: Event) {
        if let Some(sender) = &self.0 {
            sender.more(event);
        }
    }

    /// Reports an event, when there is room for it. Does not wait for a listener that disconnected.
    pub(crate) async fn send(&self, event: Event) {
        let Some(sender) = &self.0 else { return };
        self.flush().await;
        drop(sender.queue.send(sender.wrapped(event)).await);
    }

    /// Sends what did not fit before.
    pub(crate) async fn flush(&self) {
        let Some(sender) = &self.0 else { return };
        let late = std::mem::take(&mut *sender.late.lock().unwrap_or_else(PoisonError::into_inner));
        for event in late {
            drop(sender.queue.send(sender.wrapped(event)).await);
        }
    }

    /// Asks whether a call may run. Without a listener, the answer is no.
    pub(crate) async fn ask(
        &self,
        call: &Call,
        change: Option<FileChange>,
        why: Option<String>,
        always: Option<Grant>,
    ) -> PermissionAnswer {
        let (request, answer) = PermissionRequest::new(call.clone(), change, why, always);
        self.send(Event::Permission(request)).await;
        answer.await.unwrap_or(PermissionAnswer::No)
    }
}

/// Where a running tool reports its output.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    sender: Weak<Sender>,
    call: String,
}

impl Progress {
    /// Reports more output of the tool. Nobody has to listen.
    pub fn report(&self, text: impl Into<String>) {
        if let Some(sender) = self.sender.upgrade() {
            sender.more(Event::Progress { call: self.call.clone(), text: text.into() });
        }
    }
}

impl Sender {
    fn more(&self, event: Event) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.push(event);
        while !late.is_empty() {
            let Ok(room) = self.queue.try_reserve() else { break };
            room.send(self.wrapped(late.remove(0)));
        }
        if self.queue.is_closed() {
            late.clear();
        }
        join(&mut late);
    }
}

impl Sender {
    fn wrapped(&self, event: Event) -> Event {
        match self.subagent {
            Some(session) => Event::Subagent { session, event: Box::new(event) },
            None => event,
        }
    }
}

/// Joins consecutive texts.
fn join(events: &mut Vec<Event>) {
    let mut joined: Vec<Event> = Vec::with_capacity(events.len());
    for event in events.drain(..) {
        match (joined.last_mut(), event) {
            (Some(Event::Text(text)), Event::Text(more))
            | (Some(Event::Thinking(text)), Event::Thinking(more)) => text.push_str(&more),
            (Some(Event::Progress { call, text }), Event::Progress { call: same, text: more })
                if *call == same =>
            {
                text.push_str(&more);
                let over = text.len().saturating_sub(PROGRESS_BYTES_MAX);
                text.drain(..text.ceil_char_boundary(over));
            }
            (_, event) => joined.push(event),
        }
    }
    *events = joined;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(receiver: &mut mpsc::Receiver<Event>) -> (usize, String) {
        let mut events = 0;
        let mut text = String::new();
        while let Ok(event) = receiver.try_recv() {
            events += 1;
            if let Event::Text(more) = event {
                text.push_str(&more);
            }
        }
        (events, text)
    }

    #[tokio::test]
    async fn text_that_nobody_reads_is_joined_and_none_of_it_is_lost() {
        let (events, mut receiver) = Events::channel();
        let all: String = (0..10_000).map(|n| format!("{n} ")).collect();
        for n in 0..10_000 {
            events.more(Event::Text(format!("{n} ")));
        }
        let (first, mut text) = texts(&mut receiver);
        assert_eq!(first, EVENTS_MAX, "no more than this many wait");
        events.send(Event::Usage(Usage::default())).await;
        let (rest, more) = texts(&mut receiver);
        text.push_str(&more);
        assert_eq!((rest, text), (2, all), "the rest is one event, and the usage comes after it");
    }

    #[tokio::test]
    async fn a_listener_that_went_away_is_not_waited_for() {
        let (events, receiver) = Events::channel();
        drop(receiver);
        for _ in 0..2 * EVENTS_MAX {
            events.more(Event::Text("x".into()));
            events.send(Event::Usage(Usage::default())).await;
        }
    }

    #[tokio::test]
    async fn an_abandoned_tool_does_not_keep_the_queue_open() {
        let (events, mut receiver) = Events::channel();
        let left_behind = events.progress("1");
        left_behind.report("working");
        drop(events);
        assert!(matches!(receiver.recv().await, Some(Event::Progress { .. })));
        assert!(receiver.recv().await.is_none(), "the turn is over");
        left_behind.report("too late");
    }

    #[tokio::test]
    async fn an_event_of_a_subagent_says_whose_it_is() {
        let (events, mut receiver) = Events::channel();
        let session = SessionId::of_source(&rethread_core::Owner::local(), "child");
        events.of_subagent(session).more(Event::Text("looking".into()));
        let event = receiver.recv().await;
        assert!(
            matches!(&event, Some(Event::Subagent { session: id, event })
                if *id == session && matches!(**event, Event::Text(_))),
            "{event:?}"
        );
    }
}
