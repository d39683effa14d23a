//! Turns that are in a log, as they were seen when they ran: for `/history` and for coming back.
//!
//! They take the same way as a turn that is watched, from events to lines, so that both look alike.
//! Nothing here writes to a terminal.

use std::time::Instant;

use rethread_agent::Event;
use rethread_core::message::{BlockKind, Call, Message};
use rethread_core::sessions::LOST;
use rethread_core::turn::{Turn, TurnPart};
use rethread_core::{Body, Entry};
use rethread_render::terminal::Style;

use super::paint::Paint;
use super::turn_view::TurnView;
use crate::out::{indented, plural, wrapped};

/// A turn, rendered. `agent` is the name of who answers.
pub(crate) fn turn(turn: &Turn<Entry>, agent: &str, style: &Style) -> String {
    let (now, paint) = (Instant::now(), Paint::of(style));
    let mut view = TurnView::new(agent, "", style.clone(), now);
    let mut calls: Vec<&Call> = Vec::new();
    let mut lines = String::new();
    for entry in turn.entries() {
        match TurnPart::of(&entry.body) {
            TurnPart::Question(message) => lines += &question(message, paint, style.width),
            TurnPart::Reply(message) => {
                for block in &message.content {
                    let event = match &block.kind {
                        BlockKind::Text(text) => Event::Text(text.clone()),
                        BlockKind::Thinking(thinking) => Event::Thinking(thinking.text.clone()),
                        BlockKind::ToolUse(call) => {
                            calls.push(call);
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
                    let event = Event::Result { call, success: !result.is_error, text };
                    lines += &view.event(&event, now);
                }
            }
            TurnPart::RoundLimit(limit) => {
                let notice = Event::Text(format!("\n\n{}", limit.notice()));
                lines += &view.event(&notice, now);
            }
            TurnPart::Finished(_) => {}
            TurnPart::Beside => {
                if let Some(note) = beside(&entry.body) {
                    lines += &view.finish(now);
                    lines += &wrapped(&paint.dim(&note), style.width);
                }
            }
        }
    }
    lines + &view.finish(now)
}

/// What a person asked, and how much was attached to it.
fn question(message: &Message, paint: Paint, columns: usize) -> String {
    let attached = match message.blobs().len() as u64 {
        0 => String::new(),
        some => format!(" ({})", plural(some, "attachment")),
    };
    let text = format!("{} {}{attached}", paint.you("You:"), indented(&message.plain_text()));
    wrapped(&text, columns)
}

/// What happened beside the turns, as far as it explains what follows.
fn beside(body: &Body) -> Option<String> {
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
    use rethread_core::{Fixed, MemoryStore, New, Owner, Sessions};
    use serde_json::json;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_turn_looks_as_it_did_and_nothing_in_it_drives_the_terminal() {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let id = sessions.create(&New::default(), None).expect("created").id();
        let said = [
            json!({"role": "user", "content": "look\u{1b}[2J\nat it"}),
            json!({"role": "assistant", "content": [
                {"type": "text", "text": "I **look**."},
                {"type": "tool_use", "id": "1", "name": "read_file", "input": {"path": "a.txt"}}]}),
            json!({"role": "tool", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "one\ntwo\n"}]}),
            json!({"role": "assistant", "content": "Done."}),
        ];
        for message in said {
            let message: Message = serde_json::from_value(message).expect("a message");
            sessions.append(id, vec![message.into()]).expect("stored");
        }
        let entries = sessions.read(id, 0..9).expect("read");
        let turns = turns(entries);
        let shown: String = turns.iter().map(|it| turn(it, "build", &Style::plain(40))).collect();
        assert_eq!(
            shown,
            "You: look\\u{1b}[2J\n  at it\n\nbuild:\nI look.\n\n  read a.txt · 2 lines\n\nDone.\n\n"
        );
    }
}
