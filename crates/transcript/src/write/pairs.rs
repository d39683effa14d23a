//! Makes messages valid for an API: every call has a result right after it, and every result a call.
//!
//! A result belongs to the reply right before it, or to one of several consecutive replies with
//! calls, as in a context: some programs store parallel calls as one message each. Such replies are
//! held until it is known which results they got.

use std::collections::BTreeMap;

use rethread_core::entry::Body;
use rethread_core::log::interrupted_result;
use rethread_core::message::{Block, BlockKind, Role};
use rethread_core::{Entry, Message};

/// Walks through a log.
#[derive(Default)]
pub(super) struct Pairs {
    /// The last replies with calls. All of them were written before the first of their results.
    waiting: Vec<Round>,
    /// Whether one of them has a result.
    answered: bool,
    pub(super) left_out: BTreeMap<&'static str, u64>,
}

/// A reply with calls, and their results so far.
struct Round {
    reply: Message,
    /// Calls without a result.
    open: Vec<String>,
    answers: Vec<Message>,
    /// Messages that were stored before the results: instructions, for example.
    after: Vec<Message>,
}

impl Pairs {
    /// The messages of an entry, preceded by those that have to come first. A reply with calls comes
    /// later, with its results.
    pub(super) fn entry(&mut self, entry: &Entry) -> Vec<Message> {
        match &entry.body {
            Body::Message(message) => self.message(message),
            Body::Restored(restored) => {
                let tail = restored.tail.iter().map(|carried| carried.message.clone());
                let asked = Message::user(&restored.prompt);
                let said = Message::assistant(&restored.acknowledgment);
                let all: Vec<Message> = tail.chain([asked, said]).collect();
                all.iter().flat_map(|message| self.message(message)).collect()
            }
            _ => {
                self.leave("bookkeeping entry");
                Vec::new()
            }
        }
    }

    /// The messages that have to come at the end.
    pub(super) fn finish(&mut self) -> Vec<Message> {
        self.answered = false;
        let rounds = std::mem::take(&mut self.waiting).into_iter();
        let messages = rounds.flat_map(|round| {
            let interrupted = round.open.into_iter().map(interrupted_result);
            let reply = std::iter::once(round.reply);
            reply.chain(round.answers).chain(interrupted).chain(round.after)
        });
        messages.collect()
    }

    fn message(&mut self, message: &Message) -> Vec<Message> {
        let calls: Vec<String> = message.calls().map(|call| call.id.clone()).collect();
        let content = self.content_of(message);
        let rest = (!content.is_empty()).then(|| Message::new(message.role, content));
        if !calls.is_empty() {
            // Calls after a result are those of the next round.
            let parallel = message.role == Role::Assistant && !self.answered;
            let said = if parallel { Vec::new() } else { self.finish() };
            let reply = rest.expect("it has calls");
            let (answers, after) = (Vec::new(), Vec::new());
            self.waiting.push(Round { reply, open: calls, answers, after });
            return said;
        }
        // A reply or a question closes open calls; tool results do not.
        if message.role == Role::Assistant || message.opens_turn() {
            let mut said = self.finish();
            said.extend(rest);
            return said;
        }
        match self.waiting.last_mut() {
            Some(round) => {
                round.after.extend(rest);
                Vec::new()
            }
            None => rest.into_iter().collect(),
        }
    }

    /// What is left of a message when each result has been given to its call.
    fn content_of(&mut self, message: &Message) -> Vec<Block> {
        let mut content = Vec::new();
        for block in &message.content {
            match &block.kind {
                BlockKind::ToolResult(result) => {
                    let open = self.waiting.iter_mut().find_map(|round| {
                        let at = round.open.iter().position(|id| *id == result.tool_use_id)?;
                        round.open.remove(at);
                        Some(round)
                    });
                    match open {
                        Some(round) => {
                            self.answered = true;
                            round.answers.push(Message::new(message.role, vec![block.clone()]));
                        }
                        None => self.leave("unmatched result"),
                    }
                }
                BlockKind::Text(text) | BlockKind::Prefix(text) if text.is_empty() => {}
                BlockKind::Thinking(_) => self.leave("thinking block"),
                BlockKind::Unknown => self.leave("unknown block"),
                _ => content.push(block.clone()),
            }
        }
        content
    }

    pub(super) fn leave(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::Raw;

    use super::*;

    fn calls(ids: &[&str]) -> Message {
        let call = |id: &&str| Block::tool_use(*id, "grep", Raw::of(&serde_json::json!({})));
        Message::new(Role::Assistant, ids.iter().map(call).collect())
    }

    /// What an API would be sent: calls, results and texts, in order.
    fn paired(messages: &[Message]) -> String {
        let mut pairs = Pairs::default();
        let mut all: Vec<Message> =
            messages.iter().flat_map(|message| pairs.message(message)).collect();
        all.extend(pairs.finish());
        assert_eq!(pairs.left_out, BTreeMap::new());
        let shown =
            all.iter().flat_map(|message| &message.content).map(|block| match &block.kind {
                BlockKind::ToolUse(call) => format!("call {}", call.id),
                BlockKind::ToolResult(result) => {
                    format!("{}={}", result.tool_use_id, result.text())
                }
                _ => block.as_text().unwrap_or_default().to_owned(),
            });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn parallel_calls_stored_as_two_messages_keep_both_results() {
        let (one, two) = (Message::tool_result("c1", "one"), Message::tool_result("c2", "two"));
        let asked = Message::user("go");
        let all = [asked.clone(), calls(&["c1"]), calls(&["c2"]), one.clone(), two.clone()];
        assert_eq!(paired(&all), "go, call c1, c1=one, call c2, c2=two");
        let all = [asked.clone(), calls(&["c1"]), calls(&["c2"]), two.clone(), one.clone()];
        assert_eq!(paired(&all), "go, call c1, c1=one, call c2, c2=two");
        let all = [asked, calls(&["c1", "c2"]), two, Message::system("note"), one];
        assert_eq!(paired(&all), "go, call c1, call c2, c2=two, c1=one, note");
    }

    #[test]
    fn a_call_that_the_next_round_or_question_found_open_was_interrupted() {
        let one = || Message::tool_result("c1", "one");
        let next = paired(&[calls(&["c1"]), calls(&["c2"]), one(), calls(&["c3"])]);
        let (known, rest) = next.split_once("c2=").expect("it has a result");
        assert_eq!(known, "call c1, c1=one, call c2, ");
        assert!(rest.contains("interrupted") && rest.contains("call c3"), "{next}");
        let asked = paired(&[calls(&["c1"]), Message::user("well?")]);
        assert!(asked.contains("interrupted") && asked.ends_with(", well?"), "{asked}");
    }
}
