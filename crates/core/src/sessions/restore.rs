//! Continues a session in a new one, from its summary and its last turns.
//!
//! Writing the summary and answering the restoration prompt need a model, and are not done here.

use super::{New, Result, Sessions};
use crate::blob::BlobId;
use crate::entry::{Body, CarriedMessage, Entry, NewEntry, Origin, Restored, Started};
use crate::log::Log;
use crate::measure::message_tokens;
use crate::message::{Block, BlockKind, Message, Role, ToolResult};
use crate::name::{Key, SessionId};
use crate::session::{Parent, Place, Session};
use crate::store::{Bind, StoreError};
use crate::stub::with_reference;
use crate::turn::{left_out, turns};

/// The format of a session restored from a file.
const TRANSCRIPT: &str = "markdown";

impl Sessions {
    /// Starts a session that continues `parent`, with these keys, atomically. `restored.started` is
    /// filled in here. Without a parent, it continues a session that is not in this store.
    ///
    /// # Errors
    ///
    /// As [`create`](Sessions::create).
    pub fn restore(
        &self,
        parent: Option<SessionId>,
        origin: Origin,
        new: &New,
        keys: &[Key],
        mut restored: Restored,
    ) -> Result<Session> {
        let mut header = self.header(new)?;
        header.parent = parent.map(|id| Parent { id, origin });
        // Text from elsewhere stays marked in the sessions that carry it on. Without a session it
        // came from a transcript, which anyone may have written.
        header.imported = match parent {
            Some(id) => self.get(id)?.header.imported,
            None => Some(TRANSCRIPT.to_owned()),
        };
        let mut binds = Vec::new();
        for key in keys {
            super::movable(key)?;
            binds.push(Bind { key: key.clone(), seen: self.resolve(key)? });
        }
        let from = binds.iter().find_map(|bind| bind.seen).or(parent);
        restored.started = Started { origin, from, keys: keys.to_vec() };
        let carried: Vec<BlobId> =
            restored.tail.iter().flat_map(|carried| carried.message.blobs()).collect();
        let mut entries: Vec<NewEntry> = vec![self.entry(Body::Restored(Box::new(restored)))];
        let system = new.system.as_ref().map(|text| Body::Message(Message::system(text)));
        entries.extend(system.map(|body| self.entry(body)));
        let session = self.create_named(header, new.readable_id.as_deref(), &entries, &binds)?;
        if let Some(parent) = parent {
            for blob in carried {
                match self.store.blob(&self.owner, parent, blob) {
                    Ok(bytes) => drop(self.store.put_blob(&self.owner, session.id(), &bytes)?),
                    // It was lost before, and the message still refers to it.
                    Err(StoreError::NoBlob { .. } | StoreError::BadBlob { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(session)
    }
}

/// The note at the end of a question whose turn is carried over without its first rounds.
const ROUNDS_LEFT_OUT: &str = "[The first rounds of this turn are left out.]";

/// The last complete turns of a log, at most this many tokens, with their results stubbed: these
/// are carried over to the session that continues this one. If the next turn does not fit, its
/// question and its last rounds are carried over, and the question says so.
pub fn carried(log: &Log, id: SessionId, tokens_max: u32) -> Vec<CarriedMessage> {
    let begins = log.tally().begins();
    let since = || log.entries().iter().filter(|entry| entry.seq >= begins);
    let (turns, left_out) = (turns(since()), left_out(since()));
    let mut left = tokens_max;
    let mut tail: Vec<Vec<CarriedMessage>> = Vec::new();
    // A turn without its question began before the part of the log that was read.
    let whole = turns.iter().filter(|turn| {
        turn.question().is_some_and(|question| !left_out.contains(&question.seq)) && turn.is_whole()
    });
    for turn in whole.rev() {
        let said = turn.entries().iter().filter_map(|entry| Some((*entry, entry.body.message()?)));
        let said = said.filter(|(_, message)| message.role != Role::System);
        let turn: Vec<CarriedMessage> = said.map(|(entry, said)| carry(entry, said, id)).collect();
        let tokens: u32 = turn.iter().map(|carried| message_tokens(&carried.message)).sum();
        if tokens > left {
            tail.extend(end_of_turn(turn, left));
            break;
        }
        left -= tokens;
        tail.push(turn);
    }
    tail.into_iter().rev().flatten().collect()
}

/// Whether the turn that this message opens is carried over without its first rounds.
pub fn is_end_of_turn(question: &Message) -> bool {
    question.content.last().and_then(Block::as_text) == Some(ROUNDS_LEFT_OUT)
}

/// The question of a turn and as many of its last rounds as fit, at least the answer.
fn end_of_turn(turn: Vec<CarriedMessage>, tokens_max: u32) -> Option<Vec<CarriedMessage>> {
    let mut messages = turn.into_iter();
    let mut question = messages.next()?;
    question.message.content.push(Block::text(ROUNDS_LEFT_OUT));
    let mut left = tokens_max.checked_sub(message_tokens(&question.message))?;
    let rest: Vec<CarriedMessage> = messages.collect();
    let mut from = rest.len();
    while let Some(reply) =
        rest[..from].iter().rposition(|carried| carried.message.role == Role::Assistant)
    {
        let round = &rest[reply..from];
        let tokens = round.iter().map(|carried| message_tokens(&carried.message)).sum();
        let Some(room) = left.checked_sub(tokens) else { break };
        (left, from) = (room, reply);
    }
    let rounds = rest.into_iter().skip(from);
    (rounds.len() > 0).then(|| std::iter::once(question).chain(rounds).collect())
}

/// A message as it is carried over: text and calls; results as their stubs.
fn carry(entry: &Entry, message: &Message, id: SessionId) -> CarriedMessage {
    let reference = Place { session: id, seq: entry.seq }.short();
    let mut measures = entry.measure.results.iter();
    let content = message
        .content
        .iter()
        .filter_map(|block| match &block.kind {
            BlockKind::ToolResult(result) => {
                let stub = measures.next().map(|measure| with_reference(&measure.stub, &reference));
                let shorter = stub.filter(|stub| stub.len() < result.text().len());
                let content = match shorter {
                    Some(stub) => vec![Block::text(stub)],
                    None => result.content.clone(),
                };
                let result = ToolResult { content, ..result.clone() };
                Some(Block::of(BlockKind::ToolResult(result)))
            }
            BlockKind::Unknown if block.is_document() => Some(block.clone()),
            BlockKind::Thinking(_) | BlockKind::Unknown => None,
            _ => Some(block.clone()),
        })
        .collect();
    CarriedMessage { reference, message: Message::new(message.role, content) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::entry::PreviousSession;
    use crate::limits::TAIL_TOKENS_MAX;
    use crate::message::Usage;
    use crate::{Fixed, MemoryStore, Owner, Raw};

    fn sessions() -> Sessions {
        let world = Arc::new(Fixed::default());
        let owner = Owner::new("local").expect("valid");
        Sessions::new(Arc::new(MemoryStore::new(world.clone())), owner, world)
    }

    fn restored() -> Restored {
        Restored {
            started: Started { origin: Origin::Compact, from: None, keys: Vec::new() },
            summary: "chose a bucket".into(),
            tail: Vec::new(),
            prompt: "CONTEXT RESTORATION".into(),
            acknowledgment: "Ready.".into(),
            usage: Usage::default(),
            ms: 1,
            model: None,
            previous: PreviousSession::default(),
        }
    }

    fn tail_of(said: Vec<Message>, tokens_max: u32) -> Vec<CarriedMessage> {
        let sessions = sessions();
        let mut thread =
            sessions.open(&Key::new("k").expect("valid"), &New::default()).expect("opened");
        for message in said {
            thread.append(message).expect("appended");
        }
        let id = thread.session().id();
        carried(thread.log(), id, tokens_max)
    }

    #[test]
    fn the_keys_move_to_the_child_and_undo_moves_them_back() {
        let sessions = sessions();
        let key = Key::new("project:/x").expect("valid");
        let parent = sessions.create(&New::default(), Some(&key)).expect("created").id();
        let new = New { system: Some("be brief".into()), ..New::default() };
        let child = sessions
            .restore(Some(parent), Origin::Compact, &new, std::slice::from_ref(&key), restored())
            .expect("restored");
        assert_eq!(sessions.resolve(&key).expect("resolved"), Some(child.id()));
        assert_eq!(child.header.parent, Some(Parent { id: parent, origin: Origin::Compact }));
        assert_eq!(child.tally.queries, 0, "a restoration is not a query");
        sessions.undo(child.id()).expect("undone");
        assert_eq!(sessions.resolve(&key).expect("resolved"), Some(parent));
    }

    #[test]
    fn a_resume_is_undone_to_where_the_key_pointed_before() {
        let sessions = sessions();
        let key = Key::new("project:/x").expect("valid");
        let old = sessions.create(&New::default(), None).expect("created").id();
        let current = sessions.create(&New::default(), Some(&key)).expect("created").id();
        let child = sessions
            .restore(
                Some(old),
                Origin::Resume,
                &New::default(),
                std::slice::from_ref(&key),
                restored(),
            )
            .expect("restored");
        sessions.undo(child.id()).expect("undone");
        assert_eq!(sessions.resolve(&key).expect("resolved"), Some(current));
    }

    #[test]
    fn only_whole_turns_are_carried_the_newest_first_to_fit() {
        let said = || {
            vec![
                Message::user("one"),
                Message::assistant("first answer"),
                Message::user("two"),
                Message::assistant("second answer"),
                Message::user("three, unanswered"),
            ]
        };
        let texts = |tail: Vec<CarriedMessage>| -> Vec<String> {
            tail.iter().map(|carried| carried.message.plain_text()).collect()
        };
        assert_eq!(
            texts(tail_of(said(), TAIL_TOKENS_MAX)),
            ["one", "first answer", "two", "second answer"]
        );
        assert_eq!(texts(tail_of(said(), 4)), ["two", "second answer"]);
        assert!(tail_of(said(), 1).is_empty());
    }

    #[test]
    fn of_a_turn_that_is_too_long_the_question_and_the_last_whole_rounds_are_carried() {
        let round = |n: u32| {
            let input = Raw::of(&serde_json::json!({ "path": format!("file_{n}.rs") }));
            let call = Block::tool_use(format!("c{n}"), "read", input);
            [
                Message::new(Role::Assistant, vec![call]),
                Message::tool_result(format!("c{n}"), format!("text of {n}")),
            ]
        };
        let mut said = vec![Message::user("read everything")];
        said.extend((0..50).flat_map(round));
        said.push(Message::assistant("read"));
        let whole: u32 = said.iter().map(message_tokens).sum();
        assert_eq!(tail_of(said.clone(), whole).len(), said.len());
        let mut lengths = Vec::new();
        for room in (0..whole).step_by(7) {
            let tail = tail_of(said.clone(), room);
            let tokens: u32 = tail.iter().map(|carried| message_tokens(&carried.message)).sum();
            assert!(tokens <= room, "{room}: {tokens}");
            lengths.push(tail.len());
            let Some((question, rounds)) = tail.split_first() else { continue };
            assert!(is_end_of_turn(&question.message), "{question:?}");
            assert!(question.message.plain_text().starts_with("read everything"));
            assert_eq!(rounds.last().expect("the answer").message.plain_text(), "read");
            // Every call that is carried over has its result.
            for (call, answer) in rounds.iter().zip(&rounds[1..]) {
                for call in call.message.calls() {
                    let result = answer.message.results().next().expect("a result");
                    assert_eq!(result.tool_use_id, call.id);
                }
            }
        }
        assert!(lengths.is_sorted() && lengths.iter().any(|length| *length > 60), "{lengths:?}");
    }

    #[test]
    fn a_carried_result_is_its_stub_with_where_the_original_is() {
        let call = Block::tool_use("c1", "grep", Raw::of(&serde_json::json!({"pattern": "x"})));
        let tail = tail_of(
            vec![
                Message::user("find x"),
                Message::new(Role::Assistant, vec![call]),
                Message::tool_result("c1", "a long line of text ".repeat(50)),
                Message::assistant("done"),
            ],
            TAIL_TOKENS_MAX,
        );
        let result = tail[2].message.results().next().expect("a result").text();
        assert!(result.starts_with(r#"{"tool":"grep","status":"success""#), "{result}");
        assert!(result.ends_with(&format!(r#""ref":"{}"}}"#, tail[2].reference)), "{result}");
        assert!(tail[2].reference.ends_with(":2"), "{}", tail[2].reference);
    }
}
