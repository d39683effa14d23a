//! The names a conversation works with: paths, identifiers and numbers that a session which
//! continues it is likely to need.
//!
//! A summary says what was done and loses most names. They are short, and which ones come up again
//! can be predicted well: those that the model and the user wrote often and recently, then those in
//! results. The choice is a pure function of the log. A name consists of letters, digits and `_ / .
//! -`, so a list of names cannot contain a marker, a line break or a control character.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::entry::{Body, CarriedMessage};
use crate::identifiers::identifiers;
use crate::log::Log;
use crate::message::{BlockKind, Message, Role};
use crate::tokens::count;
use crate::turn::left_out;

/// The weight of a name in a message, and in a result. Results are full of names; about one in
/// eight is used later.
const SAID: u64 = 10;
const SHOWN: u64 = 3;

/// Replies after which a name has half the weight that it has in the last one.
const HALF_AFTER_REPLIES: u64 = 10;

/// Characters that are added to the length of every name when its weight is divided by its length:
/// otherwise, short names would always win.
const LENGTH_EXTRA: u64 = 20;

/// Tokens of the separator between two names.
const SEPARATOR_TOKENS: u32 = 1;

/// Tokens of the shortest name: with less room than this, none fits.
const NAME_TOKENS_MIN: u32 = 2;

/// Scales fractions to integers, so that sums are exact enough.
const SCALE: u64 = 1_000_000;

/// The statistics of a name.
#[derive(Default)]
struct Use {
    worth: u64,
    /// The last entry that has it.
    seq: u64,
}

/// The names used in the last turns of a log, those most likely to be needed again first, in at
/// most this many tokens. Names in `tail`, which is carried over anyway, are not repeated.
pub fn identifiers_in_use(log: &Log, tail: &[CarriedMessage], tokens_max: u32) -> Vec<String> {
    let mut uses = uses(log);
    for (_, text) in tail.iter().flat_map(|carried| texts(&carried.message)) {
        for name in identifiers(&text) {
            uses.remove(name);
        }
    }
    let mut ranked: Vec<(Reverse<u64>, Reverse<u64>, String)> = uses
        .into_iter()
        .map(|(name, Use { worth, seq })| {
            let worth = worth * 1_000 / (name.len() as u64 + LENGTH_EXTRA);
            (Reverse(worth), Reverse(seq), name)
        })
        .collect();
    ranked.sort_unstable();
    let mut left = tokens_max;
    let mut chosen = Vec::new();
    for (_, _, name) in ranked {
        if left < NAME_TOKENS_MIN {
            break;
        }
        if let Some(rest) = left.checked_sub(count(&name) + SEPARATOR_TOKENS) {
            left = rest;
            chosen.push(name);
        }
    }
    chosen
}

/// Counts the names since the last clear, from the end backwards.
fn uses(log: &Log) -> HashMap<String, Use> {
    let begins = log.tally().begins();
    let since = || log.entries().iter().filter(|entry| entry.seq >= begins);
    let left_out = left_out(since());
    let mut uses = HashMap::new();
    let mut replies = 0;
    for entry in since().rev() {
        if entry.tally.turn.is_some_and(|turn| left_out.contains(&turn)) {
            continue;
        }
        let mut add = |message: &Message| {
            add(&mut uses, message, entry.seq, replies);
            replies += u64::from(message.role == Role::Assistant);
        };
        match &entry.body {
            Body::Message(message) if message.role != Role::System => add(message),
            Body::Restored(restored) => {
                restored.tail.iter().rev().for_each(|carried| add(&carried.message));
            }
            _ => {}
        }
    }
    uses
}

fn add(uses: &mut HashMap<String, Use>, message: &Message, seq: u64, replies_since: u64) {
    let texts = texts(message);
    for weight in [SAID, SHOWN] {
        let texts = texts.iter().filter(|(counts, _)| *counts == weight);
        let once: HashSet<&str> = texts.flat_map(|(_, text)| identifiers(text)).collect();
        for name in once {
            let known = uses.entry(name.to_owned()).or_default();
            known.worth += weight * SCALE / (replies_since + HALF_AFTER_REPLIES);
            known.seq = known.seq.max(seq);
        }
    }
}

/// The texts of a message, with the weight of a name in them.
fn texts(message: &Message) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for block in &message.content {
        match &block.kind {
            BlockKind::Text(text) | BlockKind::Prefix(text) => found.push((SAID, text.clone())),
            BlockKind::ToolUse(call) => {
                strings(&serde_json::from_str(call.input.get()).unwrap_or_default(), &mut found);
            }
            BlockKind::ToolResult(result) => found.push((SHOWN, result.text())),
            _ => {}
        }
    }
    found
}

fn strings(value: &Value, found: &mut Vec<(u64, String)>) {
    match value {
        Value::String(text) => found.push((SAID, text.clone())),
        Value::Number(number) => found.push((SAID, number.to_string())),
        Value::Array(values) => values.iter().for_each(|value| strings(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::limits::TAIL_TOKENS_MAX;
    use crate::measure::message_tokens;
    use crate::message::Block;
    use crate::sessions::carried;
    use crate::{Fixed, MemoryStore, New, Owner, Raw, Sessions, Thread};

    fn talked(said: Vec<Message>) -> Thread {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let id = sessions.create(&New::default(), None).expect("created").id();
        let mut thread = sessions.thread(id).expect("opened");
        for message in said {
            thread.append(message).expect("appended");
        }
        thread
    }

    fn call(input: serde_json::Value) -> Message {
        Message::new(Role::Assistant, vec![Block::tool_use("c1", "edit", Raw::of(&input))])
    }

    #[test]
    fn what_was_spelt_often_and_lately_comes_before_what_a_result_showed_once() {
        let mut said = vec![Message::user("look at src/old.rs")];
        said.extend((0..40).map(|_| Message::assistant("still reading")));
        said.extend([
            Message::user("now fix fold_marks in src/queue.rs"),
            call(json!({ "path": "src/queue.rs", "new": "let a = fold_marks();\ncheck_tail();" })),
            Message::tool_result("c1", "shown_once"),
            Message::assistant("fold_marks is fixed"),
        ]);
        let thread = talked(said);
        let all = identifiers_in_use(thread.log(), &[], 1_000);
        assert_eq!(all, ["fold_marks", "src/queue.rs", "check_tail", "shown_once", "src/old.rs"]);
    }

    #[test]
    fn the_names_fit_the_room_and_are_the_same_every_time() {
        let text = |n: u32| format!("see module_{n}/file_{n}.rs and value_{n}");
        let said = (0..200).flat_map(|n| [Message::user(text(n)), Message::assistant(text(n + 1))]);
        let thread = talked(said.collect());
        for room in [0, 1, 2, 10, 99, 100, 101, 700] {
            let names = identifiers_in_use(thread.log(), &[], room);
            assert!(count(&names.join(", ")) <= room, "{room}: {names:?}");
            assert_eq!(names.is_empty(), room < 10, "{room}: {names:?}");
            assert_eq!(names, identifiers_in_use(thread.log(), &[], room));
        }
    }

    #[test]
    fn names_that_are_carried_over_cleared_or_left_out_are_not_listed() {
        let mut thread = talked(vec![Message::user("see gone_1"), Message::assistant("yes")]);
        thread.note(Body::Cleared { before: None }).expect("cleared");
        for text in ["see kept_1", "and taken_back_1", "and carried_1"] {
            thread.append(Message::user(text)).expect("appended");
            thread.append(Message::assistant("yes")).expect("appended");
        }
        let turn = thread.log().entries()[5].seq;
        let why = "it was asked again".into();
        thread.note(Body::LeftOut(crate::entry::LeftOut { turn, why })).expect("noted");
        let id = thread.session().id();
        let last = [Message::user("and carried_1"), Message::assistant("yes")];
        let tail = carried(thread.log(), id, last.iter().map(message_tokens).sum());
        assert_eq!(tail.len(), 2, "{tail:?}");
        assert_eq!(identifiers_in_use(thread.log(), &tail, 100), ["kept_1"]);
        let all = carried(thread.log(), id, TAIL_TOKENS_MAX);
        assert!(identifiers_in_use(thread.log(), &all, 100).is_empty());
    }
}
