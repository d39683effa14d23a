//! A log made by hand.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::entry::{
    Body, Finished, NewEntry, Origin, Previous, Restored, Started, Summarized,
};
use rethread_core::measure::measure;
use rethread_core::message::Usage;
use rethread_core::session::{Header, Parent};
use rethread_core::{Entry, Fixed, Message, Owner, Session, SessionId, Tally, World};
use rethread_transcript::write::markdown::{TranscriptHeader, text};

/// What the agent of these tests is called.
pub(crate) const SALLY: &str = "Simple Sally";

/// A session that grows.
pub(crate) struct Log {
    pub(crate) world: Fixed,
    pub(crate) session: Session,
    pub(crate) entries: Vec<Entry>,
    pub(crate) previous: Option<Previous>,
}

impl Log {
    /// One that begins at this time.
    pub(crate) fn at(time: &str) -> Log {
        let world = Fixed::at(time.parse::<Timestamp>().expect("a valid time"));
        let header = Header::new(SessionId(world.uuid()), Owner::local(), world.now());
        Log { world, session: Session::new(header), entries: Vec::new(), previous: None }
    }

    /// One that begins when the others do.
    pub(crate) fn new() -> Log {
        Log::at("2025-12-30T14:30:22.123Z")
    }

    /// Something happens.
    pub(crate) fn add(&mut self, body: Body) -> &mut Log {
        let measure = measure(&body, |_| None);
        let id = self.world.uuid().into();
        let entry = NewEntry { id, at: self.world.now(), body, measure };
        let entry = entry.placed(&self.session.tally);
        self.session.tally = entry.tally;
        self.entries.push(entry);
        self
    }

    /// Something is said.
    pub(crate) fn say(&mut self, message: Message) -> &mut Log {
        self.add(Body::Message(message))
    }

    /// A question and its answer.
    pub(crate) fn turn(&mut self, question: &str, answer: &str) -> &mut Log {
        self.say(Message::user(question)).say(Message::assistant(answer))
    }

    /// A turn comes to its end.
    pub(crate) fn finish(&mut self, ms: u64, input: u64, output: u64) -> &mut Log {
        let usage = Usage { input, output, ..Usage::default() };
        self.add(Body::Finished(Finished { rounds: 1, ms, usage, model: None }))
    }

    /// A summary is made.
    pub(crate) fn summarize(&mut self, text: &str) -> &mut Log {
        let summary =
            Summarized { text: text.into(), by: "extractive".into(), usage: Usage::default() };
        self.add(Body::Summary(summary))
    }

    /// Time passes.
    pub(crate) fn wait(&mut self, seconds: u64) -> &mut Log {
        self.world.advance(Duration::from_secs(seconds));
        self
    }

    /// It continues another session.
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

    /// What is written about it.
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

    /// Counts as if more had happened than is written.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.session.tally
    }
}
