//! A log made by hand.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::entry::{
    Body, Finished, NewEntry, Origin, PreviousSession, Restored, Started, Summarized,
};
use rethread_core::measure::measure;
use rethread_core::message::Usage;
use rethread_core::session::{Header, Parent};
use rethread_core::{Entry, Fixed, Message, Owner, Session, SessionId, Tally, World};
use rethread_transcript::write::markdown::{TranscriptHeader, text};

/// The name of the agent in these tests.
pub(crate) const SALLY: &str = "Simple Sally";

/// A session that grows.
pub(crate) struct Log {
    pub(crate) world: Fixed,
    pub(crate) session: Session,
    pub(crate) entries: Vec<Entry>,
    pub(crate) previous: Option<PreviousSession>,
}

impl Log {
    /// A session that begins at this time.
    pub(crate) fn at(time: &str) -> Log {
        let world = Fixed::at(time.parse::<Timestamp>().expect("a valid time"));
        let header = Header::new(SessionId(world.uuid()), Owner::local(), world.now());
        Log { world, session: Session::new(header), entries: Vec::new(), previous: None }
    }

    /// A session that begins at the default time.
    pub(crate) fn new() -> Log {
        Log::at("2025-12-30T14:30:22.123Z")
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, body: Body) -> &mut Log {
        let measure = measure(&body, |_| None);
        let id = self.world.uuid().into();
        let entry = NewEntry { id, at: self.world.now(), body, measure };
        let entry = entry.placed(&self.session.tally);
        self.session.tally = entry.tally;
        self.entries.push(entry);
        self
    }

    /// Adds a message.
    pub(crate) fn say(&mut self, message: Message) -> &mut Log {
        self.add(Body::Message(message))
    }

    /// Adds a question and its answer.
    pub(crate) fn turn(&mut self, question: &str, answer: &str) -> &mut Log {
        self.say(Message::user(question)).say(Message::assistant(answer))
    }

    /// Ends a turn.
    pub(crate) fn finish(&mut self, ms: u64, input: u64, output: u64) -> &mut Log {
        let usage = Usage { input, output, ..Usage::default() };
        self.add(Body::Finished(Finished { rounds: 1, ms, usage, model: None }))
    }

    /// Adds a summary.
    pub(crate) fn summarize(&mut self, text: &str) -> &mut Log {
        let summary =
            Summarized { text: text.into(), by: "extractive".into(), usage: Usage::default() };
        self.add(Body::Summary(summary))
    }

    /// Advances the clock.
    pub(crate) fn wait(&mut self, seconds: u64) -> &mut Log {
        self.world.advance(Duration::from_secs(seconds));
        self
    }

    /// Makes it continue another session.
    pub(crate) fn restore(&mut self, acknowledgment: &str, ms: u64, usage: Usage) -> &mut Log {
        let from = SessionId(self.world.uuid());
        self.session.header.parent = Some(Parent { id: from, origin: Origin::Resume });
        let started = Started { origin: Origin::Resume, from: Some(from), keys: Vec::new() };
        self.add(Body::Restored(Box::new(Restored {
            started,
            summary: "before".into(),
            tail: Vec::new(),
            prompt: "CONTEXT RESTORATION: hello".into(),
            acknowledgment: acknowledgment.into(),
            usage,
            ms,
            model: None,
            previous: Default::default(),
        })))
    }

    /// The facts in its header.
    pub(crate) fn page(&self) -> TranscriptHeader<'_> {
        let previous = self.previous.clone();
        TranscriptHeader { session: &self.session, agent: SALLY, previous, zone: TimeZone::UTC }
    }

    /// Its transcript.
    pub(crate) fn text(&self) -> String {
        text(&self.page(), self.entries.clone()).0
    }

    /// The part of its transcript below the header.
    pub(crate) fn parts(&self) -> String {
        let text = self.text();
        let (_, parts) = text.split_once("\n---\n\n").expect("a header ends with a rule");
        parts.to_owned()
    }

    /// Sets higher counts than the written turns have.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.session.tally
    }
}
