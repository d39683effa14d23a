//! Renders turns of a log as they looked when they ran: for `/history` and when a session is
//! opened.
//!
//! They use the same code as a turn that is watched, from events to lines, so that both look alike.
//! Nothing here writes to a terminal.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use rethread_agent::tool::FileChange;
use rethread_agent::{Event, FileChanged};
use rethread_core::message::{BlockKind, Call, Message};
use rethread_core::sessions::{self, LOST};
use rethread_core::turn::{Turn, TurnPart};
use rethread_core::{BlobId, Body, Entry, SessionId, Sessions, StoreError};
use rethread_render::terminal::Style;

use super::paint::Paint;
use super::turn_view::TurnView;
use crate::out::{indented, plural, wrapped};

/// What is said of a call whose result is not in the log, and will not be.
const NO_RESULT: &str = "no result: it was interrupted";

/// Calls whose results are not in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenCalls {
    /// A turn is running in the session: their results may come.
    Running,
    Interrupted,
}

impl OpenCalls {
    /// Those of the last turn of a session.
    pub(crate) fn of(turn: &Turn<Entry>, sessions: &Sessions, id: SessionId) -> OpenCalls {
        let messages = || turn.entries().iter().filter_map(|entry| entry.body.message());
        let has_result = |call: &Call| {
            messages().any(|message| message.results().any(|result| result.tool_use_id == call.id))
        };
        let is_open = messages().any(|message| message.calls().any(|call| !has_result(call)));
        // Whether a turn runs is asked only where it matters.
        match is_open.then(|| sessions.is_free(id)) {
            Some(Err(sessions::Error::Store(StoreError::Held { .. }))) => OpenCalls::Running,
            _ => OpenCalls::Interrupted,
        }
    }
}

/// Bytes of changed files that are read to count their lines; of what is beyond, the arguments of
/// the calls are counted. A turn that edits thousands of lines a hundred times stays below.
const CHANGES_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// The changes to files that a log has recorded, by the position of their entries.
#[derive(Default)]
pub(crate) struct RecordedChanges(HashMap<u64, Arc<FileChange>>);

impl RecordedChanges {
    /// Reads what these entries refer to. What is lost is left out.
    pub(crate) fn read<'a>(
        sessions: &Sessions,
        id: SessionId,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> RecordedChanges {
        let mut room = CHANGES_BYTES_MAX;
        let blob = |blob: BlobId| sessions.blob(id, blob).ok();
        let change = |entry: &Entry| {
            let FileChanged { path, before, after, .. } =
                FileChanged::of(&entry.body).filter(|_| room > 0)?;
            let (before, after) = (blob(before?)?, String::from_utf8(blob(after?)?).ok()?);
            room = room.saturating_sub(before.len() + after.len());
            let change = FileChange { path: path.into(), before: Some(before), after };
            Some((entry.seq, Arc::new(change)))
        };
        RecordedChanges(entries.into_iter().filter_map(change).collect())
    }
}

/// A turn, rendered. `agent` is the name of the agent.
pub(crate) fn turn(
    turn: &Turn<Entry>,
    changes: &RecordedChanges,
    agent: &str,
    style: &Style,
    open_calls: OpenCalls,
) -> String {
    let (now, paint) = (Instant::now(), Paint::of(style));
    let mut view = TurnView::new(agent, "", style.clone(), now);
    let (mut calls, mut open): (Vec<&Call>, Vec<&Call>) = (Vec::new(), Vec::new());
    // By the call that is about to make them.
    let mut changed: HashMap<String, Arc<FileChange>> = HashMap::new();
    let mut lines = String::new();
    for entry in turn.entries() {
        if let Some(change) = changes.0.get(&entry.seq)
            && let Some(call) = FileChanged::of(&entry.body).and_then(|changed| changed.call)
        {
            changed.insert(call, Arc::clone(change));
        }
        match TurnPart::of(&entry.body) {
            TurnPart::Question(message) => lines += &question(message, paint, style.width),
            TurnPart::Reply(message) => {
                for block in &message.content {
                    let event = match &block.kind {
                        BlockKind::Text(text) => Event::Text(text.clone()),
                        BlockKind::Thinking(thinking) => Event::Thinking(thinking.text.clone()),
                        BlockKind::ToolUse(call) => {
                            calls.push(call);
                            open.push(call);
                            Event::Call(call.clone())
                        }
                        _ => continue,
                    };
                    lines += &view.event(&event, now);
                }
            }
            TurnPart::Results(message) => {
                for result in message.results() {
                    let Some(call) = calls.iter().rev().find(|call| call.id == result.tool_use_id)
                    else {
                        continue;
                    };
                    let (call, text) = ((*call).clone(), result.text());
                    let success = !result.is_error;
                    let change = changed.remove(&call.id).filter(|_| success);
                    let event = Event::Result { call, success, text, change };
                    lines += &view.event(&event, now);
                    open.retain(|call| call.id != result.tool_use_id);
                }
            }
            TurnPart::RoundLimit(limit) => {
                let notice = Event::Text(format!("\n\n{}", limit.notice()));
                lines += &view.event(&notice, now);
            }
            TurnPart::Finished(_) => {}
            TurnPart::Outside => {
                if let Some(note) = between_turns(&entry.body) {
                    lines += &view.finish(now);
                    lines += &wrapped(&paint.dim(&note), style.width);
                }
            }
        }
    }
    for call in open {
        lines += &match open_calls {
            OpenCalls::Running => view.runs_elsewhere(call),
            OpenCalls::Interrupted => {
                let (call, text) = (call.clone(), NO_RESULT.to_owned());
                view.event(&Event::Result { call, success: false, text, change: None }, now)
            }
        };
    }
    lines + &view.finish(now)
}

/// The user's question, and how much was attached to it.
fn question(message: &Message, paint: Paint, columns: usize) -> String {
    let attached = match message.blobs().len() as u64 {
        0 => String::new(),
        some => format!(" ({})", plural(some, "attachment")),
    };
    let text = format!("{} {}{attached}", paint.you("You:"), indented(&message.plain_text()));
    wrapped(&text, columns)
}

/// What happened between turns, if it explains what follows.
fn between_turns(body: &Body) -> Option<String> {
    Some(match body {
        Body::Cleared { .. } => "(the context was cleared here)".into(),
        Body::Undone { .. } => "(the clear was undone)".into(),
        Body::LeftOut(_) => "(this turn was refused, and is left out from now on)".into(),
        Body::Restored(restored) => {
            format!("(continued from a summary)\n{}", indented(&restored.acknowledgment))
        }
        Body::Unknown { kind, .. } if kind == LOST => {
            "(an entry is damaged and cannot be read: `rethread doctor` says more)".into()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use rethread_core::turn::turns;
    use rethread_core::{Fixed, MemoryStore, New, Owner};
    use serde_json::json;

    use super::*;

    /// A log with these messages, rendered.
    fn shown(said: Vec<serde_json::Value>) -> String {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let id = sessions.create(&New::default(), None).expect("created").id();
        for message in said {
            let message: Message = serde_json::from_value(message).expect("a message");
            sessions.append(id, vec![message.into()]).expect("stored");
        }
        let turns = turns(sessions.read(id, 0..9).expect("read"));
        let changes = RecordedChanges::default();
        let open = OpenCalls::of(turns.last().expect("a turn"), &sessions, id);
        turns.iter().map(|it| turn(it, &changes, "build", &Style::plain(60), open)).collect()
    }

    #[test]
    fn a_call_that_was_cut_off_is_shown_too() {
        let call = |id: &str, path: &str| json!({"type": "tool_use", "id": id, "name": "edit_file", "input": {"path": path, "old": "a", "new": "b"}});
        let said = vec![
            json!({"role": "user", "content": "edit"}),
            json!({"role": "assistant", "content": [call("1", "a.txt"), call("2", "b.txt")]}),
            json!({"role": "tool", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "replaced once in `a.txt`"}]}),
        ];
        assert_eq!(
            shown(said),
            "You: edit\n\nbuild:\n  edit a.txt · +1 −1\n  edit b.txt · ✗ no result: it was interrupted\n\n"
        );
    }

    #[test]
    fn a_turn_looks_as_it_did_and_nothing_in_it_drives_the_terminal() {
        let said = vec![
            json!({"role": "user", "content": "look\u{1b}[2J\nat it"}),
            json!({"role": "assistant", "content": [
                {"type": "text", "text": "I **look**."},
                {"type": "tool_use", "id": "1", "name": "read_file", "input": {"path": "a.txt"}}]}),
            json!({"role": "tool", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "one\ntwo\n"}]}),
            json!({"role": "assistant", "content": "Done."}),
        ];
        assert_eq!(
            shown(said),
            "You: look\\u{1b}[2J\n  at it\n\nbuild:\nI look.\n\n  read a.txt · 2 lines\n\nDone.\n\n"
        );
    }
}
