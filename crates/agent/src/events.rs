//! What happens in a turn, told while it happens.

use std::time::Duration;

use rethread_core::message::Call;
use tokio::sync::{mpsc, oneshot};

/// Something that happens in a turn.
#[derive(Debug)]
pub enum Event {
    /// Someone else is in a turn of this session; this one waits.
    Waiting {
        /// Who holds it.
        holder: String,
    },
    /// The question is longer than the model's window; it sees the beginning.
    QuestionCut {
        /// Characters it has.
        from_chars: u64,
        /// Characters the model sees.
        to_chars: u64,
    },
    /// More of the reply's text.
    Text(String),
    /// More of what the model thinks.
    Thinking(String),
    /// The reply broke off or was refused, and is asked for again; what was told of it is void.
    Retry {
        /// What went wrong.
        why: String,
        /// How long we wait first.
        wait: Duration,
    },
    /// The model calls a tool.
    Call(Call),
    /// A tool that changes something is about to run; it does so only if the answer is yes.
    Ask {
        /// The call.
        call: Call,
        /// Where the answer goes.
        answer: oneshot::Sender<bool>,
    },
    /// A tool is done.
    Result {
        /// The call it answers.
        call: Call,
        /// Whether it did what it was asked.
        success: bool,
        /// What it said.
        text: String,
    },
}

/// Where events go. Nobody needs to listen.
#[derive(Clone, Debug, Default)]
pub struct Events(Option<mpsc::UnboundedSender<Event>>);

impl Events {
    /// Events, and where they arrive.
    pub fn channel() -> (Events, mpsc::UnboundedReceiver<Event>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Events(Some(sender)), receiver)
    }

    /// Events nobody listens to.
    pub fn none() -> Events {
        Events(None)
    }

    /// Tells an event. A listener that went away does not stop a turn.
    pub fn tell(&self, event: Event) {
        if let Some(sender) = &self.0 {
            drop(sender.send(event));
        }
    }

    /// Asks whether a call may run. Nobody there means no.
    pub async fn ask(&self, call: &Call) -> bool {
        let (answer, heard) = oneshot::channel();
        self.tell(Event::Ask { call: call.clone(), answer });
        heard.await.unwrap_or(false)
    }
}
