//! The last turns of a session, shown when it is opened.
//!
//! Reads the end of a log, however long the log is, and turns it into lines: turns as they looked
//! when they ran (`chat/replay.rs`), with their age, and with the middle of long ones left out.
//! Nothing here affects what a model sees, and nothing is written to the terminal.

use jiff::Timestamp;
use rethread_core::turn::{Turn, TurnPart, turns};
use rethread_core::{Body, Entry, Session, Sessions, sessions};
use rethread_render::terminal::Style;

use crate::chat::paint::Paint;
use crate::chat::replay::{self, OpenCalls, RecordedChanges};
use crate::out::{ago, clean, fit, plural};

/// Turns that are shown when a session is opened: the last one, and the one before it for context.
pub(crate) const TURNS: usize = 2;

/// Lines of a turn that are shown.
pub(crate) const TURN_LINES: usize = 40;

/// Entries that are read, at most. A turn with hundreds of tool calls is shown from the middle on.
const ENTRIES_MAX: usize = 1_024;

/// The last turns of a session.
pub(crate) struct LastTurns {
    turns: Vec<Turn<Entry>>,
    changes: RecordedChanges,
    /// Those of the last of them.
    open_calls: OpenCalls,
    /// Turns before these, since the last clear or before it.
    pub(crate) earlier: u64,
    agent: String,
}

/// The style of the lines.
pub(crate) struct Shape<'a> {
    pub(crate) style: &'a Style,
    pub(crate) now: Timestamp,
    /// Lines of one turn; the middle of a longer one is left out.
    pub(crate) turn_lines: usize,
}

impl LastTurns {
    /// Reads the last `most` turns since the last clear.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session;
    /// otherwise I/O errors.
    pub(crate) fn read(
        sessions: &Sessions,
        session: &Session,
        most: usize,
    ) -> sessions::Result<LastTurns> {
        let range = session.tally.begins()..session.tally.entries;
        let (mut entries, mut questions) = (Vec::new(), 0);
        for entry in sessions.entries(session.id(), range).skip_damaged().rev() {
            let entry = entry?;
            questions += usize::from(matches!(TurnPart::of(&entry.body), TurnPart::Question(_)));
            entries.push(entry);
            if questions == most || entries.len() == ENTRIES_MAX {
                break;
            }
        }
        entries.reverse();
        let changes = RecordedChanges::read(sessions, session.id(), &entries);
        let mut turns = turns(entries);
        turns.retain(|turn| turn.entries().iter().any(|entry| says_something(&entry.body)));
        let last = turns.last().map(|turn| OpenCalls::of(turn, sessions, session.id()));
        Ok(LastTurns {
            turns,
            changes,
            open_calls: last.unwrap_or(OpenCalls::Interrupted),
            earlier: session.tally.queries.saturating_sub(questions as u64),
            agent: session.header.profile.agent.clone().unwrap_or_else(|| "assistant".into()),
        })
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The turns as lines, with a blank line between them. No line is wider than the style says.
    pub(crate) fn lines(&self, shape: &Shape<'_>) -> Vec<String> {
        let paint = Paint::of(shape.style);
        let mut lines = Vec::new();
        for (index, turn) in self.turns.iter().enumerate() {
            let open_calls = match index + 1 == self.turns.len() {
                true => self.open_calls,
                false => OpenCalls::Interrupted,
            };
            if !lines.is_empty() {
                lines.push(String::new());
            }
            if let Some(first) = turn.entries().first() {
                lines.push(paint.dim(&since(first.at, shape.now)));
            }
            let rendered = replay::turn(turn, &self.changes, &self.agent, shape.style, open_calls);
            let rendered: Vec<&str> = rendered.trim_end_matches('\n').lines().collect();
            lines.extend(folded(&rendered, shape.turn_lines, paint));
            if turn.question().is_some() && !turn.has_answer() {
                lines.push(paint.dim("(no answer)"));
            }
        }
        lines
    }
}

fn says_something(body: &Body) -> bool {
    matches!(body, Body::Restored(_)) || TurnPart::of(body) != TurnPart::Outside
}

/// The first and the last lines of a turn.
fn folded(lines: &[&str], most: usize, paint: Paint) -> Vec<String> {
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let most = most.max(3);
    if lines.len() <= most {
        return owned(lines);
    }
    let last = most / 2;
    let (first, left_out) = (most - 1 - last, lines.len() - (most - 1));
    let mut folded = owned(&lines[..first]);
    folded.push(paint.dim(&format!("… {}", plural(left_out as u64, "more line"))));
    folded.extend(owned(&lines[lines.len() - last..]));
    folded
}

/// Characters of a title in the line that says which session is opened.
const TITLE_CHARS: usize = 60;

/// The line that says which session was opened: `Continuing TITLE · 14 turns, last active 3h ago`.
pub(crate) fn heading(session: &Session, now: Timestamp) -> String {
    let title = session.title().map(|title| fit(&title, TITLE_CHARS));
    let name = title.unwrap_or_else(|| clean(session.header.name.as_str()));
    match session.tally.queries {
        0 => format!("Continuing {name} · no questions yet"),
        queries => {
            let when = since(session.last_activity_at, now);
            format!("Continuing {name} · {}, last active {when}", plural(queries, "turn"))
        }
    }
}

/// The age, in words.
fn since(at: Timestamp, now: Timestamp) -> String {
    match ago(at, now).as_str() {
        "now" => "just now".into(),
        when => when.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::SessionId;
    use rethread_core::{
        Block, Fixed, Incoming, MemoryStore, Message, New, Owner, Profile, Raw, Role,
    };
    use serde_json::json;

    use super::*;

    fn session_with(messages: Vec<Message>) -> (Sessions, SessionId) {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let profile = Profile { agent: Some("build".into()), ..Profile::default() };
        let new = New { profile, ..New::default() };
        let id = sessions.create(&new, None).expect("created").id();
        sessions.append(id, messages.into_iter().map(Incoming::from).collect()).expect("appended");
        (sessions, id)
    }

    fn shown(sessions: &Sessions, id: SessionId, most: usize, turn_lines: usize) -> String {
        let session = sessions.get(id).expect("it is there");
        let last = LastTurns::read(sessions, &session, most).expect("read");
        let style = Style::plain(40);
        let now = session.last_activity_at + jiff::SignedDuration::from_hours(3);
        last.lines(&Shape { style: &style, now, turn_lines }).join("\n")
    }

    fn calls(name: &str, input: serde_json::Value) -> Message {
        Message::new(Role::Assistant, vec![Block::tool_use("1", name, Raw::of(&input))])
    }

    #[test]
    fn only_the_last_turns_are_shown_with_their_calls_on_one_line() {
        let (sessions, id) = session_with(vec![
            Message::user("first"),
            Message::assistant("one"),
            Message::user("second"),
            Message::assistant("two"),
            Message::user("third"),
            calls("read_file", json!({"path": "a.txt"})),
            Message::tool_result("1", "one\ntwo\n"),
            Message::assistant("**three**"),
        ]);
        assert_eq!(
            shown(&sessions, id, 2, 20),
            "3h ago\nYou: second\n\nbuild:\ntwo\n\n3h ago\nYou: third\n\nbuild:\n  read a.txt · 2 \
             lines\n\nthree"
        );
        let session = sessions.get(id).expect("it is there");
        assert_eq!(LastTurns::read(&sessions, &session, 2).expect("read").earlier, 1);
    }

    #[test]
    fn a_long_turn_keeps_its_first_and_last_lines() {
        let text: Vec<String> = (1..=30).map(|n| format!("line {n}")).collect();
        let (sessions, id) = session_with(vec![Message::user(text.join("\n"))]);
        assert_eq!(
            shown(&sessions, id, 1, 6),
            "3h ago\nYou: line 1\n  line 2\n… 25 more lines\n  line 28\n  line 29\n  line 30\n\
             (no answer)"
        );
    }

    #[test]
    fn what_was_said_never_drives_the_terminal() {
        let (sessions, id) = session_with(vec![
            Message::user("a\x1b[2Jb\rc"),
            Message::assistant("d\x1b]0;title\x07e"),
        ]);
        let shown = shown(&sessions, id, 1, 20);
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
        assert!(shown.contains("a\\u{1b}[2Jb") && shown.contains("d\\u{1b}]0;title"), "{shown:?}");
    }

    #[test]
    fn what_was_cleared_is_not_shown() {
        let (sessions, id) = session_with(vec![Message::user("before"), Message::assistant("yes")]);
        sessions.clear(id).expect("cleared");
        assert_eq!(shown(&sessions, id, 2, 20), "");
        let session = sessions.get(id).expect("it is there");
        assert_eq!(LastTurns::read(&sessions, &session, 2).expect("read").earlier, 1);
    }
}
