//! The questions of a folder's sessions, for Up and Ctrl-R.
//!
//! They are read from the logs, so there is no separate history file to protect, or to clean when a
//! session is deleted. They are read on a separate thread, so the prompt does not wait. Imported
//! sessions are left out: their text may come from anyone. What the others say is recalled as data,
//! like a paste, because programs write to logs as well.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rethread_core::Sessions;
use rethread_core::store::Filter;
use tokio::sync::oneshot;

use super::past_questions::QUESTION_BYTES_MAX;

/// Sessions that are read, the newest first, and entries of each, from its end.
const SESSIONS_MAX: usize = 100;
const ENTRIES_MAX: u64 = 500;

/// The time limit. A slow store is not read any longer than this.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Reads the questions of a folder's sessions, the oldest first.
pub(super) fn load(
    sessions: Sessions,
    workspace: Option<String>,
) -> oneshot::Receiver<Vec<String>> {
    let (sender, receiver) = oneshot::channel();
    // The chat may be over by then.
    std::thread::spawn(move || drop(sender.send(questions(&sessions, workspace))));
    receiver
}

fn questions(sessions: &Sessions, workspace: Option<String>) -> Vec<String> {
    let began = Instant::now();
    let filter = Filter { workspace, ..Filter::default() };
    // Errors are ignored: what cannot be read cannot be recalled.
    let page = sessions.list(&filter, None, SESSIONS_MAX);
    let mut found: Vec<(Timestamp, String)> = Vec::new();
    for session in page.map(|page| page.sessions).unwrap_or_default() {
        if session.header.imported.is_some() {
            continue;
        }
        if began.elapsed() > TIME_MAX {
            break;
        }
        let end = session.tally.entries;
        let range = end.saturating_sub(ENTRIES_MAX)..end;
        for entry in sessions.entries(session.id(), range).skip_damaged().flatten() {
            let message = entry.body.message().filter(|message| message.opens_turn());
            let text = message.map(|message| message.plain_text()).unwrap_or_default();
            if !text.is_empty() && text.len() <= QUESTION_BYTES_MAX {
                found.push((entry.at, text));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, text)| text).collect()
}
