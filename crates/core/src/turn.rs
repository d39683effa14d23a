//! A turn: one question and everything until its answer is complete.
//!
//! Which entries open, belong to and end a turn is decided here, once. Contexts, transcripts,
//! summaries and interfaces that come back after a crash all use this to read turns from entries.

use std::borrow::Borrow;

use crate::entry::{Body, Entry, Finished, RoundLimit};
use crate::message::{Message, Role};

/// The role of an entry in its turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TurnPart<'a> {
    /// It opens a turn. It may also contain results, which answer calls of the previous turn.
    Question(&'a Message),
    /// A reply of the model; its calls begin a round.
    Reply(&'a Message),
    /// Results of calls.
    Results(&'a Message),
    /// The turn is over, with its cost.
    Finished(&'a Finished),
    /// The turn was ended while the model still called tools.
    RoundLimit(&'a RoundLimit),
    /// It is not part of any turn.
    Outside,
}

impl<'a> TurnPart<'a> {
    /// The role of an entry with this body.
    pub fn of(body: &'a Body) -> TurnPart<'a> {
        match body {
            Body::Message(message) => match message.role {
                Role::System => TurnPart::Outside,
                Role::Assistant => TurnPart::Reply(message),
                Role::User | Role::Tool if message.opens_turn() => TurnPart::Question(message),
                Role::User | Role::Tool => TurnPart::Results(message),
            },
            Body::Finished(finished) => TurnPart::Finished(finished),
            Body::RoundLimit(limit) => TurnPart::RoundLimit(limit),
            _ => TurnPart::Outside,
        }
    }
}

/// One turn: its entries in order, beginning with the question, if it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn<E> {
    entries: Vec<E>,
}

impl<E> Default for Turn<E> {
    fn default() -> Turn<E> {
        Turn { entries: Vec::new() }
    }
}

impl<E: Borrow<Entry>> Turn<E> {
    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// The entry, if it opens the next turn.
    pub fn push(&mut self, entry: E) -> Result<(), E> {
        if !self.entries.is_empty()
            && matches!(TurnPart::of(&entry.borrow().body), TurnPart::Question(_))
        {
            return Err(entry);
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Its entries, in order.
    pub fn entries(&self) -> &[E] {
        &self.entries
    }

    /// Its entries, in order.
    pub fn into_entries(self) -> Vec<E> {
        self.entries
    }

    /// The roles of its entries.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = TurnPart<'_>> {
        self.entries.iter().map(|entry| TurnPart::of(&entry.borrow().body))
    }

    /// The entry that opens it, if it was read.
    pub fn question(&self) -> Option<&E> {
        let first = self.entries.first()?;
        matches!(TurnPart::of(&first.borrow().body), TurnPart::Question(_)).then_some(first)
    }

    /// Whether it is marked as finished. A turn that was killed before that may still have its
    /// answer: see [`has_answer`](Turn::has_answer).
    pub fn is_over(&self) -> bool {
        self.parts().any(|part| matches!(part, TurnPart::Finished(_)))
    }

    /// Whether its last entry is a reply without calls.
    pub fn has_answer(&self) -> bool {
        let last = self.parts().rev().find_map(|part| match part {
            TurnPart::Reply(message) => Some(Some(message)),
            TurnPart::Results(_) | TurnPart::Question(_) => Some(None),
            _ => None,
        });
        last.flatten().is_some_and(|reply| reply.calls().next().is_none())
    }

    /// Whether it has its answer, and every call in it has its result.
    pub fn is_whole(&self) -> bool {
        let replied = self.parts().rev().find_map(|part| match part {
            TurnPart::Reply(_) => Some(true),
            TurnPart::Results(_) | TurnPart::Question(_) => Some(false),
            _ => None,
        });
        let messages = || self.entries.iter().filter_map(|entry| entry.borrow().body.message());
        let answers = |id: &str| {
            messages().any(|message| message.results().any(|result| result.tool_use_id == id))
        };
        replied == Some(true)
            && messages().all(|message| message.calls().all(|call| answers(&call.id)))
    }

    /// The last text of the model in it, and why it was ended early, if it was.
    pub fn answer(&self) -> (String, Option<&RoundLimit>) {
        let texts = self.parts().filter_map(|part| match part {
            TurnPart::Reply(message) => Some(message.plain_text()),
            _ => None,
        });
        let last = texts.rev().find(|text| !text.is_empty()).unwrap_or_default();
        let limit = self.parts().find_map(|part| match part {
            TurnPart::RoundLimit(limit) => Some(limit),
            _ => None,
        });
        (last, limit)
    }
}

/// The turns that are left out of contexts, by the message that opened each. One that is continued
/// after its mark is shown again.
pub fn left_out<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<u64> {
    let mut left_out: Vec<u64> = Vec::new();
    for entry in entries {
        match (&entry.body, TurnPart::of(&entry.body)) {
            (Body::LeftOut(mark), _) => left_out.push(mark.turn),
            (_, TurnPart::Reply(_) | TurnPart::Results(_)) => {
                left_out.retain(|turn| Some(*turn) != entry.tally.turn);
            }
            _ => {}
        }
    }
    left_out
}

/// Groups entries into turns. Entries before the first question form a turn without one.
pub fn turns<E: Borrow<Entry>>(entries: impl IntoIterator<Item = E>) -> Vec<Turn<E>> {
    let mut turns: Vec<Turn<E>> = Vec::new();
    for entry in entries {
        let left = match turns.last_mut() {
            Some(turn) => turn.push(entry).err(),
            None => Some(entry),
        };
        turns.extend(left.map(|entry| Turn { entries: vec![entry] }));
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{NewEntry, Tally};
    use crate::measure::Measure;
    use crate::{Block, EntryId, Raw};

    fn log(bodies: Vec<Body>) -> Vec<Entry> {
        let mut tally = Tally::default();
        let entry = |(index, body): (usize, Body)| {
            let id = EntryId::new(index.to_string()).expect("valid");
            let (at, measure) = (jiff::Timestamp::UNIX_EPOCH, Measure::default());
            let entry = NewEntry { id, at, body, measure }.placed(&tally);
            tally = entry.tally;
            entry
        };
        bodies.into_iter().enumerate().map(entry).collect()
    }

    fn calls(id: &str) -> Body {
        let call = Block::tool_use(id, "grep", Raw::of(&serde_json::json!({})));
        Body::Message(Message::new(Role::Assistant, vec![Block::text("let me look"), call]))
    }

    fn said(message: Message) -> Body {
        Body::Message(message)
    }

    #[test]
    fn a_turn_begins_with_its_question_and_ends_before_the_next() {
        let entries = log(vec![
            said(Message::system("be brief")),
            said(Message::user("one")),
            calls("1"),
            said(Message::tool_result("1", "found")),
            said(Message::assistant("this")),
            Body::Finished(Finished::default()),
            said(Message::user("two")),
            calls("2"),
        ]);
        let turns = turns(&entries);
        let seqs = |turn: &Turn<&Entry>| turn.entries().iter().map(|e| e.seq).collect::<Vec<_>>();
        assert_eq!(
            turns.iter().map(seqs).collect::<Vec<_>>(),
            [vec![0], vec![1, 2, 3, 4, 5], vec![6, 7]]
        );
        assert!(turns[0].question().is_none());
        assert_eq!(turns[1].question().map(|entry| entry.seq), Some(1));
        assert!(turns[1].is_over() && turns[1].has_answer() && turns[1].is_whole());
        assert_eq!(turns[1].answer(), ("this".into(), None));
        assert!(!turns[2].is_over() && !turns[2].has_answer() && !turns[2].is_whole());
    }

    #[test]
    fn a_turn_whose_last_call_was_answered_and_not_spoken_about_has_no_answer() {
        let mut bodies = vec![said(Message::user("q")), calls("1")];
        bodies.push(said(Message::tool_result("1", "found")));
        let entries = log(bodies);
        let turn = &turns(&entries)[0];
        assert!(!turn.has_answer() && !turn.is_whole());
        assert_eq!(turn.answer(), ("let me look".into(), None));
    }
}
